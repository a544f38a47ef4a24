"""Servers driven by saying who comes when; updates and buffers that the builders build, and hypothesis strategies."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncfl.defences import Buffer, Median, Safl, Strikes
from asyncfl.protocol import Buffered, Sync
from asyncfl.protocol.dispatch import ContinuousDispatch, OpenDeadline
from asyncfl.protocol.messages import CohortRepeated, Fate
from asyncfl.protocol.staleness import ConstantStaleness
from asyncfl.testing import Fires, Lost, Waits, arrivals, buffer, server, strategies, updates


def test_three_arrivals_make_a_version() -> None:
    play = arrivals(server(), [3, 5, 1], changes={3: 3.0, 5: 0.0, 1: [0.0]})
    assert [publish.version for publish in play.published] == [0, 1]
    assert play.model == pytest.approx([1.0])
    assert {settled.fate for settled in play.fates.values()} == {Fate.AGGREGATED}
    assert play.time_s == 3.0
    assert play.stopped is None
    assert play.busy == [0, 1, 2, 3, 4, 5]


def test_a_change_may_depend_on_the_task_and_on_the_model_that_was_sent() -> None:
    play = arrivals(server(), [0, 1, 2, 0, 1, 2], changes=lambda task, base: 10 * (task.version + 1) - base)
    # Three times 10 at once; then client 0 and 1 still train version 0 (two of three, at (1 + 1)^-1/2).
    assert play.published[1].model == pytest.approx([10.0])
    assert play.model == pytest.approx([10 + (2 * 10 / 2**0.5 + 10) / 3])


def test_a_lost_task_has_its_fate_and_the_client_gets_another() -> None:
    play = arrivals(server(), [Lost(2), Lost(2, Fate.DROPPED_OUT), 2])
    assert [settled.fate for settled in play.fates.values()] == [Fate.LOST_UP, Fate.DROPPED_OUT]
    assert 2 in play.busy


def test_timers_fire_where_the_sequence_says() -> None:
    protocol = Sync(rounds=3, open=OpenDeadline(seconds=5.0))
    play = arrivals(server(protocol, clients=3), [1, Waits(4.0), Fires("deadline:0")])
    assert [timer.timer for timer in play.timers] == ["deadline:0", "deadline:1"]
    assert play.published[-1].participants == 1
    assert play.time_s == 6.0


def test_an_update_of_a_client_without_a_task_is_refused() -> None:
    with pytest.raises(ValueError, match=r"client 9 has no task; clients with tasks: \[0, 1, 2, 3, 4, 5\]"):
        arrivals(server(), [9])
    assert arrivals(server(), [9, 1], skip_absent=True).time_s == 1.0


def test_scores_lead_to_strikes_and_a_ban() -> None:
    protocol = Buffered(rounds=50, buffer=4, dispatch=ContinuousDispatch(), staleness=ConstantStaleness())
    under_test = server(protocol, clients=4, detector=Safl(), strikes=Strikes(threshold=2), initial=1.0)
    play = arrivals(
        under_test, [0, 1, 2, 3, 3, 0, 1, 2], changes={3: -5.0}, scores=lambda client, models: models[:, 0] > 0.5
    )
    assert [judged.accused for judged in play.judged] == [(False, False, False, True), (True, False, False, False)]
    assert play.banned == [3]
    assert 3 in play.busy, "what it was given before may still arrive"
    assert 3 not in play.step(3).busy, "but it is given nothing more"


@given(strategies.arrivals(clients=6), st.integers(0, 9))
def test_any_sequence_leaves_every_task_with_one_fate(sequence: list, seed: int) -> None:
    play = arrivals(server(seed=seed), sequence)
    play.server.stop("the test is over")
    play.server.tasks.check()
    came = [step for step in sequence if isinstance(step, int)]
    assert len(play.published) == 1 + len(came) // 3
    assert np.isfinite(play.model).all()


def test_a_cohort_that_is_lost_whole_is_repeated() -> None:
    play = arrivals(server(Sync(rounds=2), clients=2), [Lost(0), Lost(1), 0, 1])
    assert [settled.fate for settled in play.fates.values()] == [Fate.LOST_UP, Fate.LOST_UP] + [Fate.AGGREGATED] * 2
    assert play.published[-1].version == 1
    assert CohortRepeated(2) in play.actions


def test_the_last_updates_are_poisoned() -> None:
    rows = updates(6, 3, poisoned=2)
    assert (rows.shape, rows.dtype) == ((6, 3), np.float32)
    assert np.abs(rows[:4] - 1).max() < 0.6
    assert np.abs(rows[4:] + 10).max() < 0.6
    np.testing.assert_array_equal(rows[:4], updates(6, 3)[:4])
    assert not np.array_equal(rows, updates(6, 3, poisoned=2, seed=1))
    exact = updates(2, 2, centre=[1, 2], spread=0, poisoned=1, poison=[0, 5])
    assert exact.tolist() == [[1, 2], [0, 5]]
    with pytest.raises(ValueError, match="read-only"):
        rows[0] = 0
    with pytest.raises(ValueError, match=r"0..n \(3\), got 4"):
        updates(3, poisoned=4)


def test_a_buffer_has_the_deltas_it_was_built_from_and_a_base_for_each_age() -> None:
    held = buffer([[1, 2], [3, 4], [5, 6]], staleness=[0, 2, 0], clients=[4, 1, 4], samples=[10, 20, 30], drift=0.5)
    assert held.version == 2
    assert held.staleness.tolist() == [0, 2, 0]
    assert [base.tolist() for base in held.bases] == [[-1, -1], [0, 0]]
    assert held.models.tolist() == [[1, 2], [2, 3], [5, 6]]
    np.testing.assert_array_equal(held.deltas, [[1, 2], [3, 4], [5, 6]])
    assert (held.clients.tolist(), held.samples.tolist()) == ([4, 1, 4], [10, 20, 30])
    assert not any(array.flags.writeable for array in (held.models, held.current, held.clients, *held.bases))
    assert len(buffer()) == 8
    assert buffer([[1.0]], current=2.0, version=7).current.tolist() == [2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"deltas": [1, 2]}, "n_updates, n_parameters"),
        ({"deltas": [[1], [2]], "clients": [1]}, "each of 2 updates, got 1"),
        ({"deltas": [[1]], "staleness": 3, "version": 2}, r"0..version \(2\)"),
        ({"deltas": [[1]], "staleness": -1}, "staleness must be"),
    ],
)
def test_impossible_buffers_are_refused(arguments: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        buffer(**arguments)


@given(strategies.updates(n=3, most=1), strategies.weights(), strategies.staleness(5, oldest=3))
def test_generated_updates_weights_and_ages(rows: np.ndarray, weights: np.ndarray, ages: np.ndarray) -> None:
    assert (rows.ndim, len(rows), rows.dtype, rows.flags.writeable) == (2, 3, np.float32, False)
    assert np.abs(rows).max() <= 1
    assert 0 < weights.sum() <= 1 + 1e-9
    assert (len(ages), ages.dtype) == (5, np.int64)
    assert 0 <= ages.min() <= ages.max() <= 3


@given(strategies.buffers(clients=4, n=st.integers(2, 5), oldest=2))
def test_generated_buffers(held: Buffer) -> None:
    assert 2 <= len(held) <= 5
    assert held.base_versions.min() >= 0
    assert held.clients.max() < 4
    assert Median().combine(held, np.full(len(held), 0.1)).shape == held.current.shape
