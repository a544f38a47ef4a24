"""Protocols: dispatch, opening of buffers, staleness functions, and the aggregation formulas."""

import math
from collections.abc import Callable
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from asyncfl.defences import Buffer, Mean, Median
from asyncfl.protocol import Buffered, FedAsync, FedBuff, Protocol, Sync
from asyncfl.protocol.dispatch import (
    BufferStatus,
    CohortDispatch,
    ConstantDispatch,
    ContinuousDispatch,
    DispatchPolicy,
    OpenAll,
    OpenCount,
    OpenDeadline,
    Opening,
    OpenPoll,
    OpenQuorum,
)
from asyncfl.protocol.model_step import next_model, weights
from asyncfl.protocol.staleness import (
    ConstantStaleness,
    DelayAdaptiveStaleness,
    ExponentialStaleness,
    HingeStaleness,
    PolynomialStaleness,
    Staleness,
)


class Bare(Protocol):
    kind: str = "own:Bare"


def test_a_custom_protocol_has_synchronous_defaults() -> None:
    bare = Bare(rounds=3)
    assert (bare.dispatch, bare.opening, bare.late) == (CohortDispatch(), OpenAll(), "drop")
    assert (bare.staleness, bare.max_staleness, bare.divisor) == (ConstantStaleness(), None, "buffer")
    assert (bare.aggregation, bare.rate, bare.weighting) == ("delta", 1.0, "samples")


def test_a_count_and_a_share_of_clients() -> None:
    assert CohortDispatch(participants=3, over_selection=1.3).at_publish(100) == 4
    assert CohortDispatch(participants=10, over_selection=1.1).at_publish(100) == 11
    assert CohortDispatch(participants=0.001).at_publish(100) == 1
    assert CohortDispatch(over_selection=2).at_publish(100) == 100
    assert ConstantDispatch(in_flight=0.25).level(8) == 2
    assert ContinuousDispatch().level(8) == 8


def test_fedasync_is_a_buffer_of_one_and_fedbuff_weighs_all_alike() -> None:
    assert FedAsync(rounds=1, in_flight=2).opening == OpenCount(updates=1)
    assert FedBuff(rounds=1, server_rate=2.0).rate == 2.0
    assert FedBuff(rounds=1).weighting == "uniform"


@pytest.mark.parametrize(
    ("protocol", "field", "message"),
    [
        (Sync(rounds=1, participants=60), "participants", r"1\.\.clients \(50\), got 60"),
        (Sync(rounds=1, participants=2, open=OpenDeadline(seconds=1, at_least=3)), "open.at_least", r"got 3"),
        (Sync(rounds=1, participants=2, open=OpenPoll(at_least=3)), "open.at_least", r"must be 1..participants \(2\)"),
        (Sync(rounds=1, aggregation="normalised", server_rate=0.5), "server_rate", r"which has no rate, got 0.5"),
        (Buffered(rounds=1, buffer=250), "buffer", r"1\.\.clients \(50\), got 250; lower protocol\.buffer"),
        (Buffered(rounds=1, buffer=4, dispatch=CohortDispatch(participants=3)), "buffer", r"1\.\.3, .* got 4; lower"),
        (Buffered(rounds=1, buffer=11, dispatch=CohortDispatch(participants=0.2)), "buffer", r"1\.\.10, .* got 11"),
        (FedAsync(rounds=1, in_flight=51), "in_flight", "1..clients .50., got 51; lower it"),
        (Buffered(rounds=1, dispatch=ConstantDispatch(in_flight=51)), "dispatch.in_flight", "got 51; lower it"),
        (Buffered(rounds=1, late="drop"), "late", "got drop"),
        (Buffered(rounds=1, aggregation="normalised", server_rate=0.1), "server_rate", "must be 1 .* got 0.1; leave"),
        (Buffered(rounds=1, aggregation="eq6_literal", server_rate=2), "server_rate", "eq6_literal, .* got 2; leave"),
        (FedBuff(rounds=1, aggregation="alg4_literal", server_rate=2), "server_rate", "alg4_literal, .* got 2; leave"),
    ],
)
def test_impossible_settings_for_the_number_of_clients_are_faults(protocol: Protocol, field: str, message: str) -> None:
    faults = list(protocol.faults(50))
    assert [fault.field for fault in faults] == [field]
    with pytest.raises(AssertionError, match=message):
        raise AssertionError(faults[0].message)


@pytest.mark.parametrize(
    "dispatch",
    [
        CohortDispatch(participants=4),
        CohortDispatch(participants=3, over_selection=1.3),
        ConstantDispatch(in_flight=1),
        ContinuousDispatch(),
    ],
)
def test_a_buffer_may_be_filled_by_reserves_and_by_replacements(dispatch: DispatchPolicy) -> None:
    assert list(Buffered(rounds=1, buffer=4, dispatch=dispatch).faults(50)) == []


@pytest.mark.parametrize("partial_work", ["whole", "work", "normalised"])
def test_factors_of_partial_work_by_hand(partial_work: Literal["whole", "work", "normalised"]) -> None:
    samples, fresh = np.array([10, 30]), np.zeros(2, dtype=np.int64)
    protocol = Sync(rounds=1, partial_work=partial_work)
    assert protocol.factors(samples, fresh).tolist() == [0.25, 0.75]
    found = protocol.factors(samples, fresh, np.array([0.5, 1.0]))
    wanted = {"whole": [0.25, 0.75], "work": [1 / 7, 6 / 7], "normalised": [0.25 * 1.75, 0.75 * 0.875]}
    assert found.tolist() == pytest.approx(wanted[partial_work])


