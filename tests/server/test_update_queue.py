from __future__ import annotations

from asyncfl.server.task_table import TaskRecord
from asyncfl.server.update_queue import UpdateQueue


def task(number: int, client: int = 0, base_version: int = 0) -> TaskRecord:
    return TaskRecord(number, client, base_version, cohort=-1, sent_s=0.0)


def numbers(tasks: list[TaskRecord]) -> list[int]:
    return [one.number for one in tasks]


def test_an_update_is_too_old_where_the_version_it_enters_is_too_far_from_its_own() -> None:
    queue = UpdateQueue(max_staleness=2)
    assert queue.enter(task(0, base_version=5), version=7)
    assert not queue.enter(task(1, base_version=5), version=8)
    assert numbers(queue.clear()) == [0]
    assert UpdateQueue().enter(task(2), version=1000)


def test_what_a_buffer_holds_beyond_what_is_taken_goes_ahead_of_the_queue() -> None:
    queue = UpdateQueue()
    queue.queue(task(9))
    for number in range(4):
        queue.enter(task(number), 0)
    assert (queue.held, len(queue)) == (4, 5)
    assert numbers(queue.take(3)) == [0, 1, 2]
    assert (queue.held, len(queue)) == (0, 2)
    assert queue.admit(1) == []
    assert numbers(queue.take(2)) == [3, 9]


def test_the_queue_enters_in_its_order_and_without_what_has_become_too_old() -> None:
    queue = UpdateQueue(max_staleness=1)
    for number, base_version in enumerate([3, 1, 2]):
        queue.queue(task(number, base_version=base_version))
    assert numbers(queue.admit(3)) == [1]
    assert (queue.held, len(queue)) == (2, 2)
    assert numbers(queue.take(2)) == [0, 2]


def test_what_a_client_has_waiting_is_removed_from_buffer_and_queue() -> None:
    queue = UpdateQueue()
    queue.queue(task(0, client=1))
    queue.enter(task(1, client=1), 0)
    queue.enter(task(2, client=2), 0)
    assert numbers(queue.remove(1)) == [1, 0]
    assert queue.remove(1) == []
    assert numbers(queue.clear()) == [2]
    assert len(queue) == 0
