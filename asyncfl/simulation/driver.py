"""The driver of a simulation: executes a server's actions on the virtual clock.

A task of a client, from its dispatch until the server learns of its end, is one record, and so is a request for scores.
Its methods are called by the clock at the begin and the end of each phase. Both send messages over the links, which an
eavesdropper may overhear.
"""

from __future__ import annotations

import gc
import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, ClassVar, TypeAlias

import simpy

from asyncfl.base.messages import (
    Action,
    ClientGone,
    ClientIdle,
    ClientRetired,
    Collect,
    Collected,
    Dispatch,
    Fate,
    Input,
    Publish,
    RequestScores,
    ScoresArrived,
    SetTimer,
    TimerFired,
    UpdateArrived,
)
from asyncfl.federation.action_executor import ActionExecutor, Traffic, Watcher
from asyncfl.federation.event_order import IMMEDIATE, SERVER, EventOrder, Priority
from asyncfl.federation.phases import (
    LinkMessage,
    MessageEvent,
    Phase,
    ScoringPhase,
    ScoringPhases,
    TaskPhases,
)
from asyncfl.privacy import MixingNode
from asyncfl.server import Server
from asyncfl.server.machine import AGGREGATION
from asyncfl.server.tasks import TaskRecord
from asyncfl.simulation.capacity import Processors, ServerLink, Workers
from asyncfl.simulation.clients import SimulatedClients
from asyncfl.simulation.clock import Clock, Moment
from asyncfl.trace import Kind, Recorder
from asyncfl.trace.events import CAUGHT, PHASES, SCORING_DOWN
from asyncfl.trace.recorder import NAN
from asyncfl.trace.scoring_requests import NO_ANSWER
from asyncfl.world import WorldState

Sent: TypeAlias = tuple[int, int]
"""Bytes and transmissions of a message that have left."""
NOTHING_SENT: Sent = (-1, -1)
"""Stands for them in a phase without a message."""
COLLECT_EVERY = 50_000
"""New objects after which Python looks for cycles among them."""


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
        self.running: dict[int, simpy.Event] | None = {} if clients.scoring == "serial" else None
        """Client -> event at the end of its latest task, for which its requests for scores wait; None if clients train
        and score at the same time."""
        self.requests = Counter[int]()
        """Client -> number of requests for scores that have reached it."""

    def check_budget(self, client: int, turn: int) -> None:
        """Report to the server a client for which one more upload, that of its task number `turn`, would exceed its
        budget."""
        budgets = self.clients.budgets
        if budgets is not None and not budgets.affords(client, turn):
            self.spent[client] = self.clock.now
            self.clock.record(Kind.BUDGET_SPENT, client=client, detail=budgets.describe_spending(client))
            self.clock.tell(ClientRetired(self.clock.now, client))

    def dispatch(self, action: Dispatch) -> ClientGone | None:
        """Begin a task. Returns a message to the server if the client cannot be reached."""
        clock = self.clock
        if not clock.world.online(action.client, clock.now):
            # The server drew a client that it believed idle, but that is offline.
            clock.record(Kind.WENT_OFFLINE, client=action.client)
            clock.soon(self._wait_for_return, action.client)
            return ClientGone(clock.now, action.client, action.task, None)
        task = clock.server.tasks.open[action.task]
        self.clients.begin(task)
        clock.record_task(Kind.DISPATCHED, task)
        over = None
        if self.running is not None:
            over = self.running[task.client] = clock.env.event()
        clock.soon(TaskProcess(self, task, over).begin)
        return None

    def score(self, action: RequestScores) -> None:
        """Begin a request for scores."""
        self.clock.soon(ScoringProcess(self, action).begin)

    def note(self, task: TaskRecord, way: str, mark: MessageEvent) -> None:
        """Log an event of a task's message. `way`: `down`, `up`, or the name of the message in the trace."""
        if mark.kind is not Kind.OVERHEARD:
            if not self.whole:
                return
        else:
            task.overheard |= way != "down"
            self.traffic.overhear("down" if way == "down" else "up", task.client, task.base_version)
        self.clock.record_task(mark.kind, task, -1, mark.size, mark.attempt, NAN, way)

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
        clock.soon(self._wait_for_return, client, task if detected_s == back_s else None)
        if detected_s == clock.now:
            clock.at(Moment(detected_s, EventOrder(Priority.DETECTION, client)), self._detected, task)
        elif detected_s < back_s:
            clock.at(Moment(detected_s, EventOrder(Priority.LEASE, client)), self._lease_ended, task)

    def gone(self, task: TaskRecord, fate: Fate) -> None:
        """Report to the server that a task has failed."""
        self.clock.tell(ClientGone(self.clock.now, task.client, task.number, fate))

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
            clock.soon(clock.tell, ClientIdle(clock.now, client))


