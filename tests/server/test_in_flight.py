from __future__ import annotations

from typing import Any

import pytest

from asyncfl.messages import Action, CohortRepeated, Dispatch, Fate, SetTimer
from asyncfl.server import Buffered, Protocol, Sync
from asyncfl.server.buffer_opening import OpenDeadline
from asyncfl.server.dispatch import ConstantDispatch, ContinuousDispatch
from asyncfl.server.in_flight import InFlight
from asyncfl.server.population import Population
from asyncfl.server.selection import FairSelection
from asyncfl.server.task_table import TaskTable
from asyncfl.streams import Streams


def in_flight(protocol: Protocol, clients: int = 4) -> InFlight:
    population = Population(clients)
    population.add_all()
    return InFlight(protocol, population, TaskTable(), Streams(1))


def kinds(actions: list[Any], kind: type) -> list[Any]:
    return [action for action in actions if isinstance(action, kind)]


def test_a_cohort_is_asked_with_its_reserves_and_counted_until_its_buffer_is_open() -> None:
    tasks = in_flight(Sync(rounds=2, participants=2, over_selection=1.5))
    actions: list[Action] = []
    tasks.begin_cohort(0, 0.0, actions)
    assert [(a.task, a.version) for a in kinds(actions, Dispatch)] == [(0, 0), (1, 0), (2, 0)]
    assert tasks.has_reserves
    filling = tasks.filling(held=0)
    assert (filling.coming, filling.cohort, filling.wanted) == (3, 3, 2)
    tasks.end(0, awaited=0)
    assert tasks.filling(1).coming == 2
    tasks.end(1, awaited=None)
    assert (len(tasks), tasks.filling(1).coming) == (1, 2), "the buffer was open"


def test_where_late_updates_are_carried_all_that_is_in_flight_is_coming() -> None:
    tasks = in_flight(Sync(rounds=2, participants=2, late="carry"))
    tasks.begin_cohort(0, 0.0, [])
    tasks.begin_cohort(1, 1.0, [])
    tasks.end(0, awaited=None)
    assert tasks.filling(0).coming == len(tasks) == 3


def test_a_cohort_has_as_many_as_are_idle_and_a_deadline_of_its_own() -> None:
    tasks = in_flight(Sync(rounds=2, open=OpenDeadline(seconds=5.0)))
    for client in (0, 2, 3):
        tasks.population.remove(client)
    tasks.deadline_passed = True
    actions: list[Action] = []
    tasks.begin_cohort(7, 0.0, actions)
    assert actions == [Dispatch(0, 1, 7), SetTimer("deadline:0", 5.0)]
    assert not tasks.deadline_passed


@pytest.mark.parametrize(("dispatch", "level"), [(ConstantDispatch(in_flight=2), 2), (ContinuousDispatch(), 4)])
def test_a_level_is_kept(dispatch: Any, level: int) -> None:
    tasks = in_flight(Buffered(rounds=2, buffer=2, dispatch=dispatch))
    tasks.begin_cohort(0, 0.0, actions := [])
    assert actions == []
    tasks.refill(0, 0.0, actions, is_empty=True)
    assert len(kinds(actions, Dispatch)) == len(tasks) == level
    tasks.refill(0, 0.0, again := [], is_empty=True)
    assert again == []
    task = tasks.end(1, awaited=0)
    assert task is not None
    assert tasks.startable == 4 - level
    tasks.population.add(task.client)
    tasks.refill(3, 1.0, again, is_empty=False)
    assert [(a.task, a.version) for a in kinds(again, Dispatch)] == [(level, 3)]


def test_the_least_served_are_asked_first_where_selection_is_fair() -> None:
    tasks = in_flight(Sync(rounds=2, participants=2, selection=FairSelection()))
    asked: list[int] = []
    for version in range(2):
        tasks.begin_cohort(version, 0.0, actions := [])
        asked += [a.client for a in kinds(actions, Dispatch)]
        for client in asked:
            tasks.population.add(client)
    assert sorted(asked) == [0, 1, 2, 3]


