"""Cohorts that nobody can be drawn for, and factors of updates whose work is not told."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest

from asyncfl.messages import Action, ClientGone, ClientLeft, Fate, SetTimer, Settle, UpdateArrived
from asyncfl.server import Buffered, Server, ServerPlan, Sync
from asyncfl.server.buffer_opening import OpenDeadline
from asyncfl.server.dispatch import ConstantDispatch
from asyncfl.server.in_flight import InFlight
from asyncfl.server.population import Population
from asyncfl.server.task_table import TaskTable
from asyncfl.streams import Streams


def in_flight(protocol: Any, clients: int = 3) -> InFlight:
    population = Population(clients)
    population.add_all()
    return InFlight(protocol, population, TaskTable(), Streams(1))


@pytest.mark.parametrize("asked_before", [True, False])
def test_where_nobody_is_idle_no_cohort_is_asked_in_place_of_one_that_came_to_nothing(asked_before: bool) -> None:
    tasks = in_flight(Sync(rounds=2, open=OpenDeadline(seconds=5.0)))
    if asked_before:
        tasks.begin_cohort(0, 0.0, [])
        for task in tasks.clear():
            tasks._cohort_coming -= 1
            assert tasks.population.served[task.client] == 1
    else:
        for client in range(3):
            tasks.population.remove(client)
    actions: list[Action] = []
    tasks.refill(0, 1.0, actions, is_empty=True)
    tasks.repeat_cohort(0, 1.0, actions, is_empty=True)
    assert actions == []
    tasks.population.add(1)
    tasks.refill(0, 2.0, actions, is_empty=False)
    assert actions == [], "the buffer holds something, or none is being filled"
    tasks.refill(0, 2.0, actions, is_empty=True)
    tasks.refill(0, 2.0, actions, is_empty=True)
    wanted = SetTimer("cohort", 0.0) if asked_before else SetTimer("deadline:0", 5.0)
    assert [one for one in actions if isinstance(one, SetTimer)] == [wanted], "and only once"


def test_the_parts_of_a_cohort_are_drawn_in_orders_of_their_own() -> None:
    """Cohorts of a version that follow one another are drawn apart; those of another version begin anew."""
    tasks = in_flight(Sync(rounds=2, participants=1))
    asked: list[Any] = []
    order = tasks._streams.order
    tasks._streams.order = lambda *of: asked.append(of) or order(*of)  # type: ignore
    for version in (0, 0, 0, 1, 1):
        tasks.begin_cohort(version, 0.0, [])
        for client in range(3):
            tasks.population.add(client)
    assert asked == [("cohorts", number, version) for version, number in ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1))]


@pytest.mark.parametrize("partial_work", ["whole", "work", "normalised"])
def test_updates_whose_work_is_not_told_are_whole(partial_work: Literal["whole", "work", "normalised"]) -> None:
    samples, fresh = np.array([10, 30]), np.zeros(2, dtype=np.int64)
    protocol = Sync(rounds=1, partial_work=partial_work)
    assert protocol.factors(samples, fresh).tolist() == [0.25, 0.75]
    found = protocol.factors(samples, fresh, np.array([0.5, 1.0]))
    wanted = {"whole": [0.25, 0.75], "work": [1 / 7, 6 / 7], "normalised": [0.25 * 1.75, 0.75 * 0.875]}
    assert found.tolist() == pytest.approx(wanted[partial_work])


def server(protocol: Any, clients: int = 3) -> Server:
    return Server(ServerPlan(protocol, np.full(clients, 10), np.zeros(1, np.float32), Streams(1)))


def test_who_leaves_gives_up_its_task_and_is_not_asked_again() -> None:
    machine = server(Buffered(rounds=9, buffer=2, dispatch=ConstantDispatch(in_flight=2)))
    machine.start()
    client = machine.tasks.open[0].client
    actions = machine.handle(ClientLeft(1.0, client))
    assert Settle(0, Fate.DROPPED_OUT) in actions
    assert not machine.population.is_idle(client)
    assert client not in {task.client for task in machine.tasks.open.values()}


def test_a_task_that_never_began_was_not_served() -> None:
    machine = server(Sync(rounds=1, participants=2))
    machine.start()
    task = machine.tasks.open[0]
    machine.handle(ClientGone(0.0, task.client, 0, None))
    assert machine.population.served.tolist() == [int(client != task.client) for client in range(3)]


def test_how_long_a_client_took_is_heard() -> None:
    machine = server(Sync(rounds=1))
    machine.start(2.0)
    client = machine.tasks.open[1].client
    machine.handle(UpdateArrived(4.5, 1))
    heard = machine.population.statistics.durations_s
    assert heard[client] == 2.5
    assert np.isnan(np.delete(heard, client)).all()
