"""Who is there: what follows when a client's connection ends, when it is back, and when it takes part no longer."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from asyncfl.base.messages import Action, ClientGone, ClientLeft, Fate
from asyncfl.live.members import Member
from asyncfl.live.vocabulary import Hello
from asyncfl.trace import Kind

if TYPE_CHECKING:
    from asyncfl.live.host import Host


class Attendance:
    """What the host of a run learns of who is there."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def lost(self, member: Member) -> list[Action]:
        """The connection of a client has ended."""
        if self._host.stopped is not None or member.connection is not None or not self._host.clock.has_begun:
            return []
        task = member.task
        self._untold(member)
        if task is not None and not self._host.terms.shape:
            # A shaped client has told of it.
            self._host.event_log.record(Kind.WENT_OFFLINE, client=member.number)
        if task is not None:
            member.missed = True
        if task is not None or member.request is not None:
            now_s = self._host.clock.now
            detected_s = self._host.failure_detection.detected_s(now_s, math.inf)
            if detected_s <= now_s:
                self._host.then(lambda: self._dropped_out(member), lambda: self._host.questions.no_answer(member))
            elif detected_s < math.inf:
                member.lease = self._host.clock.at(
                    detected_s, lambda: self._host.tell(lambda: self._lease_ended(member))
                )
        self._host.questions.ask_held(member)
        return []

    def left(self, member: Member) -> list[Action]:
        """The client takes part no longer, unless it joins again."""
        if self._host.stopped is not None or not self._host.server.validator.takes_part(member.number):
            return []
        if member.lease is not None:
            member.lease.cancel()
            member.lease = None
        self._untold(member)
        task, member.task, member.at_s, member.missed = member.task, None, None, True
        self._host.event_log.record(Kind.WENT_OFFLINE, client=member.number)
        if task is not None and task.number in self._host.tasks:
            self._host.event_log.record_task(Kind.DROPPED_OUT, task, detail="left")
        self._host.then(lambda: self._host.questions.no_answer(member))
        return self._host.server.handle(ClientLeft(self._host.clock.now, member.number))

    def _untold(self, member: Member) -> None:
        """Nobody was told how far a client came that is away: it may have trained its task."""
        if member.task is not None and member.task.number not in member.left:
            member.task.trained = True

    def _lease_ended(self, member: Member) -> list[Action]:
        if self._host.stopped is not None or member.connection is not None:
            return []
        member.at_s = None
        ends = [lambda: self._gone(member, Fate.TIMED_OUT), lambda: self._host.questions.no_answer(member)]
        # In the order in which it stopped being at them.
        self._host.then(*(ends if member.left[:1] != [-1] else ends[::-1]))
        return []

    def _dropped_out(self, member: Member) -> list[Action]:
        """The server hears that the client was away, and is at nothing any more."""
        if member.task is not None and member.task.number in self._host.tasks:
            self._host.event_log.record_task(Kind.DROPPED_OUT, member.task, detail="offline")
        return self._gone(member, Fate.DROPPED_OUT)

    def _gone(self, member: Member, fate: Fate) -> list[Action]:
        task, member.task = member.task, None
        if task is None or self._host.stopped is not None:
            return []
        return self._host.server.handle(ClientGone(self._host.clock.now, member.number, task.number, fate))

    def returned(self, member: Member, hello: Hello) -> list[Action]:
        """The client has a connection again, and says what it is still at."""
        if self._host.stopped is not None or not self._host.server.validator.is_started:
            return []
        if member.lease is not None:
            member.lease.cancel()
            member.lease = None
        if member.task is not None and member.task.number in hello.tasks:
            # It goes on where it was.
            member.left = []
            self.came_online(member)
            return []
        self._untold(member)
        left, member.left = member.left, []
        member.at_s = None
        ends = [
            lambda: self.came_online(member),
            lambda: self._dropped_out(member),
            lambda: self._host.idle(member),
        ]
        # In the order in which it stopped being at them.
        place = len(ends) if left and left[0] >= 0 else 0
        ends.insert(place, lambda: self._host.questions.no_answer(member))
        self._host.then(*ends)
        return []

    def came_online(self, member: Member) -> list[Action]:
        """Nothing follows; the trace tells of it where it told that the client had gone."""
        if member.missed and self._host.stopped is None:
            member.missed = False
            self._host.event_log.record(Kind.CAME_ONLINE, client=member.number)
        return []
