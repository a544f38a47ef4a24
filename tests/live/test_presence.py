"""What follows when a client vanishes, leaves or is back, told by a host that only writes down what it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from asyncfl.federation.tasks_in_flight import TaskInFlight
from asyncfl.live.members import Member
from asyncfl.live.presence import Attendance
from asyncfl.live.vocabulary import Hello
from asyncfl.messages import ClientGone, ClientLeft, Fate
from asyncfl.world.failure_detection import InstantDetection, LeaseDetection


class House:
    """Client 2 is at task 7 at second 10."""

    def __init__(self, *, shape: bool = False, lease_s: float | None = 3.0) -> None:
        self.happened: list[Any] = []
        self.leases: list[tuple[float, Callable[[], Any]]] = []
        self.stopped: str | None = None
        self.terms = SimpleNamespace(shape=shape)
        self.tasks = {7}
        self.part = True
        self.clock = SimpleNamespace(has_begun=True, now=10.0, at=self._at)
        detection = InstantDetection() if lease_s is None else LeaseDetection(seconds=lease_s)
        self.failure_detection: Any = detection
        self.event_log = SimpleNamespace(
            record=lambda kind, *, client: self.happened.append((kind.value, client)),
            record_task=lambda kind, task, *, detail: self.happened.append((kind.value, task.number, detail)),
        )
        self.questions = SimpleNamespace(ask_held=self._named("asks what it held"), no_answer=self._named("no answer"))
        self.idle = self._named("idle")
        validator = SimpleNamespace(takes_part=lambda client: self.part, is_started=True)
        self.server = SimpleNamespace(validator=validator, handle=self._handle)
        host: Any = self
        self.presence = Attendance(host)
        self.member = Member(2, "ann", 20, task=TaskInFlight(7, 2, 1), at_s=9.0)

    def _named(self, what: str) -> Callable[[Member], list[Any]]:
        def happens(member: Member) -> list[Any]:
            self.happened.append((what, member.number))
            return []

        return happens

    def _handle(self, message: Any) -> list[Any]:
        self.happened.append(message)
        return [message]

    def _at(self, time_s: float, do: Callable[[], Any]) -> Any:
        self.leases.append((time_s, do))
        return SimpleNamespace(cancel=lambda: self.leases.pop())

    def then(self, *happens: Callable[[], Any]) -> None:
        for one in happens:
            assert isinstance(one(), list)

    def tell(self, happens: Callable[[], Any]) -> Any:
        return happens()


def test_who_vanishes_at_a_task_has_it_until_its_lease_ends() -> None:
    house = House()
    assert house.presence.lost(house.member) == []
    assert house.happened == [("went_offline", 2), ("asks what it held", 2)]
    [(time_s, ends)] = house.leases
    assert time_s == 13.0
    assert house.member.lease is not None
    assert house.member.missed
    assert house.member.task is not None
    task = house.member.task
    assert task.trained, "it may have been: nobody told"
    house.clock.now = 13.0
    ends()
    assert house.happened[2:] == [ClientGone(13.0, 2, 7, Fate.TIMED_OUT), ("no answer", 2)]
    assert (house.member.task, house.member.at_s) == (None, None)


def test_a_lease_ends_in_the_order_in_which_the_client_stopped_being_at_things() -> None:
    house = House()
    house.member.left = [-1, 7]
    house.presence.lost(house.member)
    assert house.member.task is not None
    assert not house.member.task.trained, "it told how far it came"
    house.leases[0][1]()
    assert house.happened[2:] == [("no answer", 2), ClientGone(10.0, 2, 7, Fate.TIMED_OUT)]


@pytest.mark.parametrize("back", [True, False])
def test_a_lease_that_ends_when_the_client_is_back_or_the_run_over_changes_nothing(back: bool) -> None:
    house = House()
    house.presence.lost(house.member)
    if back:
        house.member.connection = object()  # type: ignore[assignment]
    else:
        house.stopped = "over"
    assert house.leases[0][1]() == []
    assert len(house.happened) == 2
    assert house.member.at_s == 9.0


def test_where_failures_are_known_at_once_nobody_waits() -> None:
    house = House(lease_s=None)
    house.presence.lost(house.member)
    gone = ClientGone(10.0, 2, 7, Fate.DROPPED_OUT)
    dropped = ("dropped_out", 7, "offline")
    assert house.happened == [("went_offline", 2), dropped, gone, ("no answer", 2), ("asks what it held", 2)]
    assert house.leases == []
    settled = House(lease_s=None)
    settled.tasks = set()
    settled.presence.lost(settled.member)
    assert settled.happened[1] == gone, "of a task that is settled the trace has told already"


def test_nobody_ever_learns_of_it_where_a_lease_never_ends() -> None:
    house = House()
    house.failure_detection = SimpleNamespace(detected_s=lambda gone_s, back_s: back_s)
    house.presence.lost(house.member)
    assert house.leases == []
    assert house.member.lease is None


def test_a_shaped_client_has_told_that_it_goes_offline() -> None:
    house = House(shape=True)
    house.presence.lost(house.member)
    assert house.happened == [("asks what it held", 2)]
    assert house.member.missed


def test_who_is_at_nothing_is_not_missed_but_who_scores_has_a_lease_too() -> None:
    house = House()
    house.member.task = None
    house.presence.lost(house.member)
    assert house.happened == [("asks what it held", 2)]
    assert (house.member.missed, house.leases) == (False, [])
    house.member.request = object()  # type: ignore[assignment]
    house.presence.lost(house.member)
    assert [time_s for time_s, _ in house.leases] == [13.0]
    house.leases[0][1]()
    assert house.happened[-1] == ("no answer", 2)
    assert not house.member.missed


@pytest.mark.parametrize("why", ["over", "back", "not begun"])
def test_an_ended_connection_means_nothing_after_the_end_before_the_start_and_to_who_has_another(why: str) -> None:
    house = House()
    house.stopped = "over" if why == "over" else None
    house.clock.has_begun = why != "not begun"
    if why == "back":
        house.member.connection = object()  # type: ignore[assignment]
    assert house.presence.lost(house.member) == []
    assert house.happened == []


def test_who_leaves_gives_its_task_up() -> None:
    house = House()
    house.presence.lost(house.member)
    house.happened.clear()
    assert house.presence.left(house.member) == [ClientLeft(10.0, 2)]
    left = ("dropped_out", 7, "left")
    assert house.happened == [("went_offline", 2), left, ("no answer", 2), ClientLeft(10.0, 2)]
    assert (house.leases, house.member.lease) == ([], None)
    assert (house.member.task, house.member.at_s, house.member.missed) == (None, None, True)
    settled = House()
    settled.tasks = set()
    settled.presence.left(settled.member)
    assert left not in settled.happened
    stranger = House()
    stranger.part = False
    over = House()
    over.stopped = "over"
    for one in (stranger, over):
        assert one.presence.left(one.member) == []
        assert one.happened == []


def test_who_is_back_and_still_at_its_task_goes_on() -> None:
    house = House()
    house.presence.lost(house.member)
    house.member.left = [7]
    assert house.presence.returned(house.member, Hello("ann", "t", 1, 20, tasks=(7,))) == []
    assert house.happened[2:] == [("came_online", 2)]
    assert (house.leases, house.member.lease, house.member.left, house.member.missed) == ([], None, [], False)
    assert house.member.task is not None


@pytest.mark.parametrize(
    ("left", "place"), [([], 0), ([-1, 7], 0), ([7, -1], 3), ([0], 3)], ids=["nothing", "scores", "task", "task 0"]
)
def test_who_is_back_without_its_task_dropped_it(left: list[int], place: int) -> None:
    house = House()
    house.member.left, house.member.missed = left, True
    task = house.member.task
    assert task is not None
    assert house.presence.returned(house.member, Hello("ann", "t", 1, 20)) == []
    ends: list[Any] = [("came_online", 2), ("dropped_out", 7, "offline"), ClientGone(10.0, 2, 7, Fate.DROPPED_OUT)]
    ends.append(("idle", 2))
    at = 4 if place == 3 else 0
    assert house.happened == [*ends[:at], ("no answer", 2), *ends[at:]]
    assert (house.member.task, house.member.at_s, house.member.left) == (None, None, [])
    assert task.trained == (7 not in left)


def test_nothing_follows_from_a_return_before_the_start_or_after_the_end() -> None:
    for stopped, started in (("over", True), (None, False)):
        house = House()
        house.stopped, house.server.validator.is_started = stopped, started
        house.member.missed = True
        assert house.presence.returned(house.member, Hello("ann", "t", 1, 20)) == []
        assert house.happened == []
    over = House()
    over.stopped, over.member.missed = "over", True
    assert over.presence.came_online(over.member) == []
    assert (over.happened, over.member.missed) == ([], True)
    here = House()
    assert here.presence.came_online(here.member) == []
    assert here.happened == [], "nobody missed it"