@pytest.mark.parametrize(
    ("opening", "filling", "opens"),
    [
        (OpenAll(), BufferStatus(held=4, coming=1, cohort=5, wanted=5), False),
        (OpenAll(), BufferStatus(held=5, coming=0, cohort=5, wanted=5), True),
        (OpenAll(), BufferStatus(held=4, coming=2, cohort=6, wanted=4), True),
        (OpenAll(), BufferStatus(held=3, coming=0, cohort=3, wanted=4), True),
        (OpenCount(updates=3), BufferStatus(held=2, coming=9, cohort=0, wanted=0), False),
        (OpenCount(updates=3), BufferStatus(held=3, coming=9, cohort=0, wanted=0), True),
        (OpenQuorum(share=0.5), BufferStatus(held=2, coming=3, cohort=5, wanted=5), False),
        (OpenQuorum(share=0.5), BufferStatus(held=3, coming=2, cohort=5, wanted=5), True),
        (OpenQuorum(share=0.07), BufferStatus(held=7, coming=93, cohort=100, wanted=100), True),
        (OpenDeadline(seconds=1), BufferStatus(held=3, coming=2, cohort=5, wanted=5), False),
        (OpenDeadline(seconds=1), BufferStatus(held=1, coming=4, cohort=5, wanted=5, deadline_passed=True), True),
        (OpenDeadline(seconds=1, at_least=2), BufferStatus(1, 4, 5, 5, deadline_passed=True), False),
        (OpenDeadline(seconds=1), BufferStatus(held=0, coming=5, cohort=5, wanted=5, deadline_passed=True), False),
        (OpenPoll(at_least=3), BufferStatus(held=2, coming=8, cohort=5, wanted=10), False),
        (OpenPoll(at_least=3), BufferStatus(held=3, coming=7, cohort=5, wanted=10, is_last=True), True),
        (OpenPoll(at_least=3, last_waits=True), BufferStatus(3, 7, 5, 10, is_last=False), True),
        (OpenPoll(at_least=3, last_waits=True), BufferStatus(9, 1, 5, 10, is_last=True), False),
        (OpenPoll(at_least=3, last_waits=True), BufferStatus(10, 0, 5, 10, is_last=True), True),
    ],
)
def test_when_a_buffer_opens(opening: Opening, filling: BufferStatus, opens: bool) -> None:
    assert opening.is_open(filling) is opens


TAU = np.arange(6)


def test_constant_weights_are_1() -> None:
    assert ConstantStaleness().weight(TAU).tolist() == [1] * 6


def test_polynomial_weights_are_1_plus_tau_to_the_power_of_minus_a() -> None:
    roots = [1, 1 / math.sqrt(2), 1 / math.sqrt(3), 1 / 2, 1 / math.sqrt(5), 1 / math.sqrt(6)]
    assert PolynomialStaleness().weight(TAU) == pytest.approx(roots, rel=1e-12)
    squares = [1, 1 / 4, 1 / 9, 1 / 16, 1 / 25, 1 / 36]
    assert PolynomialStaleness(exponent=2.0).weight(TAU) == pytest.approx(squares, rel=1e-12)
    # SAFL's equation 2, tau^-a with s(0) = 1: an update that is one version old has weight 1 as well.
    assert PolynomialStaleness(offset=0).weight(TAU) == pytest.approx([1, *roots[:5]], rel=1e-12)


def test_hinge_weights_are_1_up_to_b_and_fall_with_slope_a_beyond() -> None:
    # 1 / (a (tau - b) + 1)
    assert HingeStaleness(slope=2.0, grace=3).weight(TAU) == pytest.approx([1, 1, 1, 1, 1 / 3, 1 / 5], rel=1e-12)
    assert HingeStaleness().weight(TAU) == pytest.approx([1, 1, 1, 1, 1, 1 / 11], rel=1e-12)


def test_weights_that_adapt_to_delays_are_b_over_tau_beyond_b() -> None:
    assert DelayAdaptiveStaleness(concurrency=2).weight(TAU) == pytest.approx([1, 1, 1, 2 / 3, 2 / 4, 2 / 5], rel=1e-12)


def test_exponential_weights_are_e_to_the_power_of_minus_a_tau() -> None:
    halves = [1, 1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32]
    assert ExponentialStaleness(rate=math.log(2)).weight(TAU) == pytest.approx(halves, rel=1e-12)
    assert ExponentialStaleness().weight(TAU) == pytest.approx([math.exp(-0.2 * tau) for tau in range(6)], rel=1e-12)


@pytest.mark.parametrize(
    "function",
    [ConstantStaleness(), PolynomialStaleness(exponent=0.7), HingeStaleness(slope=0.1), ExponentialStaleness()],
    ids=str,
)
@given(st.integers(0, 1000))
def test_stale_updates_never_weigh_more_than_fresher_ones(function: Staleness, staleness: int) -> None:
    weight = function.weight(np.array([0, staleness, staleness + 1]))
    assert weight[0] == 1
    assert 1 >= weight[1] >= weight[2] >= 0


def test_only_weights_that_never_fall_are_constant() -> None:
    assert ConstantStaleness().is_constant
    assert PolynomialStaleness(exponent=0).is_constant
    assert not PolynomialStaleness().is_constant


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


@pytest.mark.parametrize(
    "make",
    [
        lambda a: PolynomialStaleness(exponent=a),
        lambda a: HingeStaleness(slope=a),
        lambda a: ExponentialStaleness(rate=a),
    ],
)
def test_rates_of_staleness_are_finite(make: Callable[[float], Staleness]) -> None:
    with pytest.raises(ValidationError, match="finite number"):
        make(math.inf)