class ClientProcess(ABC):
    """A task or a request for scores of one client, on the clock."""

    __slots__ = ("began_s", "client", "message", "order", "place", "processes")
    part: ClassVar[int]
    """See `EventOrder`."""

    def __init__(self, processes: ClientProcesses, client: int, order: EventOrder) -> None:
        """`order`: of its events among those of the same time."""
        self.processes = processes
        self.client = client
        self.order = order
        self.message: LinkMessage | None = None
        """Message in transmission; None: the client computes."""
        self.place: Any = None
        """Place at which the client computes; None if it does not."""
        self.began_s = 0.0
        """Begin of the current phase."""

    @abstractmethod
    def begin(self) -> None:
        """Begin its first phase."""

    @abstractmethod
    def _ended(self, broken: Sent | None) -> None:
        """Called at the end of a phase. `broken`: bytes and transmissions that had left, if it was broken off."""

    @abstractmethod
    def _logger(self, message: LinkMessage) -> Callable[[MessageEvent], None]:
        """Return a function that logs an event of the message."""

    def _begin_phase(self, duration_s: float, offline_s: float, patience_s: float = math.inf) -> None:
        """Begin a phase that lasts for `duration_s`, or longer where its link or processor is shared. It is broken off
        at `offline_s`, or when the client's patience ends after `patience_s`."""
        message, processes, order = self.message, self.processes, self.order
        clock = processes.clock
        self.began_s = clock.now
        until = Moment(offline_s, EventOrder(Priority.PRESENCE, self.client, self.part))
        if patience_s < math.inf:
            until = min(until, Moment(clock.now + patience_s, order))
        if message is not None:
            if processes.are_shared and (link := processes.shared.get(message.way)) is not None:
                link.carry(message, order, until, self._logger(message), self._ended)
                return
            if message.transfer.resent_at_s or message.transfer.caught_s < math.inf:
                note = self._logger(message)
                for mark in message.events():
                    at = Moment(self.began_s + mark.at_s, order)
                    if at <= until and (processes.whole or mark.kind is Kind.OVERHEARD):
                        clock.at(at, note, mark)
        elif processes.workers.processors.are_shared:
            processes.workers.processors.work(duration_s, self._worked, order, until)
            return
        end = Moment(self.began_s + duration_s, order)
        if end <= until:
            clock.at(end, self._ended, None)
        else:
            clock.at(until, self._break_off)

    def _worked(self, done: bool) -> None:
        self._ended(None if done else NOTHING_SENT)

    def _break_off(self) -> None:
        after_s = self.processes.clock.now - self.began_s
        self._ended(NOTHING_SENT if self.message is None else self.message.broken_off(after_s))


