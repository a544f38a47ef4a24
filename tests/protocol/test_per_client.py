"""The share of one client in a buffer (`protocol.per_client`), bans by the driver, and selections that choose none."""

from collections import Counter
from itertools import chain
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncfl.protocol import Buffered, Server
from asyncfl.protocol.dispatch import ContinuousDispatch
from asyncfl.protocol.messages import ClientGone, ClientIdle, Collect, Dispatch, Fate, ShortBuffer
from asyncfl.protocol.selection import Selection
from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_seed
from asyncfl.testing import Fires, Lost, Play
from tests.protocol.test_machine import kinds, server


def shared(share: int | None, buffer: int = 4, **fields: Any) -> Buffered:
    return Buffered(rounds=50, buffer=buffer, dispatch=ContinuousDispatch(), per_client=share, **fields)


def senders(machine: Server, play: Play) -> list[list[int]]:
    """Clients of the updates of each buffer."""
    client_of = {one.task: one.client for one in kinds(play.actions, Dispatch)}
    return [[client_of[task] for task in one.tasks] for one in kinds(play.actions, Collect)]


def flooded(share: int | None, steps: int = 400) -> Play:
    """Client 0 answers at once whenever it has a task; one of the others every tenth step."""
    play = Play(server(shared(share))).start()
    for step in range(steps):
        if 0 in play.busy:
            play.step(0)
        if step % 10 == 0:
            play.step(1 + (step // 10) % 3)
    return play


def test_a_client_that_answers_at_once_makes_every_version_unless_it_has_a_share() -> None:
    free, halved = flooded(None, 150), flooded(2)
    assert Counter(chain(*senders(free.server, free)))[0] >= 0.9 * 4 * len(free.published[1:])
    assert len(halved.published) > 15
    for buffer in senders(halved.server, halved):
        assert Counter(buffer)[0] <= 2


steps = st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["answers", "is lost", "is idle"])), max_size=80)


@given(steps=steps, share=st.integers(1, 3), late=st.booleans())
def test_no_buffer_ever_holds_more_of_one_client_than_its_share(
    steps: list[tuple[int, str]], share: int, late: bool
) -> None:
    machine = server(shared(share, 3), aggregate_s=5.0 if late else 0.0)
    play = Play(machine).start()
    for client, what in steps:
        if play.stopped:
            break
        if client not in play.busy:
            continue
        play.step(Lost(client) if what == "is lost" else client)
        if machine.phase.name == "AGGREGATING" and what == "is idle":
            play.step(Fires("aggregated"))
    assert all(max(Counter(buffer).values()) <= share for buffer in senders(machine, play))
    machine.tasks.check()


def test_a_buffer_that_nobody_may_fill_opens_short() -> None:
    play = Play(server(shared(1, 3), clients=3)).start()
    play.step(0).step(1)
    assert not kinds(play.actions, Collect)
    play.tell(ClientGone(2, play._task_of(2), Fate.DROPPED_OUT, time_s=play.time_s))
    assert [one.held for one in kinds(play.actions, ShortBuffer)] == [2]
    assert play.published[-1].version == 1
    assert sorted(play.busy) == [0, 1], "both have room again"


def test_a_client_that_has_its_share_and_goes_away_is_not_asked_until_it_is_back() -> None:
    play = Play(server(shared(1, 3), clients=3)).start()
    play.step(0)
    task = play._task_of(1)
    play.tell(ClientGone(1, task, Fate.DROPPED_OUT, time_s=play.time_s))
    play.tell(ClientIdle(1, time_s=play.time_s))
    assert 0 not in play.busy
    assert play.busy == [1, 2]


class ChoosesNone(Selection):
    """Chooses nobody from its third draw on."""

    kind: str = "tests.protocol.test_per_client:ChoosesNone"

    def draw(self, population: Any, count: int, order: Any) -> list[int]:
        if population.served.sum() >= 4:
            return []
        return population.draw(count, order)  # type: ignore[no-any-return]


def test_a_selection_that_chooses_none_of_the_idle_clients_ends_the_run_with_its_reason() -> None:
    play = Play(server(shared(None, 2, selection=ChoosesNone()))).start()
    for client in range(4):
        play.step(client)
    assert play.stopped is not None
    assert play.stopped.endswith("chose none of 4 idle clients")


@pytest.mark.parametrize("value", [3e38, -3e38, np.nan, np.inf])
def test_a_finite_update_with_which_the_model_overflows_is_rejected_like_one_that_is_not_finite(value: float) -> None:
    play = Play(server(shared(None, 2)), {0: value, 1: 1.0, 2: 1.0, 3: 1.0}).start()
    play.step(0).step(1)
    assert [one.fate for one in play.fates.values()] == [Fate.REJECTED, Fate.AGGREGATED]
    assert np.isfinite(play.model).all()
    assert play.stopped is None


def test_a_share_holds_in_simulations(scenario: Scenario) -> None:
    protocol = {"kind": "buffered", "rounds": 6, "buffer": 4, "dispatch": {"kind": "continuous"}}
    threats = {"attackers": 1, "attack": {"kind": "flooding", "times": 1000.0}}
    changes = {"data.clients": 10, "world.device": {"kind": "fixed", "s_per_sample": 0.1}, "threats": threats}

    def most(**share: int) -> int:
        run = simulate_seed(scenario.override({**changes, "protocol": {**protocol, **share}}), 0)
        used = Counter((one["version"], one["client"]) for one in run.events.to_pylist() if one["kind"] == "aggregated")
        return max(used.values())

    assert most() == 4
    assert most(per_client=1) == 1