def test_for_each_client_of_a_cohort_that_cannot_be_reached_another_is_asked() -> None:
    tasks = in_flight(Sync(rounds=2, participants=2), clients=5)
    tasks.begin_cohort(0, 0.0, actions := [])
    asked = [action.client for action in kinds(actions, Dispatch)]
    for number in range(3):
        assert tasks.withdraw(number, awaited=0) is not None
        assert tasks.filling(0).cohort == tasks.filling(0).coming == 1
        assert tasks.startable == 1, "the buffer must not open short meanwhile"
        tasks.refill(0, 0.0, actions := [], is_empty=True)
        asked += [action.client for action in kinds(actions, Dispatch)]
        assert tasks.filling(0).cohort == tasks.filling(0).coming == 2
    assert sorted(asked) == [0, 1, 2, 3, 4], "nobody twice"
    assert tasks.withdraw(3, awaited=0) is not None
    assert tasks.startable == 0, "nobody is left to be asked"
    tasks.refill(0, 0.0, actions := [], is_empty=True)
    assert actions == []
    assert (tasks.filling(0).cohort, tasks.filling(0).coming) == (1, 1)
    tasks.population.add(asked[0])
    tasks.refill(0, 1.0, actions, is_empty=True)
    assert actions == [], "who comes later is not asked for a cohort that is at work"


def test_nobody_is_asked_for_a_cohort_of_which_one_has_answered() -> None:
    tasks = in_flight(Sync(rounds=2, participants=2), clients=3)
    tasks.begin_cohort(0, 0.0, [])
    done = tasks.end(0, awaited=0)
    assert done is not None
    tasks.population.add(done.client)
    tasks.withdraw(1, awaited=0)
    tasks.refill(0, 1.0, actions := [], is_empty=False)
    assert actions == []
    assert tasks.filling(1).cohort == 1


def test_a_level_is_kept_by_itself_where_a_client_cannot_be_reached() -> None:
    tasks = in_flight(Buffered(rounds=2, buffer=2, dispatch=ConstantDispatch(in_flight=2)))
    tasks.refill(0, 0.0, [], is_empty=True)
    tasks.withdraw(1, awaited=0)
    tasks.refill(0, 0.0, actions := [], is_empty=True)
    assert len(kinds(actions, Dispatch)) == 1


def test_nobody_waits_for_what_a_removed_client_has_in_flight() -> None:
    tasks = in_flight(Buffered(rounds=2, buffer=2, dispatch=ContinuousDispatch()))
    tasks.refill(0, 0.0, actions := [], is_empty=True)
    client = kinds(actions, Dispatch)[1].client
    assert [task.number for task in tasks.remove(client, awaited=0)] == [1]
    assert tasks.remove(client, awaited=0) == []
    assert [task.number for task in tasks.clear()] == [0, 2, 3]
    assert len(tasks) == 0


def test_a_cohort_that_came_to_nothing_is_repeated_once_and_only_while_its_buffer_is_empty() -> None:
    tasks = in_flight(Sync(rounds=2, participants=2))
    tasks.begin_cohort(0, 0.0, [])
    for number in range(2):
        tasks.refill(0, 1.0, actions := [], is_empty=True)
        assert actions == [], "somebody may still come"
        task = tasks.end(number, awaited=0)
        assert task is not None
        tasks.book.settle(number, Fate.LOST_UP)
    tasks.refill(0, 1.0, actions, is_empty=False)
    assert actions == []
    tasks.refill(0, 1.0, actions, is_empty=True)
    tasks.refill(0, 1.0, actions, is_empty=True)
    assert actions == [SetTimer("cohort", 0.0)]
    tasks.repeat_cohort(0, 1.0, actions := [], is_empty=True)
    assert actions[0] == CohortRepeated(2)
    assert [(a.task, a.version) for a in kinds(actions, Dispatch)] == [(2, 0), (3, 0)]
    tasks.repeat_cohort(0, 1.0, actions := [], is_empty=True)
    assert actions == [], "the second is on its way"


def test_a_cohort_that_nobody_could_be_drawn_for_is_drawn_as_soon_as_somebody_is_idle() -> None:
    tasks = in_flight(Sync(rounds=2, participants=2), clients=2)
    for client in (0, 1):
        tasks.population.remove(client)
    tasks.begin_cohort(0, 0.0, actions := [])
    tasks.refill(0, 0.5, actions, is_empty=True)
    assert actions == []
    tasks.population.add(1)
    tasks.refill(0, 1.0, actions, is_empty=True)
    assert actions == [Dispatch(0, 1, 0)]