class TaskProcess(ClientProcess):
    """A client's task, from its dispatch until the server learns of its end."""

    __slots__ = ("_asked_s", "_offline_s", "_over", "_patience_s", "_phase", "_phases", "_since_s", "task")
    part = 0
    _phases: TaskPhases
    _phase: Phase
    _asked_s: float
    """Time at which the client asked for a place to compute."""
    _since_s: float
    """Time since which the client is at the task. Waiting for a place to compute delays it."""
    _offline_s: float
    """Time at which the client goes offline."""
    _patience_s: float
    """Seconds from the begin of the phase until the client gives the task up; inf if that is decided already."""

    def __init__(self, processes: ClientProcesses, task: TaskRecord, over: simpy.Event | None = None) -> None:
        """`over`: event that follows its end; None for none."""
        super().__init__(processes, task.client, EventOrder(Priority.TASK, task.number))
        self.task = task
        self._over = over

    def begin(self) -> None:
        processes, task = self.processes, self.task
        self._since_s = processes.clock.now
        draws = processes.clock.world.task(task.client, task.turn)
        self._phases = TaskPhases(draws, processes.load, processes.clients.speed(task))
        self._next_phase()

    def _next_phase(self) -> None:
        processes, clock, is_slowed = self.processes, self.processes.clock, False
        if processes.are_shared:
            phase = self._phases.after(clock.now - self._since_s)
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
            self._asked_s = clock.now
            processes.workers.wait(self.client, self.part, self._placed)
        else:
            self._start_phase()

    def _placed(self, place: Any) -> None:
        if place is None:
            self.processes.went_offline(self.task)
            self._end_when_detected()
            return
        self.place = place
        self._since_s += self.processes.clock.now - self._asked_s
        self._start_phase()

    def _start_phase(self) -> None:
        processes, clock, task = self.processes, self.processes.clock, self.task
        phase, message = self._phase, self.message
        if processes.whole:
            clock.record_task(phase.begins, task, -1, -1 if message is None else message.transfer.payload_bytes)
        if phase.begins is Kind.UPLOAD_STARTED and (budgets := processes.clients.budgets) is not None:
            # An upload counts as it begins, whether or not it arrives: it may be overheard.
            budgets.charge_upload(self.client, task.epochs)
            processes.check_budget(self.client, task.turn + 1)
        self._offline_s = clock.world.presence.next_change(self.client, clock.now)
        self._begin_phase(phase.duration_s, self._offline_s, self._patience_s)

    def _logger(self, message: LinkMessage) -> Callable[[MessageEvent], None]:
        return partial(self.processes.note, self.task, message.way)

    def _ended(self, broken: Sent | None) -> None:
        processes, clock, task, phase = self.processes, self.processes.clock, self.task, self._phase
        goes_offline = broken is not None and self.began_s + self._patience_s >= self._offline_s
        if broken is not None and goes_offline:
            processes.went_offline(task, self.message, broken)
        elif broken is not None:
            phase = phase.given_up(clock.now - self.began_s, None if self.message is None else broken)
        if self.place is not None:
            processes.workers.leave(self.place)
            self.place = None
        if goes_offline:
            self._end_when_detected()
            return
        if phase.sending is not None:
            transfer, way, _ = phase.sending
            processes.traffic.count(transfer.sent_bytes, way)
            if processes.whole or phase.ends not in PHASES:
                clock.record_task(phase.ends, task, -1, transfer.sent_bytes, transfer.attempts, NAN, way)
        else:
            if processes.whole or phase.ends not in PHASES:
                clock.record_task(phase.ends, task, detail=phase.detail)
            if phase.ends is Kind.TRAINED:
                task.epochs = phase.epochs
                processes.clients.training_ended(task)
        if phase.fails is not None:
            processes.gone(task, phase.fails)
            # Tasks that follow from its end begin first.
            clock.soon(clock.tell, ClientIdle(clock.now, self.client))
            self._end()
        elif phase.ends is Kind.UPLOADED:
            clock.tell(UpdateArrived(clock.now, task.number))
            self._end()
        else:
            self._next_phase()

    def _end_when_detected(self) -> None:
        """Let requests for scores that wait for the end of this task fail, as the client has just gone offline."""
        if self._over is not None:
            clock = self.processes.clock
            clock.at(Moment(clock.now, EventOrder(Priority.DETECTION, self.client, 1)), self._end)

    def _end(self) -> None:
        """Let requests for scores begin that wait for the end of this task."""
        if self._over is not None:
            self._over.succeed()


