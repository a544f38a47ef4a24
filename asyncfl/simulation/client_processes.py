"""Tasks of clients and requests for scores, each a SimPy process unless all its phases are planned (`planned_tasks`).

Both take a client through phases that follow from its random draws alone (`federation.phases`). Both send messages over
the links, which an eavesdropper may overhear, and are broken off when the client goes offline.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Generator
from functools import partial
from typing import Any, ClassVar, Protocol

import simpy

from asyncfl.protocol.events import CAUGHT, PHASES, SCORING_DOWN, Kind
from asyncfl.protocol.messages import (
    ClientGone,
    ClientIdle,
    ClientRetired,
    Dispatch,
    Fate,
    ScoreRequest,
    ScoresArrived,
    UpdateArrived,
)
from asyncfl.protocol.recorder import NAN
from asyncfl.protocol.score_requests import NO_ANSWER
from asyncfl.protocol.task_record import TaskRecord
from asyncfl.simulation.action_executor import Traffic
from asyncfl.simulation.capacity import NOTHING_SENT, Sent, ServerLink, Transmission, Work, Workers
from asyncfl.simulation.clients import SimulatedClients
from asyncfl.simulation.clock import NEVER, Clock, Moment, ResumableProcess
from asyncfl.simulation.event_order import EventOrder, Priority
from asyncfl.simulation.phases import LinkMessage, MessageEvent, Phase, ScoringPhase, ScoringPhases, TaskPhases, Way
from asyncfl.simulation.planned_tasks import PlannedTasks


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


class ClientProcess(ResumableProcess):
    """A task or a request for scores of one client."""

    __slots__ = ("began_s", "client", "message", "order", "place", "processes", "shared", "until")
    part: ClassVar[int]
    """See `EventOrder`."""

    def __init__(self, processes: ClientProcesses, client: int, order: EventOrder) -> None:
        """`order`: of its events among those of the same time."""
        self.processes = processes
        self.client = client
        self.order = order
        self.message: LinkMessage | None = None
        """Message in transmission; None: the client computes."""
        self.place: int | None = None
        """Place at which the client computes, or for which it waits."""
        self.began_s: float | None = None
        """Begin of the current phase; None while the client waits for a place to compute."""
        self.until = NEVER
        """When the phase, or the wait for a place, is broken off."""
        self.shared: Transmission | Work | None = None
        """The phase on a shared link or processor; None if it takes its own time."""

    @abstractmethod
    def _logger(self, message: LinkMessage) -> Callable[[MessageEvent], None]:
        """Return a function that logs an event of the message."""

    def _offline(self) -> Moment:
        """Return when the client next goes offline."""
        clock = self.processes.clock
        offline_s = clock.world.presence.next_change(self.client, clock.now)
        if offline_s == math.inf:
            return NEVER
        return Moment(offline_s, EventOrder(Priority.PRESENCE, self.client, self.part))

    def _ask_for_place(self) -> None:
        """Ask for a place to compute, as these are limited."""
        self.until, self.place = self._offline(), self.processes.workers.ask()

    def _wait_for_place(self, place: int) -> Generator[simpy.Event, Any, bool]:
        """Wait for the place that the client has asked for. Returns False if the client goes offline before."""
        is_free = yield from self.processes.workers.wait(place, self.until)
        if not is_free:
            self.place = None
        return is_free

    def _leave_place(self, place: int) -> None:
        self.processes.workers.leave(place)
        self.place = None

    def _begin_phase(self, duration_s: float, until: Moment) -> None:
        """Begin a phase that lasts for `duration_s`, or longer where its link or processor is shared. It is broken off
        at `until`."""
        processes, message = self.processes, self.message
        now_s = processes.clock.now
        self.began_s, self.until, self.shared = now_s, until, None
        if message is None:
            if processes.workers.processors.are_shared:
                self.shared = processes.workers.processors.begin(duration_s, self.order, until)
        elif processes.are_shared and (link := processes.shared.get(message.way)) is not None:
            self.shared = Transmission(link, message, self.order, until, self._logger(message))
        elif message.transfer.resent_at_s or message.transfer.caught_s < math.inf:
            note = self._logger(message)
            for mark in message.events():
                at = Moment(now_s + mark.at_s, self.order)
                if at <= until and (processes.whole or mark.kind is Kind.OVERHEARD):
                    processes.clock.at(at, note, mark)

    def _pass_phase(self, duration_s: float) -> Generator[simpy.Event, Any, Sent | None]:
        """Pass the rest of a phase that has begun. Returns None, or the bytes and transmissions that had left if it was
        broken off."""
        assert self.began_s is not None
        if self.shared is not None:
            broken = yield from self.shared.run()
            return broken
        clock, message = self.processes.clock, self.message
        end = Moment(self.began_s + duration_s, self.order)
        if end <= self.until:
            yield clock.env.timeout_at(end)
            return None
        yield clock.env.timeout_at(self.until)
        return NOTHING_SENT if message is None else message.broken_off(clock.now - self.began_s)


class TaskProcess(ClientProcess):
    """A client's task, from its dispatch until the server learns of its end."""

    __slots__ = (
        "_asked_s",
        "_lost",
        "_offline_s",
        "_patience_s",
        "_phase",
        "_phases",
        "_since_s",
        "task",
    )
    part = 0
    _asked_s: float
    """Time at which the client asked for a place to compute."""
    _since_s: float
    """Time since which the client is at the task. Waiting for a place to compute delays it."""
    _offline_s: float
    """Time at which the client goes offline."""
    _patience_s: float
    """Seconds from the begin of the phase until the client gives the task up; inf if that is decided already."""

    def __init__(self, processes: ClientProcesses, task: TaskRecord) -> None:
        super().__init__(processes, task.client, EventOrder(Priority.TASK, task.number))
        self.task = task
        self._phases: TaskPhases | None = None
        """The phases that are left; None before the first."""
        self._phase: Phase | None = None
        """The phase that the client is in, or waits for a place for."""
        self._lost: Moment | None = None
        """When the client is known to have gone offline, with which the task is lost; None while it is online."""

    def run(self) -> Generator[simpy.Event, Any, None]:
        """Take the client through the phases that are left."""
        processes, clock = self.processes, self.processes.clock
        while self._lost is None:
            phase = self._phase or self._next_phase()
            if self.began_s is None:
                if self.place is not None:
                    if not (yield from self._wait_for_place(self.place)):
                        processes.went_offline(self.task)
                        self._lose()
                        break
                    self._since_s += clock.now - self._asked_s
                self._start(phase)
            broken = yield from self._pass_phase(phase.duration_s)
            if not self._end(phase, broken):
                break
        # Requests for scores that wait for the end of this task fail, as the client has just gone offline.
        if self._lost is not None and processes.latest is not None:
            yield clock.env.timeout_at(self._lost)

    def _next_phase(self) -> Phase:
        """Return the next phase, and ask for a place if the client computes in it."""
        processes, task, is_slowed = self.processes, self.task, False
        now_s = processes.clock.now
        if self._phases is None:
            draws = processes.clock.world.task(task.client, task.turn)
            self._phases, self._since_s = TaskPhases(draws, processes.load, processes.clients.speed(task)), now_s
        if processes.are_shared:
            phase = self._phases.after(now_s - self._since_s)
            message, processors = phase.sending, processes.workers.processors
            # A phase may last longer than its duration.
            is_slowed = processors.are_shared if message is None else message.way in processes.shared
            if phase.patience_s < phase.duration_s and not is_slowed:
                phase = phase.given_up(phase.patience_s)
        else:
            phase = next(self._phases)
        self._phase, self.message = phase, phase.sending
        self._patience_s = phase.patience_s if is_slowed else math.inf
        if phase.sending is None and processes.workers.are_limited:
            self._asked_s = now_s
            self._ask_for_place()
        return phase

    def _start(self, phase: Phase) -> None:
        """Begin a phase."""
        processes, clock, task, message = self.processes, self.processes.clock, self.task, self.message
        if processes.whole:
            clock.record_task(phase.begins, task, -1, -1 if message is None else message.transfer.payload_bytes)
        if phase.begins is Kind.UPLOAD_STARTED and (budgets := processes.clients.budgets) is not None:
            # An upload counts as it begins, whether or not it arrives: it may be overheard.
            budgets.charge_upload(self.client, task.epochs)
            processes.check_budget(self.client, task.turn + 1)
        until = self._offline()
        self._offline_s = until.time_s
        if self._patience_s < math.inf:
            until = min(until, Moment(clock.now + self._patience_s, self.order))
        self._begin_phase(phase.duration_s, until)

    def _logger(self, message: LinkMessage) -> Callable[[MessageEvent], None]:
        return partial(self.processes.note, self.task, message.way)

    def _end(self, phase: Phase, broken: Sent | None) -> bool:
        """End a phase, and return whether the task goes on. `broken`: bytes and transmissions that had left, if it was
        broken off."""
        processes, clock, task = self.processes, self.processes.clock, self.task
        assert self.began_s is not None
        goes_offline = broken is not None and self.began_s + self._patience_s >= self._offline_s
        if broken is not None and goes_offline:
            processes.went_offline(task, self.message, broken)
        elif broken is not None:
            phase = phase.given_up(clock.now - self.began_s, None if self.message is None else broken)
        if self.place is not None:
            self._leave_place(self.place)
        if goes_offline:
            self._lose()
            return False
        self._phase = self.began_s = None
        return processes.end_phase(task, phase)

    def _lose(self) -> None:
        """Have the task end when the server may know that the client has just gone offline."""
        self._lost = Moment(self.processes.clock.now, EventOrder(Priority.DETECTION, self.client, 1))


