"""Five readings of one aggregation, on the case that tells them apart."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncfl.defences import Mean
from asyncfl.server.application import apply_updates, differences, weights
from asyncfl.server.staleness import PolynomialStaleness

READINGS = {"delta": 2.25, "mix": 1.75, "normalised": 1.6666667, "alg4_literal": 3.25, "eq6_literal": 1.25}


def column(*values: float) -> np.ndarray:
    return np.array(values, np.float32)[:, None]


@pytest.mark.parametrize(("reading", "value"), READINGS.items())
def test_readings_of_safl(reading: str, value: float) -> None:
    staleness = PolynomialStaleness().weight(np.array([0, 3]))
    factors = weights(np.array([600, 600]), staleness)
    bases = list(column(2.0, 0.0))
    result = apply_updates(column(2.0)[0], column(1.0, 3.0), bases, np.array([0, 1]), factors, Mean(), reading=reading)
    assert result == pytest.approx([value], rel=1e-6)


@pytest.mark.parametrize(("reading", "fixed"), [(name, name in ("delta", "mix", "normalised")) for name in READINGS])
def test_only_some_readings_leave_a_model_alone_that_everybody_agrees_on(reading: str, fixed: bool) -> None:
    model = column(2.0)[0]
    factors = weights(np.array([1, 3]), np.array([1.0, 0.5]))
    result = apply_updates(model, column(2.0, 2.0), [model], np.array([0, 0]), factors, Mean(), reading=reading)
    assert (result == pytest.approx([2.0])) == fixed


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
    result = apply_updates(current, models, bases, base_of, factors, Mean(), rate=rate)
    expected = current + rate * (factors @ differences(models, bases, base_of))
    np.testing.assert_allclose(result, expected, atol=1e-5)
    np.testing.assert_array_equal(models, kept[0])
    np.testing.assert_array_equal(current, kept[1])
    np.testing.assert_array_equal(bases, kept[2])