class ScoringProcess(ClientProcess):
    """A request for scores: the client downloads models, evaluates each on its data and uploads the scores."""

    __slots__ = ("_phase", "_phases", "_turn", "action")
    part = 1
    _phases: ScoringPhases
    _phase: ScoringPhase

    def __init__(self, processes: ClientProcesses, action: RequestScores) -> None:
        super().__init__(processes, action.client, EventOrder(Priority.SCORING, action.request))
        self.action = action
        self._turn = -1
        """Number of the client's requests before; -1: this one did not reach it."""

    def begin(self) -> None:
        processes, number = self.processes, len(self.action.models)
        size = number * processes.load.payload_bytes
        processes.clock.record(Kind.SCORES_REQUESTED, client=self.client, detail=f"{number} models", size=size)
        over = None if processes.running is None else processes.running.get(self.client)
        is_online = processes.clock.world.online(self.client, processes.clock.now)
        if over is None or over.callbacks is None or not is_online:
            self._request()
        else:
            over.callbacks.append(self._request)

    def _request(self, _: simpy.Event | None = None) -> None:
        processes, clock, number = self.processes, self.processes.clock, len(self.action.models)
        budgets = processes.clients.budgets
        # As with tasks, the server does not know which clients are offline. Nothing is sent to an offline client.
        is_online = clock.world.online(self.client, clock.now) and self.client not in processes.spent
        # Scores count for the budget from now on: they may be overheard.
        if not is_online or not (budgets is None or budgets.charge_scores(self.client, number)):
            clock.later(0.0, IMMEDIATE, self._answer, False)
            return
        self._turn = processes.requests[self.client]
        processes.requests[self.client] += 1
        self._phases = ScoringPhases(clock.world.scoring(self.client, self._turn), processes.load, number)
        self._next_phase()

    def _next_phase(self) -> None:
        phase = next(self._phases, None)
        if phase is None:
            self._answer(True)
            return
        self._phase, self.message = phase, phase.sending
        if phase.sending is None:
            self.processes.workers.wait(self.client, self.part, self._placed)
        else:
            self._start_phase()

    def _placed(self, place: Any) -> None:
        if place is None:
            self._no_answer_when_detected()
            return
        self.place = place
        self.processes.clients.scoring_begins(self.client)
        self._start_phase()

    def _start_phase(self) -> None:
        clock = self.processes.clock
        self._begin_phase(self._phase.duration_s, clock.world.presence.next_change(self.client, clock.now))

    def _logger(self, message: LinkMessage) -> Callable[[MessageEvent], None]:
        return partial(self._note, self._phase.name)

    def _ended(self, broken: Sent | None) -> None:
        if self.place is not None:
            self.processes.workers.leave(self.place)
            self.place = None
        if broken is not None:
            if self.message is not None:
                self.processes.traffic.count(broken[0], self.message.way)
            self._no_answer_when_detected()
            return
        if self.message is not None:
            self.processes.traffic.count(self.message.transfer.sent_bytes, self.message.way)
            if not self.message.transfer.delivered:
                self._answer(False)
                return
        self._next_phase()

    def _no_answer_when_detected(self) -> None:
        """Pass the lack of an answer to the server when that has learnt that the client has just gone offline."""
        clock, client = self.processes.clock, self.client
        detected_s, back_s = (
            clock.world.detected_s(client, clock.now),
            clock.world.presence.next_change(client, clock.now),
        )
        is_lease = clock.now < detected_s < back_s
        order = EventOrder(Priority.LEASE if is_lease else Priority.DETECTION, client, self.part)
        clock.at(Moment(detected_s, order), self._answer, False)

    def _answer(self, answers: bool) -> None:
        """Pass the answer, or the lack of one, to the server."""
        processes, clock, client, scores = self.processes, self.processes.clock, self.client, None
        if answers and client not in processes.spent:
            scores = processes.clients.score(self.action, self._turn)
        detail = f"{len(self.action.models)} models" if scores is not None else NO_ANSWER
        clock.record(Kind.SCORED, client=client, detail=detail)
        clock.tell(ScoresArrived(clock.now, self.action.request, scores))

    def _note(self, way: str, mark: MessageEvent) -> None:
        """Log an event of models to score, sent to the client, or of its scores sent back."""
        clock = self.processes.clock
        clock.record(mark.kind, self.client, way, mark.size, mark.attempt)
        if mark.kind in CAUGHT and way == SCORING_DOWN:
            # The models of a request reveal each update of the buffer.
            for task in clock.server.tasks.collected():
                if not task.overheard:
                    self.processes.note(task, way, mark)


