"""The five aggregation formulas on a case that distinguishes them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncfl.defences import Buffer, Mean, Median
from asyncfl.server.model_step import next_model, weights

MODES = {"delta": 2.25, "mix": 1.75, "normalised": 1.6666667, "alg4_literal": 3.25, "eq6_literal": 1.25}


def column(*values: float) -> np.ndarray:
    return np.array(values, np.float32)[:, None]


def buffer(current: np.ndarray, models: np.ndarray, bases: list[np.ndarray], base_of: np.ndarray) -> Buffer:
    zeros = np.zeros(len(models), dtype=np.int64)
    return Buffer(0, current, models, tuple(bases), base_of, zeros, np.arange(len(models)), zeros + 1, zeros * 0.0)


@pytest.mark.parametrize(("mode", "value"), MODES.items())
def test_aggregation_formulas_on_a_case_by_hand(mode: str, value: float) -> None:
    factors = weights(np.array([600, 600]), np.array([1.0, 0.5]))
    bases = list(column(2.0, 0.0))
    updates = buffer(column(2.0)[0], column(1.0, 3.0), bases, np.array([0, 1]))
    assert next_model(updates, factors, Mean(), mode=mode).model == pytest.approx([value], rel=1e-6)


@pytest.mark.parametrize(("mode", "fixed"), [(name, name in ("delta", "mix", "normalised")) for name in MODES])
def test_only_literal_aggregations_move_a_model_that_all_updates_equal(mode: str, fixed: bool) -> None:
    model = column(2.0)[0]
    factors = weights(np.array([1, 3]), np.array([1.0, 0.5]))
    updates = buffer(model, column(2.0, 2.0), [model], np.array([0, 0]))
    assert (next_model(updates, factors, Mean(), mode=mode).model == pytest.approx([2.0])) == fixed


@given(st.lists(st.tuples(st.integers(1, 50), st.floats(0.01, 1)), min_size=1, max_size=8))
def test_weights_add_up_to_one_when_fresh_and_to_less_when_stale(updates: list[tuple[int, float]]) -> None:
    samples, staleness = (np.array(column) for column in zip(*updates, strict=True))
    assert weights(samples, np.ones(len(samples))).sum() == pytest.approx(1)
    assert weights(samples, staleness).sum() <= 1 + 1e-12
    assert weights(samples, staleness, "weight_sum").sum() == pytest.approx(1)


@given(st.integers(0, 2**20), st.integers(1, 5), st.floats(0.1, 2))
def test_the_shortcut_for_the_mean_is_the_rule_on_differences(seed: int, count: int, rate: float) -> None:
    random = np.random.default_rng(seed)
    models = random.normal(size=(count, 7)).astype(np.float32)
    bases = list(random.normal(size=(2, 7)).astype(np.float32))
    base_of = random.integers(2, size=count)
    current = random.normal(size=7).astype(np.float32)
    factors = random.random(count)
    kept = models.copy(), current.copy(), [base.copy() for base in bases]
    updates = buffer(current, models, bases, base_of)
    result = next_model(updates, factors, Mean(), rate=rate).model
    np.testing.assert_allclose(result, current + rate * (factors @ updates.deltas), atol=1e-5)
    np.testing.assert_array_equal(models, kept[0])
    np.testing.assert_array_equal(current, kept[1])
    np.testing.assert_array_equal(bases, kept[2])


@pytest.mark.parametrize(
    ("mode", "value"), [("delta", 2.0 + 0.75 * 1.0), ("mix", 2.0 + 0.75 * 0.0), ("normalised", 2.0)]
)
def test_a_rule_sees_differences_to_the_base_or_to_the_current_model(mode: str, value: float) -> None:
    # Two updates of weight .5 and .25: the median of (-1, 3) or of (-1, 1) moves the model by their mass.
    updates = buffer(column(2.0)[0], column(1.0, 3.0), list(column(2.0, 0.0)), np.array([0, 1]))
    moved = next_model(updates, np.array([0.5, 0.25]), Median(), mode=mode)
    assert moved.model == pytest.approx([value])


def test_normalised_aggregation_without_weight_leaves_the_model_unchanged() -> None:
    updates = buffer(column(2.0)[0], column(1.0, 3.0), [column(2.0)[0]], np.array([0, 0]))
    for rule in (Mean(), Median()):
        moved = next_model(updates, np.zeros(2), rule, "remembered", mode="normalised")
        assert (moved.model.tolist(), moved.weights.tolist(), moved.state) == ([2.0], [0.0, 0.0], "remembered")
        assert moved.model is not updates.current
