from __future__ import annotations

from asyncfl.server.inbox import Inbox
from asyncfl.server.tasks import TaskRecord


def task(number: int, client: int = 0, base_version: int = 0) -> TaskRecord:
    return TaskRecord(number, client, base_version, cohort=-1, sent_s=0.0)


def numbers(tasks: list[TaskRecord]) -> list[int]:
    return [one.number for one in tasks]


def test_an_update_is_too_old_where_the_version_it_enters_is_too_far_from_its_own() -> None:
    inbox = Inbox(max_staleness=2)
    assert inbox.enter(task(0, base_version=5), version=7)
    assert not inbox.enter(task(1, base_version=5), version=8)
    assert numbers(inbox.clear()) == [0]
    assert Inbox().enter(task(2), version=1000)


def test_what_a_buffer_holds_beyond_what_is_taken_goes_ahead_of_the_queue() -> None:
    inbox = Inbox()
    inbox.queue(task(9))
    for number in range(4):
        inbox.enter(task(number), 0)
    assert (inbox.held, len(inbox)) == (4, 5)
    assert numbers(inbox.take(3)) == [0, 1, 2]
    assert (inbox.held, len(inbox)) == (0, 2)
    assert inbox.admit(1) == []
    assert numbers(inbox.take(2)) == [3, 9]


def test_the_queue_enters_in_its_order_and_without_what_has_become_too_old() -> None:
    inbox = Inbox(max_staleness=1)
    for number, base_version in enumerate([3, 1, 2]):
        inbox.queue(task(number, base_version=base_version))
    assert numbers(inbox.admit(3)) == [1]
    assert (inbox.held, len(inbox)) == (2, 2)
    assert numbers(inbox.take(2)) == [0, 2]


def test_what_a_client_has_waiting_is_removed_from_buffer_and_queue() -> None:
    inbox = Inbox()
    inbox.queue(task(0, client=1))
    inbox.enter(task(1, client=1), 0)
    inbox.enter(task(2, client=2), 0)
    assert numbers(inbox.remove(1)) == [1, 0]
    assert inbox.remove(1) == []
    assert numbers(inbox.clear()) == [2]
    assert len(inbox) == 0
