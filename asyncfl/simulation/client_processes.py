"""Tasks of clients and requests for scores, each a SimPy process unless all its phases are planned (`planned_tasks`).

Both (`task_process`, `scoring_process`) take a client through phases that follow from its random draws alone
(`phases`). Both send messages over the links, which an eavesdropper may overhear, and are broken off when the client
goes offline.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Protocol

from asyncfl.protocol.events import PHASES, Kind
from asyncfl.protocol.messages import (
    ClientGone,
    ClientIdle,
    ClientRetired,
    Dispatch,
    Fate,
    ScoreRequest,
    UpdateArrived,
)
from asyncfl.protocol.recorder import NAN
from asyncfl.protocol.task_record import TaskRecord
from asyncfl.simulation.action_executor import Traffic
from asyncfl.simulation.capacity import NOTHING_SENT, Sent, ServerLink, Workers
from asyncfl.simulation.clients import SimulatedClients
from asyncfl.simulation.clock import Clock, Moment
from asyncfl.simulation.event_order import EventOrder, Priority
from asyncfl.simulation.phases import LinkMessage, MessageEvent, Phase, Way
from asyncfl.simulation.planned_tasks import PlannedTasks
from asyncfl.simulation.scoring_process import ScoringProcess
from asyncfl.simulation.task_process import TaskProcess


class Setup(Protocol):
    """Messages that clients exchange before the phases of a task."""

    def invite(self, task: TaskRecord) -> None:
        """Take note of a task that is given now."""
        ...


class ClientProcesses:
    """The tasks and requests for scores of one seed, and what they share."""

    def __init__(self, clock: Clock, clients: SimulatedClients, traffic: Traffic, workers: Workers) -> None:
        self.clock = clock
        self.clients = clients
        self.load = clients.load
        self.traffic = traffic
        self.workers = workers
        self.spent: dict[int, float] = {}
        """Client -> time at which its budget was spent, when its last upload began."""
        links = {"down": clock.world.downlink.link, "up": clock.world.uplink.link}
        self.shared = {
            way: ServerLink(clock, link.server_bandwidth_bps) for way, link in links.items() if link.is_shared
        }
        """Way -> link of the server that messages of all clients share."""
        self.whole = clock.recorder.whole
        """Whether all events are recorded."""
        self.are_shared = bool(self.shared) or workers.processors.are_shared
        """Whether a phase may last longer than its duration."""
        self.latest: dict[int, TaskProcess] | None = {} if clients.scoring == "serial" else None
        """Client -> its latest task, for whose end its requests for scores wait; None if clients train and score at the
        same time."""
        self.requests = Counter[int]()
        """Client -> number of requests for scores that have reached it."""
        self._first = 0
        """Tasks that begin before anything else that follows from the current event."""
        self.planned: PlannedTasks | None = None
        """Tasks whose phases follow from their begin; None if tasks share something, something is done between their
        phases, or others wait for their end."""
        is_limited = self.are_shared or workers.are_limited or clients.budgets is not None or self.latest is not None
        if not (is_limited or clients.every_task):
            self.planned = PlannedTasks(clock, clients, traffic, self)

    def check_budget(self, client: int, turn: int) -> None:
        """Report to the server a client for which one more upload, that of its task number `turn`, would exceed its
        budget."""
        budgets = self.clients.budgets
        if budgets is not None and not budgets.affords(client, turn):
            self.spent[client] = self.clock.now
            self.clock.record(Kind.BUDGET_SPENT, client=client, detail=budgets.describe_spending(client))
            self.clock.tell(ClientRetired(client, time_s=self.clock.now))

    def dispatch(self, action: Dispatch, secure: Setup | None = None) -> ClientGone | None:
        """Begin a task, with the `secure` setup of its masks if there is one. Returns a message to the server if the
        client cannot be reached."""
        clock = self.clock
        if not clock.world.presence.online(action.client, clock.now):
            # The server drew a client that it believed idle, but that is offline.
            clock.record(Kind.WENT_OFFLINE, client=action.client)
            self._wait_for_return(action.client)
            return ClientGone(action.client, action.task, None, time_s=clock.now)
        task = clock.server.tasks.open[action.task]
        self.clients.begin(task)
        clock.record_task(Kind.DISPATCHED, task)
        if secure is None:
            self.begin_task(task)
        else:
            secure.invite(task)
        return None

    def begin_task(self, task: TaskRecord) -> None:
        """Begin the phases of a task."""
        if self.planned is not None:
            self.planned.expect(task)
            if self.clock.env.urgent:
                self.clock.soon(self._plan_next, self.planned)
            else:
                self._first += 1
            return
        process = TaskProcess(self, task)
        if self.latest is not None:
            self.latest[task.client] = process
        self.clock.begin(process)

    def begin_first(self) -> None:
        """Plan the phases of tasks that begin right after the current event, before anything else that follows."""
        first, self._first = self._first, 0
        if self.planned is not None and not self.clock.stopped:
            for _ in range(first):
                self._plan_next(self.planned)

    def _plan_next(self, planned: PlannedTasks) -> None:
        """Plan the phases of the next task, or go from phase to phase if the client goes offline meanwhile."""
        task = planned.next()
        if not planned.begin(task):
            self.clock.begin_now(TaskProcess(self, task))

    def end_phase(self, task: TaskRecord, phase: Phase) -> bool:
        """Log the end of a phase, tell the server if it ends the task, and return whether the task goes on."""
        if phase.sending is not None:
            transfer, way, _ = phase.sending
            return self.end_message(task, phase.ends, phase.fails, way, transfer.sent_bytes, transfer.attempts)
        if self.whole or phase.ends not in PHASES:
            self.clock.record_task(phase.ends, task, detail=phase.detail)
        if phase.ends is Kind.TRAINED:
            task.epochs = phase.epochs
            self.clients.training_ended(task)
        return self.goes_on(task, phase.ends, phase.fails)

    def end_message(
        self, task: TaskRecord, ends: Kind, fails: Fate | None, way: Way, sent_bytes: int, attempts: int
    ) -> bool:
        """Log the end of a phase with a message, see `end_phase`. `ends`: kind of the event at its end; `fails`: fate
        of the task if it fails with this phase."""
        self.traffic.count(sent_bytes, way)
        if self.whole or ends not in PHASES:
            self.clock.record_task(ends, task, -1, sent_bytes, attempts, NAN, way)
        return self.goes_on(task, ends, fails)

    def goes_on(self, task: TaskRecord, ends: Kind, fails: Fate | None) -> bool:
        """Tell the server if a task has ended with its phase, and return whether it goes on."""
        clock = self.clock
        if fails is not None:
            self.gone(task, fails)
            # Tasks that follow from its end begin first.
            clock.soon(clock.tell, ClientIdle(task.client, time_s=clock.now))
        elif ends is Kind.UPLOADED:
            clock.tell(UpdateArrived(task.number, time_s=clock.now))
        else:
            return True
        return False

    def score(self, action: ScoreRequest) -> None:
        """Begin a request for scores."""
        self.clock.begin(ScoringProcess(self, action))

    def note(self, task: TaskRecord, way: str, mark: MessageEvent) -> None:
        """Log an event of a task's message. `way`: `down`, `up`, or the name of the message in the trace."""
        if self.whole or mark.kind is Kind.OVERHEARD:
            self.clock.record_task(mark.kind, task, -1, mark.size, mark.attempt, NAN, way)

    def count_traffic(self) -> None:
        """Count what has been sent and overheard by now in phases that were planned."""
        if self.planned is not None:
            self.planned.count_traffic()

    def went_offline(self, task: TaskRecord, message: LinkMessage | None = None, sent: Sent = NOTHING_SENT) -> None:
        """Inform the server that the client has just gone offline: now, when the lease ends, or when the client
        returns. `sent`: bytes and transmissions that have left of the `message` in transmission: they count as sent."""
        clock, client = self.clock, task.client
        sent_bytes, attempts = sent
        if message is not None:
            self.traffic.count(sent_bytes, message.way)
        clock.record_task(Kind.WENT_OFFLINE, task, size=sent_bytes, attempt=attempts)
        detected_s = clock.world.detected_s(client, clock.now)
        back_s = clock.world.presence.next_change(client, clock.now)
        self._wait_for_return(client, task if detected_s == back_s else None)
        if detected_s == clock.now:
            clock.at(Moment(detected_s, EventOrder(Priority.DETECTION, client)), self._detected, task)
        elif detected_s < back_s:
            clock.at(Moment(detected_s, EventOrder(Priority.LEASE, client)), self._lease_ended, task)

    def gone(self, task: TaskRecord, fate: Fate) -> None:
        """Report to the server that a task has failed."""
        self.clock.tell(ClientGone(task.client, task.number, fate, time_s=self.clock.now))

    def _detected(self, task: TaskRecord) -> None:
        if not self.clock.stopped:
            self._dropped_out(task)

    def _lease_ended(self, task: TaskRecord) -> None:
        if not self.clock.stopped:
            self.gone(task, Fate.TIMED_OUT)

    def _dropped_out(self, task: TaskRecord) -> None:
        """Report to the server that the client was offline and its task is lost."""
        if task.number in self.clock.server.tasks:
            self.clock.record_task(Kind.DROPPED_OUT, task, detail="offline")
        self.gone(task, Fate.DROPPED_OUT)

    def _wait_for_return(self, client: int, task: TaskRecord | None = None) -> None:
        """Report that an offline client is idle as soon as it is back. `task`: its task that is lost, if the server
        learns of that only then."""
        back_s = self.clock.world.presence.next_change(client, self.clock.now)
        if back_s < math.inf:
            order = EventOrder(Priority.DETECTION, client, 2 if task is None else 0)
            self.clock.at(Moment(back_s, order), self._returned, client, task)

    def _returned(self, client: int, task: TaskRecord | None) -> None:
        clock = self.clock
        if not clock.stopped:
            clock.record(Kind.CAME_ONLINE, client=client)
            if task is not None:
                self._dropped_out(task)
            clock.soon(clock.tell, ClientIdle(client, time_s=clock.now))
