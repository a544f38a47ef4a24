"""Messages that a server accepts, and impossible ones that it refuses without change."""

import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncfl.base.errors import MessageError
from asyncfl.base.streams import Streams
from asyncfl.protocol import Buffered, Server, ServerPlan, Sync
from asyncfl.protocol.dispatch import ContinuousDispatch, OpenDeadline
from asyncfl.protocol.messages import (
    ClientGone,
    ClientIdle,
    ClientJoined,
    ClientLeft,
    ClientRetired,
    Collected,
    Dispatch,
    Fate,
    Input,
    ScoresArrived,
    Settle,
    TimerFired,
    UpdateArrived,
)
from asyncfl.testing import Play

NAN, INF = float("nan"), float("inf")


def server(clients: int = 3, *, all_present: bool = True, **fields: Any) -> Server:
    protocol = Buffered(rounds=5, buffer=2, dispatch=ContinuousDispatch(), **fields)
    initial = np.zeros(1, np.float32)
    plan = ServerPlan(protocol, np.full(clients, 10), initial, Streams(1), all_present=all_present)
    return Server(plan)


def started(**fields: Any) -> tuple[Server, dict[int, int]]:
    """A server, and client -> its task."""
    machine = server(**fields)
    return machine, {one.client: one.task for one in machine.start(1.0) if isinstance(one, Dispatch)}


def state(machine: Server) -> bytes:
    return pickle.dumps({name: value for name, value in vars(machine).items() if name != "plan"})


def refused(machine: Server, message: Input, why: str) -> None:
    before = state(machine)
    with pytest.raises(MessageError, match=why):
        machine.handle(message)
    assert state(machine) == before


@pytest.mark.parametrize("client", [3, 99, -1])
def test_clients_that_there_are_not(client: int) -> None:
    machine, _ = started()
    for message in (
        ClientIdle(client, time_s=2.0),
        ClientGone(client, 0, None, time_s=2.0),
        ClientRetired(client, time_s=2.0),
    ):
        refused(machine, message, rf"client must be 0\.\.2, got {client}")
    refused(machine, ClientLeft(client, time_s=2.0), "client must be")
    refused(machine, ClientJoined(client, 5, time_s=2.0), "client must be")


def test_a_task_of_another_client_and_one_that_was_never_begun() -> None:
    machine, task = started()
    refused(
        machine, ClientGone(1, task[0], Fate.LOST_UP, time_s=2.0), rf"task {task[0]} is client 0's, got a message of 1"
    )
    refused(machine, ClientGone(1, 3, Fate.LOST_UP, time_s=2.0), r"one that was begun \(0\.\.2\), got 3")
    refused(machine, ClientGone(1, -1, None, time_s=2.0), "one that was begun")
    assert machine.validator.sender_of(task[2]) == 2
    assert machine.validator.sender_of(77) is None


@pytest.mark.parametrize("time_s", [0.5, NAN, INF, -INF])
def test_time_does_not_run_backwards(time_s: float) -> None:
    machine, task = started()
    refused(machine, UpdateArrived(task[0], time_s=time_s), "time_s must be finite and >= 1")
    with pytest.raises(MessageError, match="must be finite, got"):
        server().start(NAN)


def test_a_server_starts_once_and_before_anything_else() -> None:
    machine, _ = started()
    before = state(machine)
    with pytest.raises(MessageError, match="has started already"):
        machine.start(2.0)
    assert state(machine) == before
    refused(server(), ClientIdle(0, time_s=0.0), "must be started before ClientIdle")


def test_a_busy_client_that_says_it_is_idle_gets_no_second_task() -> None:
    machine, task = started()
    refused(machine, ClientIdle(1, time_s=2.0), f"client 1 is at task {task[1]}: it must end that before it is idle")
    machine.handle(ClientGone(1, task[1], Fate.DROPPED_OUT, time_s=12.0))
    assert [one.client for one in machine.handle(ClientIdle(1, time_s=12.0)) if isinstance(one, Dispatch)] == [1]


def test_a_second_answer_to_a_task() -> None:
    machine, task = started()
    machine.handle(UpdateArrived(task[0], time_s=2.0))
    refused(machine, UpdateArrived(task[0], time_s=3.0), f"task {task[0]} has been answered already")
    refused(machine, ClientGone(0, task[0], Fate.LOST_UP, time_s=3.0), "answered already")