class ScoringProcess(ClientProcess):
    """A request for scores: the client downloads models, evaluates each on its data and uploads the scores."""

    __slots__ = ("_after", "_missed", "_phase", "_phases", "_turn", "action")
    part = 1

    def __init__(self, processes: ClientProcesses, action: ScoreRequest) -> None:
        super().__init__(processes, action.client, EventOrder(Priority.SCORING, action.request))
        self.action = action
        self._turn = -1
        """Number of the client's requests before; -1: this one did not reach it."""
        self._after: TaskProcess | None = None
        """Task for whose end the request waits."""
        self._phases: ScoringPhases | None = None
        """The phases that are left; None before the request reaches the client."""
        self._phase: ScoringPhase | None = None
        """The phase that the client is in, or waits for a place for."""
        self._missed: Moment | None = None
        """When the server knows that the client has gone offline; None while it is online."""

    def run(self) -> Generator[simpy.Event, Any, None]:
        """Take the client through the phases that are left."""
        clock = self.processes.clock
        if self._phases is None:
            if self._after is None:
                self._record_request()
            if self._after is not None:
                yield clock.processes[self._after]
            if not self._reaches_client():
                yield clock.env.event().succeed()
                self._answer(False)
                return
        while self._missed is None:
            phase = self._phase or self._next_phase()
            if phase is None:
                self._answer(True)
                return
            if self.began_s is None:
                if self.place is not None and not (yield from self._wait_for_place(self.place)):
                    self._miss()
                    continue
                if phase.sending is None:
                    self.processes.clients.scoring_begins(self.client)
                self._begin_phase(phase.duration_s, self._offline())
            broken = yield from self._pass_phase(phase.duration_s)
            if not self._end(broken):
                return
        yield clock.env.timeout_at(self._missed)
        self._answer(False)

    def _record_request(self) -> None:
        """Record the request, and find the task for whose end it waits."""
        processes, clock, number = self.processes, self.processes.clock, len(self.action.models)
        size = number * processes.load.payload_bytes
        clock.record(Kind.SCORES_REQUESTED, client=self.client, detail=f"{number} models", size=size)
        latest = None if processes.latest is None else processes.latest.get(self.client)
        if latest in clock.processes and clock.world.online(self.client, clock.now):
            self._after = latest

    def _reaches_client(self) -> bool:
        """Send the request, and return whether the client can be reached and its budget allows to answer."""
        processes, clock, number = self.processes, self.processes.clock, len(self.action.models)
        budgets = processes.clients.budgets
        # As with tasks, the server does not know which clients are offline. Nothing is sent to an offline client.
        is_online = clock.world.online(self.client, clock.now) and self.client not in processes.spent
        # Scores count for the budget from now on: they may be overheard.
        if not is_online or not (budgets is None or budgets.charge_scores(self.client, number)):
            return False
        self._turn = processes.requests[self.client]
        processes.requests[self.client] += 1
        self._phases = ScoringPhases(clock.world.scoring(self.client, self._turn), processes.load, number)
        return True

    def _next_phase(self) -> ScoringPhase | None:
        """Return the next phase, None after the last, and ask for a place if the client computes in it."""
        assert self._phases is not None
        self._phase = phase = next(self._phases, None)
        if phase is not None:
            self.message = phase.sending
            if phase.sending is None and self.processes.workers.are_limited:
                self._ask_for_place()
        return phase

    def _end(self, broken: Sent | None) -> bool:
        """End a phase, and return whether the request goes on or is missed. `broken`: see `TaskProcess`."""
        message, traffic = self.message, self.processes.traffic
        if self.place is not None:
            self._leave_place(self.place)
        if broken is not None:
            if message is not None:
                traffic.count(broken[0], message.way)
            self._miss()
            return True
        if message is not None:
            traffic.count(message.transfer.sent_bytes, message.way)
            if not message.transfer.delivered:
                self._answer(False)
                return False
        self._phase = self.began_s = None
        return True

    def _miss(self) -> None:
        """Have the request end without an answer when the server has learnt that the client has just gone offline."""
        clock, client = self.processes.clock, self.client
        detected_s = clock.world.detected_s(client, clock.now)
        back_s = clock.world.presence.next_change(client, clock.now)
        is_lease = clock.now < detected_s < back_s
        order = EventOrder(Priority.LEASE if is_lease else Priority.DETECTION, client, self.part)
        self._missed = Moment(detected_s, order)

    def _answer(self, answers: bool) -> None:
        """Pass the answer, or the lack of one, to the server."""
        processes, clock, client, scores = self.processes, self.processes.clock, self.client, None
        if answers and client not in processes.spent:
            scores = processes.clients.score(self.action, self._turn)
        detail = f"{len(self.action.models)} models" if scores is not None else NO_ANSWER
        clock.record(Kind.SCORED, client=client, detail=detail)
        clock.tell(ScoresArrived(self.action.request, scores, time_s=clock.now))

    def _logger(self, message: LinkMessage) -> Callable[[MessageEvent], None]:
        assert self._phase is not None
        return partial(self._note, self._phase.name)

    def _note(self, way: str, mark: MessageEvent) -> None:
        """Log an event of models to score, sent to the client, or of its scores sent back."""
        clock = self.processes.clock
        clock.record(mark.kind, self.client, way, mark.size, mark.attempt)
        if mark.kind in CAUGHT and way == SCORING_DOWN:
            # The models of a request reveal each update of the buffer.
            for task in clock.server.tasks.collected():
                if not task.overheard:
                    self.processes.note(task, way, mark)
