"""Tasks in flight, without a clock."""

from __future__ import annotations

import pytest

from asyncfl.federation.tasks_in_flight import TasksInFlight
from asyncfl.messages import Dispatch, Fate, Settle


def begun(*clients: int) -> TasksInFlight:
    tasks = TasksInFlight()
    for number, client in enumerate(clients):
        tasks.begin(Dispatch(number, client, 0))
    return tasks


def test_turns_count_the_tasks_that_a_client_was_given_before() -> None:
    tasks = begun(7, 3, 7)
    assert [task.turn for task in tasks.collect((0, 1, 2))] == [0, 0, 1]
    tasks.settle(Settle(2, Fate.LOST_UP))
    assert tasks.begin(Dispatch(3, 7, 1)).turn == 2


def test_a_settled_task_is_in_flight_no_more_and_its_fate_counts_once() -> None:
    tasks = begun(0, 1, 2)
    assert tasks.settle(Settle(1, Fate.AGGREGATED, weight=0.5)).client == 1
    tasks.settle(Settle(0, Fate.AGGREGATED, weight=0.0))
    assert [number in tasks for number in range(4)] == [False, False, True, False]
    assert tasks.fates == {Fate.AGGREGATED: 2}
    assert tasks.used == 1


def test_a_task_that_is_not_in_flight_cannot_be_settled() -> None:
    tasks = begun(0)
    tasks.settle(Settle(0, Fate.STALE))
    with pytest.raises(KeyError):
        tasks.settle(Settle(0, Fate.STALE))
    assert tasks.fates == {Fate.STALE: 1}


def test_of_the_last_buffer_only_those_in_flight_are_held() -> None:
    tasks = begun(0, 1, 2, 3)
    tasks.collect((0,))
    tasks.collect((3, 1, 2))
    tasks.settle(Settle(1, Fate.BANNED))
    assert [task.number for task in tasks.collected()] == [3, 2]