class Driver(ActionExecutor):
    """Runs one seed on the virtual clock."""

    def __init__(
        self,
        server: Server,
        world: WorldState,
        recorder: Recorder,
        clients: SimulatedClients,
        *,
        watcher: Watcher | None = None,
        mixing_node: MixingNode | None = None,
    ) -> None:
        """`watcher`: None to observe nothing. `mixing_node`: node through which the updates of a buffer pass together
        to the server; None without one."""
        self.clock = clock = Clock(server, world, recorder, self.tell)
        super().__init__(server, clock, watcher=watcher)
        self.clients = clients
        self.mixing_node = mixing_node
        self.processors = Processors(clock, world.settings.processors)
        workers = Workers(clock, world.settings.workers, world.settings.turnaround_s, self.processors)
        self.processes = ClientProcesses(clock, clients, self.traffic, workers)
        self._evaluated: simpy.Event | None = None
        """End of the last evaluation beside the run."""

    def run(self) -> str:
        """Run to the end and return the reason for it. Raises any exception of a call of the clock."""
        thresholds = gc.get_threshold()
        # Tasks in flight are many objects that live long, in no cycles: the collector would look at each many times.
        gc.set_threshold(COLLECT_EVERY, *thresholds[1:])
        try:
            self.begin()
            while self.goes_on:
                self.clock.step()
            return self.end()
        finally:
            gc.set_threshold(*thresholds)

    def begin(self) -> None:
        """Publish version 0 and begin the first tasks."""
        for client in range(self.server.clients):
            # Its budget may be too small for any upload.
            self.processes.check_budget(client, 0)
        self._do(self.server.start(self.clock.now))

    @property
    def goes_on(self) -> bool:
        """Whether the clock has a further step. The driver can be pickled between two steps."""
        return self.stopped is None and self.clock.goes_on

    def end(self) -> str:
        """Stop the server, if nothing can happen any more, and return the reason for the end of the run."""
        if self.stopped is None:
            gone, clients = len(self.processes.spent), self.server.clients
            spent = f", {gone} of {clients} have spent their budget" if gone else ""
            self._do(self.server.stop(f"nothing can happen any more: no client can come{spent}"))
        return str(self.stopped)

    def tell(self, message: Input) -> None:
        """Pass a message to the server and execute the actions that follow."""
        self._do(self.server.handle(message))

    def _do(self, actions: Iterable[Action]) -> None:
        steps = self._carry_out(actions)
        work = next(steps, None)
        while work is not None:
            # Outside of the try: a component of the user's own may raise StopIteration too.
            answers = work()
            try:
                work = steps.send(answers)
            except StopIteration:
                return

    def _dispatch(self, action: Dispatch) -> ClientGone | None:
        return self.processes.dispatch(action)

    def _begun(self) -> None:
        self.clients.begun(self.clock.now, self.clock.world)

    def _forget(self, task: TaskRecord) -> None:
        self.clients.forget(task)

    def _request_scores(self, action: RequestScores) -> None:
        self.processes.score(action)

    def _held_back(self, action: Collect) -> bool:
        on_the_way_s = 0.0 if self.mixing_node is None else self.mixing_node.seconds
        aggregate_s = self.server.plan.seconds_alone(len(action.tasks))
        if not on_the_way_s and not aggregate_s:
            return False
        self.clock.soon(self._hold_back, action, on_the_way_s, aggregate_s)
        return True

    def _updates(self, action: Collect) -> Collected:
        if self.mixing_node is not None:
            detail = f"{len(action.tasks)} updates, {self.mixing_node.description}"
            self.clock.record(Kind.SHUFFLED, detail=detail)
        collected = self.clients.collect(self.clock.now, action)
        for task in self.clients.zeroed:
            self.clock.record_task(Kind.ZEROED, task, detail="not finite, sent as zero with the noise")
        return collected

    def _hold_back(self, action: Collect, on_the_way_s: float, aggregate_s: float) -> None:
        """Pass the updates to the server late: after the mixing node's delay of `on_the_way_s`, then after
        `aggregate_s` of the aggregation's work, during which the server does nothing else."""
        if on_the_way_s:
            self.clock.later(on_the_way_s, SERVER, self._aggregate_alone, action, aggregate_s)
        else:
            self._aggregate_alone(action, aggregate_s)

    def _aggregate_alone(self, action: Collect, aggregate_s: float) -> None:
        if aggregate_s and not self.clock.stopped:
            self._aggregation_begins()
            self.processors.work(aggregate_s, partial(self._pass_on, action))
        else:
            self._pass_on(action)

    def _pass_on(self, action: Collect, _: bool = True) -> None:
        if not self.clock.stopped:
            self.tell(self._updates(action))

    def _published(self, action: Publish) -> None:
        super()._published(action)
        seconds = self.clock.world.evaluate_beside_s
        if seconds and self.processors.are_shared and self.server.plan.is_evaluated(action.version):
            before, self._evaluated = self._evaluated, self.clock.env.event()
            self.clock.soon(self._evaluate, seconds, before, self._evaluated)

    def _evaluate(
        self, seconds: float, before: simpy.Event | None, evaluated: simpy.Event, _: simpy.Event | None = None
    ) -> None:
        """Occupy a processor for `seconds`, after the evaluation that ends with `before`. `evaluated` follows."""
        if before is not None and not before.triggered:
            before.callbacks.append(partial(self._evaluate, seconds, None, evaluated))
        else:
            self.processors.work(seconds, partial(self._evaluation_ended, evaluated))

    def _evaluation_ended(self, evaluated: simpy.Event, _: bool) -> None:
        evaluated.succeed()

    def _set_timer(self, action: SetTimer) -> None:
        self.clock.soon(self._start_timer, action)

    def _start_timer(self, action: SetTimer) -> None:
        if action.timer == AGGREGATION:
            self.processors.work(action.delay_s, partial(self._fire, action))
        else:
            self.clock.later(action.delay_s, EventOrder.of_timer(action.timer), self._fire, action)

    def _fire(self, action: SetTimer, _: bool = True) -> None:
        if not self.clock.stopped:
            self.clock.record(Kind.TIMER_FIRED, detail=action.timer)
            self.tell(TimerFired(self.clock.now, action.timer))
