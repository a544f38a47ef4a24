from typing import Literal

import numpy as np
import pytest

from asyncfl.server import Buffered, FedAsync, FedBuff, Protocol, Sync
from asyncfl.server.dispatch import (
    BufferStatus,
    CohortDispatch,
    ConstantDispatch,
    ContinuousDispatch,
    DispatchPolicy,
    OpenAll,
    OpenCount,
    OpenDeadline,
    Opening,
    OpenQuorum,
)
from asyncfl.server.staleness import ConstantStaleness


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
    ],
)
def test_when_a_buffer_opens(opening: Opening, filling: BufferStatus, opens: bool) -> None:
    assert opening.is_open(filling) is opens