def test_unrequested_scores_and_unset_timers_are_refused() -> None:
    machine, _ = started()
    refused(machine, TimerFired("aggregated", time_s=2.0), "timer 'aggregated' was not set")
    refused(machine, TimerFired("", time_s=2.0), "was not set")
    refused(machine, ScoresArrived(0, None, time_s=2.0), "request 0 was not made")
    rounds = Sync(rounds=1, open=OpenDeadline(seconds=9.0))
    machine = Server(ServerPlan(rounds, np.full(3, 10), np.zeros(1, np.float32), Streams(1)))
    machine.start(1.0)
    machine.handle(TimerFired("deadline:0", time_s=10.0))
    refused(machine, TimerFired("deadline:0", time_s=10.0), "has fired already")


def test_collected_updates_must_match_the_request() -> None:
    machine, task = started()
    machine.handle(UpdateArrived(task[0], time_s=2.0))
    machine.handle(UpdateArrived(task[1], time_s=2.0))
    tasks = (task[0], task[1])
    refused(machine, Collected(tasks[::-1], np.zeros((2, 1), np.float32), np.zeros(2), time_s=2.0), "asked for tasks")
    refused(
        machine, Collected(tasks, np.zeros((1, 1), np.float32), np.zeros(2), time_s=2.0), "got 1 models and 2 losses"
    )
    machine.handle(Collected(tasks, np.ones((2, 1), np.float32), np.zeros(2), time_s=2.0))
    refused(machine, Collected(tasks, np.ones((2, 1), np.float32), np.zeros(2), time_s=2.0), "asked for tasks None")


def test_a_population_need_not_be_known_before() -> None:
    machine = server(all_present=False)
    assert machine.handle(ClientJoined(2, 30, time_s=0.0)) == []
    refused(machine, ClientJoined(2, 30, time_s=0.5), "takes part already")
    refused(machine, ClientJoined(1, 0, time_s=0.5), ">= 1 samples, got 0")
    refused(machine, ClientRetired(1, time_s=0.5), "client 1 does not take part: it must join first")
    assert [one.client for one in machine.start(1.0) if isinstance(one, Dispatch)] == [2]
    assert [one.client for one in machine.handle(ClientJoined(0, 7, time_s=2.0)) if isinstance(one, Dispatch)] == [0]
    assert machine.samples.tolist() == [7, 10, 30]
    assert machine.plan.samples.tolist() == [10, 10, 10], "the plan is never changed"


def test_updates_of_joined_clients_weigh_their_reported_samples() -> None:
    plan = ServerPlan(Sync(rounds=1), np.full(2, 1), np.zeros(1, np.float32), Streams(1), all_present=False)
    machine = Server(plan)
    machine.handle(ClientJoined(0, 10, time_s=0.0))
    machine.handle(ClientJoined(1, 30, time_s=0.0))
    play = Play(machine, changes={0: 1.0, 1: 3.0}).start()
    assert play.step(0).step(1).model == pytest.approx([2.5])


def test_a_leaving_client_loses_its_task_and_may_join_again() -> None:
    machine, task = started()
    settled = machine.handle(ClientLeft(1, time_s=2.0))
    assert settled == [Settle(task[1], Fate.DROPPED_OUT)]
    refused(machine, UpdateArrived(task[1], time_s=2.5), "answered already")
    refused(machine, ClientIdle(1, time_s=2.5), "does not take part")
    assert [one.client for one in machine.handle(ClientJoined(1, 12, time_s=3.0)) if isinstance(one, Dispatch)] == [1]


numbers = st.integers(-2, 6)
times = st.floats(-1, 6) | st.just(NAN)
messages = st.one_of(
    st.builds(ClientIdle, numbers, time_s=times),
    st.builds(ClientJoined, numbers, numbers, time_s=times),
    st.builds(ClientLeft, numbers, time_s=times),
    st.builds(ClientRetired, numbers, time_s=times),
    st.builds(UpdateArrived, numbers, time_s=times),
    st.builds(ClientGone, numbers, numbers, st.sampled_from([None, Fate.LOST_UP, Fate.DROPPED_OUT]), time_s=times),
    st.builds(TimerFired, st.sampled_from(["cohort", "aggregated", "deadline:0"]), time_s=times),
    st.builds(ScoresArrived, numbers, st.none(), time_s=times),
)


@settings(max_examples=150, deadline=None)
@given(told=st.lists(messages, max_size=30))
def test_any_message_is_refused_without_change_or_keeps_tasks_consistent(told: list[Input]) -> None:
    play = Play(server()).start()
    for message in told:
        before = state(play.server)
        # The updates that a message makes the server ask for come at its time.
        play.time_s = max(play.time_s, message.time_s) if math.isfinite(message.time_s) else play.time_s
        try:
            play.tell(message)
        except MessageError:
            assert state(play.server) == before
        play.server.tasks.check()
        at_work = [play.server.validator.tasks.unanswered_of(client) for client in range(3)]
        assert all(len(tasks) <= 1 for tasks in at_work), "no client has two tasks"
