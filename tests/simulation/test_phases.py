"""Phases of tasks and requests for scores."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncfl.base.streams import Streams
from asyncfl.protocol.events import Kind
from asyncfl.protocol.messages import Fate
from asyncfl.simulation.phases import Phase, ScoringPhases, TaskPhases, Workload, epochs_done
from asyncfl.world import World, WorldState

LOAD = Workload(np.array([100]), 2, 4000, 4000, 4000)
LINK = {"latency_s": 0.5, "bandwidth_bps": 8000.0, "mtu_bytes": 1000}
SLOW = {"device": {"kind": "fixed", "s_per_sample": 0.05}, "uplink": LINK, "downlink": LINK}
"""Download 4.5 s, training 10 s, upload 4.5 s."""
LOST = {"loss": {"kind": "independent", "probability": 1.0}, "retransmissions": 0}


def world(**changes: Any) -> WorldState:
    return World.model_validate(SLOW | changes).start(1, Streams(2))


def phases(state: WorldState, turn: int = 0, speed: float = 1.0) -> list[Phase]:
    return list(TaskPhases(state.task(0, turn), LOAD, speed))


def test_phases_of_a_task_without_dropout() -> None:
    whole = phases(world())
    assert [(one.begins, one.ends) for one in whole] == [
        (Kind.DOWNLOAD_STARTED, Kind.DOWNLOADED),
        (Kind.TRAINING_STARTED, Kind.TRAINED),
        (Kind.UPLOAD_STARTED, Kind.UPLOADED),
    ]
    assert [one.duration_s for one in whole] == pytest.approx([4.5, 10.0, 4.5])
    assert all(one.fails is None for one in whole)


@pytest.mark.parametrize(
    ("deadline_s", "speed", "seconds", "epochs", "detail"),
    [
        (10.0, 1.0, 10.0, None, ""),
        (9.99, 1.0, 9.99, 1, "1 of 2 epochs"),
        (5.0, 1.0, 5.0, 1, "1 of 2 epochs"),
        (4.9, 1.0, 4.9, None, "no epoch by its deadline"),
        (4.9, 2.0, 4.9, 1, "1 of 2 epochs"),
        (5.0, 2.0, 5.0, None, ""),
    ],
)
def test_phases_of_a_task_with_a_deadline(
    deadline_s: float, speed: float, seconds: float, epochs: int | None, detail: str
) -> None:
    """An epoch takes 5 s, at twice the speed 2.5 s."""
    load = replace(LOAD, deadline_s=deadline_s)
    training = list(TaskPhases(world().task(0, 0), load, speed))[1]
    assert (training.duration_s, training.epochs, training.detail) == (pytest.approx(seconds), epochs, detail)
    assert (training.fails is None) == (detail != "no epoch by its deadline")


def test_a_task_is_given_up_at_a_constant_rate_in_any_phase() -> None:
    """The share of completed tasks is exp(-rate T), as in a Poisson process."""
    rate, state = 0.05, world(dropout_per_s=0.05)
    ends = [phases(state, turn) for turn in range(4000)]
    done = np.mean([one[-1].fails is None for one in ends])
    assert done == pytest.approx(math.exp(-rate * 19), abs=0.03)
    given_up = [one for one in ends if one[-1].fails is Fate.DROPPED_OUT]
    before_training = np.mean([len(one) == 1 for one in ends])
    assert before_training == pytest.approx(1 - math.exp(-rate * 4.5), abs=0.03)
    assert {one[-1].begins for one in given_up} == {Kind.DOWNLOAD_STARTED, Kind.TRAINING_STARTED, Kind.UPLOAD_STARTED}
    assert {one[-1].ends for one in given_up} == {Kind.DROPPED_OUT}


@given(rate=st.floats(0.01, 1.0), turn=st.integers(0, 500), speed=st.sampled_from([1.0, 2.0]))
def test_a_client_that_drops_out_has_sent_the_packets_that_left(rate: float, turn: int, speed: float) -> None:
    hasty, patient = phases(world(dropout_per_s=rate), turn, speed), phases(world(), turn, speed)
    after_s = world(dropout_per_s=rate).task(0, turn).gives_up_s()
    assert sum(one.duration_s for one in hasty) == pytest.approx(min(after_s, sum(one.duration_s for one in patient)))
    assert hasty[:-1] == patient[: len(hasty) - 1]
    last = hasty[-1]
    if last.fails is not None and last.sending is not None:
        packets_left = math.floor(last.duration_s * speed / 1.0 + 1e-9)
        assert last.sending.transfer.sent_bytes == 1000 * min(4, packets_left)
        assert not last.sending.transfer.delivered


def test_all_phases_of_a_task_are_shorter_at_twice_the_speed() -> None:
    draws = World.model_validate(SLOW).start(1, Streams(2)).task(0, 0)
    assert [one.duration_s for one in TaskPhases(draws, LOAD, 2.0)] == pytest.approx([2.25, 5.0, 2.25])
    short = Workload(np.array([100]), 2, 4000, 4000, 4000, deadline_s=5.0)
    assert [epochs_done(draws, short, speed) for speed in (0.5, 1.0, 2.0)] == [0, 1, 2]
    lost = World.model_validate({**SLOW, "uplink": {**LINK, **LOST}}).start(1, Streams(2)).task(0, 0)
    *_, last = TaskPhases(lost, LOAD, 2.0)
    # 4 s of packets, and the least time of 1 s in which nothing comes back
    assert (last.ends, last.fails, last.duration_s) == (Kind.LOST, Fate.LOST_UP, pytest.approx(2.5))


def test_a_request_for_scores_takes_models_down_and_a_number_of_each_up() -> None:
    state = World.model_validate(SLOW).start(1, Streams(2))
    down, scored, up = ScoringPhases(state.scoring(0, 0), Workload(np.array([100]), 2, 4000, 50, 60), 3)
    assert [one.duration_s for one in (down, scored, up)] == pytest.approx([12.5, 5.0, 0.524])
    assert [one.name for one in (down, scored, up)] == ["scoring down", "", "scoring up"]
    assert scored.sending is None
    unheard = World.model_validate({**SLOW, "downlink": {**LINK, **LOST}}).start(1, Streams(2))
    assert [one.name for one in ScoringPhases(unheard.scoring(0, 0), LOAD, 3)] == ["scoring down"]
