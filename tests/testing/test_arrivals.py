"""Servers driven by saying who comes when."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncfl.base.messages import CohortRepeated, Fate
from asyncfl.defences import Safl, Strikes
from asyncfl.server import Buffered, Sync
from asyncfl.server.dispatch import ContinuousDispatch, OpenDeadline
from asyncfl.server.staleness import ConstantStaleness
from asyncfl.testing import Fires, Lost, Waits, arrivals, server, strategies


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
