"""The messages of secure aggregation on the clock: before a task, and to unmask the sum of a buffer.

A cohort that agrees on masks together passes its rounds before its models are sent: the server closes a round when each
client has answered, has lost a message or its connection. The server relays shares; of those that wait at it for a
client only the bytes count. To unmask a sum it asks all that can help and goes on with the first answers that suffice.
A client whose message is lost, or that goes offline, drops out. Messages of these rounds tell an eavesdropper nothing:
public keys and shares, which stand for encrypted ones.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from asyncfl.protocol.events import Kind
from asyncfl.protocol.messages import ClientIdle, CollectSum, Fate
from asyncfl.protocol.secure_aggregation import SecureAggregation
from asyncfl.protocol.settings import Protocol
from asyncfl.protocol.task_record import TaskRecord
from asyncfl.secure_aggregation import MaskedSum, Member
from asyncfl.simulation.client_processes import ClientProcesses
from asyncfl.simulation.clock import Moment
from asyncfl.simulation.event_order import EventOrder, Priority
from asyncfl.simulation.phases import Way
from asyncfl.world import TaskDraws

_UNMASKING = 1000
"""Number of the first message of an unmasking, beyond those of any setup."""


class Passed(NamedTuple):
    """A message of a round that has ended."""

    end_s: float
    arrived: bool
    offline: bool  # whether the client went offline meanwhile


class SecureRounds:
    """Rounds of secure aggregation of one seed."""

    def __init__(
        self, processes: ClientProcesses, secure: SecureAggregation, protocol: Protocol, n_parameters: int
    ) -> None:
        self._processes, self._clock, self._secure = processes, processes.clock, secure
        self._n_parameters = n_parameters
        clients = self._clock.server.clients
        self._by_cohort = protocol.masks_by_cohort
        self._holders = protocol.share_holders(clients)
        self._needed = secure.needed(self._holders)
        self._invited: list[TaskRecord] = []
        """Tasks that were given now, whose setup has not begun."""
        self._members: dict[int, tuple[Member, ...]] = {}
        """Task -> members of the cohort that agreed on masks with it, until its buffer is collected."""
        self._requests = Counter[int]()
        """Client -> number of requests to unmask so far."""
        self._helpers: tuple[int, ...] | None = None
        """Clients that unmask the buffer that is collected; None: too few."""
        self._bytes: Counter[Way] = Counter()
        """Bytes of the messages of the unmasking."""

    # --- before the tasks ------------------------------------------------------------------------------------------

    def invite(self, task: TaskRecord) -> None:
        """Take note of a task that is given now."""
        self._invited.append(task)

    def set_up(self) -> None:
        """Pass the rounds of the tasks that were given now. Each task begins at its end, or fails."""
        invited, self._invited = self._invited, []
        if not invited:
            return
        clock, together = self._clock, self._secure.needs_cohort
        at_s = dict.fromkeys((task.number for task in invited), clock.now)
        sent = {number: Counter[Way]() for number in at_s}
        left, members = invited, invited
        for number, (up_bytes, down_bytes) in enumerate(self._secure.setup(self._holders, self._n_parameters)):
            ways: tuple[tuple[Way, int], ...] = (("up", up_bytes), ("down", down_bytes))
            for way, size in ways:
                if not size:
                    continue
                passed = {
                    task.number: self._pass(
                        self._draws(task), way, size, 2 * number + (way == "down"), at_s, sent, task
                    )
                    for task in left
                }
                for task in left:
                    if not passed[task.number].arrived:
                        self._fail(task, passed[task.number], sent[task.number])
                left = [task for task in left if passed[task.number].arrived]
                at_s = {task.number: passed[task.number].end_s for task in left}
                if way == "up" and together:
                    closed_s = max(one.end_s for one in passed.values())
                    if len(left) < self._needed:
                        self._abandon(left, closed_s, sent)
                        return
                    at_s, members = dict.fromkeys(at_s, closed_s), left
        if together:
            agreed = tuple(Member(task.client, task.turn) for task in members)
            self._members |= dict.fromkeys((task.number for task in members), agreed)
        for task in left:
            moment = Moment(at_s[task.number], EventOrder(Priority.TASK, task.number))
            clock.at(moment, self._begin, task, sent[task.number])

    def _draws(self, task: TaskRecord) -> TaskDraws:
        return self._clock.world.task(task.client, task.turn)

    def _pass(
        self,
        draws: TaskDraws,
        way: Way,
        size: int,
        number: int,
        at_s: dict[int, float],
        sent: dict[int, Counter[Way]],
        task: TaskRecord,
    ) -> Passed:
        """Send a message of a task's setup and return how it ended; adds its bytes to `sent`."""
        found, size = self._end_of(draws, way, size, number, at_s[task.number])
        sent[task.number][way] += size
        return found

    def _end_of(self, draws: TaskDraws, way: Way, size: int, number: int, at_s: float) -> tuple[Passed, int]:
        """Return how a message that begins at `at_s` ends, and the bytes that leave."""
        offline_s = self._clock.world.presence.next_change(draws.client, self._clock.now)
        transfer = draws.message(way, size, number)
        end_s = at_s + transfer.duration_s
        if end_s >= offline_s:
            return Passed(offline_s, False, True), transfer.sent_by(offline_s - at_s)
        return Passed(end_s, transfer.delivered, False), transfer.sent_bytes

    def _fail(self, task: TaskRecord, passed: Passed, sent: Counter[Way]) -> None:
        if passed.offline:
            self._clock.at(Moment(passed.end_s, EventOrder(Priority.PRESENCE, task.client)), self._offline, task, sent)
        else:
            order = EventOrder(Priority.TASK, task.number)
            self._clock.at(Moment(passed.end_s, order), self._give_up, task, Fate.DROPPED_OUT, sent)

    def _abandon(self, tasks: list[TaskRecord], at_s: float, sent: dict[int, Counter[Way]]) -> None:
        for task in tasks:
            order = EventOrder(Priority.TASK, task.number)
            self._clock.at(Moment(at_s, order), self._give_up, task, Fate.BELOW_THRESHOLD, sent[task.number])

    def _count(self, sent: Counter[Way]) -> None:
        for way, size in sent.items():
            self._processes.traffic.count(size, way)

    def _begin(self, task: TaskRecord, sent: Counter[Way]) -> None:
        if self._clock.stopped:
            return
        relayed = self._secure.relayed_bytes(self._holders, self._n_parameters)
        self._count(sent)
        self._processes.traffic.count(relayed, "down")
        if self._clock.recorder.whole:
            self._clock.record_task(Kind.MASKS_AGREED, task, size=sent.total() + relayed)
        self._processes.begin_task(task)
        self._processes.begin_first()

    def _offline(self, task: TaskRecord, sent: Counter[Way]) -> None:
        if not self._clock.stopped:
            self._count(sent)
            self._processes.went_offline(task)

    def _give_up(self, task: TaskRecord, fate: Fate, sent: Counter[Way]) -> None:
        """End a task whose client lost a message of its setup, or whose cohort is too small."""
        clock = self._clock
        if clock.stopped:
            return
        self._count(sent)
        clock.record_task(Kind.DROPPED_OUT, task)
        self._processes.gone(task, fate)
        clock.soon(clock.tell, ClientIdle(task.client, time_s=clock.now))

    # --- unmasking -------------------------------------------------------------------------------------------------

    def unmask(self, action: CollectSum) -> float:
        """Ask for what unmasks the sum of a buffer, and return the time at which the server has it, or knows that it
        never will."""
        clock, world = self._clock, self._clock.world
        senders = {clock.server.tasks.open[number].client for number in action.tasks}
        asked = sorted(senders) if self._by_cohort else range(clock.server.clients)
        up_bytes, down_bytes = self._secure.unmasking(self._holders, len(action.tasks), self._n_parameters)
        self._bytes = Counter()
        messages: tuple[tuple[Way, int], ...] = (("down", down_bytes), ("up", up_bytes))
        ends: list[tuple[float, int]] = []
        known_s = clock.now
        for client in asked:
            if not world.online(client, clock.now):
                continue
            draws = world.scoring(client, self._requests[client])
            self._requests[client] += 1
            passed = Passed(clock.now, True, False)
            for number, (way, size) in enumerate(messages, _UNMASKING):
                if passed.arrived:
                    passed, left = self._end_of(draws, way, size, number, passed.end_s)
                    self._bytes[way] += left
            known_s = max(known_s, passed.end_s)
            if passed.arrived:
                ends.append((passed.end_s, client))
        ends.sort()
        if len(ends) < self._needed:
            self._helpers = None
            return known_s
        self._helpers = tuple(client for _, client in ends[: self._needed])
        return ends[self._needed - 1][0]

    def masked_sum(self, action: CollectSum) -> MaskedSum | None:
        """Return who takes part in the sum of a buffer whose unmasking is over; None if too few answered."""
        self._count(self._bytes)
        tasks = [self._clock.server.tasks.open[number] for number in action.tasks]
        senders = tuple(Member(task.client, task.turn) for task in tasks)
        members = dict.fromkeys(one for task in tasks for one in self._members.get(task.number, ()))
        if self._secure.needs_cohort:
            self._members = {}  # tasks of the cohort that come later are late
        if self._helpers is None:
            self._clock.record(Kind.NOT_UNMASKED, detail=f"{len(tasks)} updates, {self._needed} clients needed")
            return None
        return MaskedSum(action.weights, senders, tuple(members) or senders, self._helpers, self._holders)

    def record_sum(self, work: MaskedSum, out_of_range: int, wrapped: int) -> None:
        """Record a sum that was unmasked. `out_of_range`: numbers of its updates that were clipped to the range;
        `wrapped`: numbers of the sum that were too large for the field."""
        parts = [f"{len(work.senders)} updates by {len(work.helpers)} of {self._holders} clients"]
        parts += [f"{out_of_range} numbers clipped to the range"] if out_of_range else []
        parts += [f"{wrapped} numbers of the sum wrapped around"] if wrapped else []
        self._clock.record(Kind.UNMASKED, detail=", ".join(parts))
