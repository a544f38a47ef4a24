"""The driver of a simulation: executes a server's actions on the virtual clock.

A task of a client, from its dispatch until the server learns of its end, is one process, and so is a request for
scores. Both send messages over the links, which an eavesdropper may overhear.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Generator, Iterable
from functools import partial
from typing import TypeAlias

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
from asyncfl.federation.phases import LinkMessage, MessageEvent, scoring_phases, task_phases
from asyncfl.privacy import MixingNode
from asyncfl.server import Server
from asyncfl.server.machine import AGGREGATION
from asyncfl.server.tasks import TaskRecord
from asyncfl.simulation.capacity import Processors, ServerLink, Workers
from asyncfl.simulation.clients import SimulatedClients
from asyncfl.simulation.clock import Clock, Steps, Waiting
from asyncfl.trace import Kind, Recorder
from asyncfl.trace.events import CAUGHT, SCORING_DOWN
from asyncfl.trace.scoring_requests import NO_ANSWER
from asyncfl.world import WorldState

NOTHING_SENT = (-1, -1)
"""Bytes and transmissions of a phase without a message."""
Note: TypeAlias = Callable[[MessageEvent], None]
"""Function that logs an event of a message in transmission."""


class ClientProcesses:
    """The processes of the clients of one seed."""

    def __init__(self, clock: Clock, clients: SimulatedClients, traffic: Traffic, workers: Workers) -> None:
        self.clock = clock
        self.clients = clients
        self.load = clients.load
        self.traffic = traffic
        self.workers = workers
        self.spent: dict[int, float] = {}
        """Client -> time at which its budget was spent, when its last upload began."""
        links = {"down": clock.world.downlink.link, "up": clock.world.uplink.link}
        self._shared = {
            way: ServerLink(clock, link.server_bandwidth_bps) for way, link in links.items() if link.is_shared
        }
        # A request for scores waits for the client's task only if clients score and train one after the other.
        self._running: dict[int, simpy.Process] | None = {} if clients.scoring == "serial" else None
        """Client -> its latest task; None if requests do not wait."""
        self._requests = Counter[int]()

    # --- budgets ---------------------------------------------------------------------------------------------------

    def check_budget(self, client: int, turn: int) -> None:
        """Report to the server a client for which one more upload, that of its task number `turn`, would exceed its
        budget."""
        budgets = self.clients.budgets
        if budgets is not None and not budgets.affords(client, turn):
            self.spent[client] = self.clock.env.now
            self.clock.record(Kind.BUDGET_SPENT, client=client, detail=budgets.describe_spending(client))
            self.clock.tell(ClientRetired(self.clock.env.now, client))

    # --- tasks -----------------------------------------------------------------------------------------------------

    def dispatch(self, action: Dispatch) -> ClientGone | None:
        """Begin a task. Returns a message to the server if the client cannot be reached."""
        clock = self.clock
        if not clock.world.online(action.client, clock.env.now):
            # The server drew a client that it believed idle, but that is offline.
            clock.record(Kind.WENT_OFFLINE, client=action.client)
            clock.start(self._return(action.client))
            return ClientGone(clock.env.now, action.client, action.task, None)
        task = clock.server.tasks.open[action.task]
        self.clients.begin(task)
        clock.record_task(Kind.DISPATCHED, task)
        process = clock.start(self._task(task))
        if self._running is not None:
            self._running[task.client] = process
        return None

    def _task(self, task: TaskRecord) -> Steps:
        clock, client, processors = self.clock, task.client, self.workers.processors
        began_s = clock.env.now
        is_shared = bool(self._shared) or processors.are_shared
        passed_s = (lambda: clock.env.now - began_s) if is_shared else None
        for phase in task_phases(clock.world.task(client, task.turn), self.load, self.clients.speed(task), passed_s):
            sending, place, note = phase.sending, None, None
            computes = phase.begins is Kind.TRAINING_STARTED
            # A phase may last longer than its duration.
            is_slowed = processors.are_shared if computes else sending is not None and sending.way in self._shared
            if phase.patience_s < phase.duration_s and not is_slowed:
                phase = phase.given_up(phase.patience_s)
                sending = phase.sending
            if computes:
                asked_s = clock.env.now
                if (place := (yield from self.workers.wait(client))) is None:
                    self._went_offline(task)
                    return
                # Waiting for a place to compute does not count as time at the task.
                began_s += clock.env.now - asked_s
            clock.record_task(phase.begins, task, size=-1 if sending is None else sending.transfer.payload_bytes)
            if phase.begins is Kind.UPLOAD_STARTED and self.clients.budgets is not None:
                # An upload counts as it begins, whether or not it arrives: it may be overheard.
                self.clients.budgets.charge_upload(client, task.epochs)
                self.check_budget(client, task.turn + 1)
            if sending is not None:
                note = partial(self._note, task, sending.way)
            phase_began_s, offline_s = clock.env.now, clock.world.presence.next_change(client, clock.env.now)
            gives_up_s = clock.env.now + phase.patience_s if is_slowed else math.inf
            broken = yield from self._passes(client, phase.duration_s, sending, note, min(offline_s, gives_up_s))
            goes_offline = broken is not None and gives_up_s > offline_s
            if broken is not None and goes_offline:
                self._went_offline(task, sending, broken)
            elif broken is not None:
                phase = phase.given_up(clock.env.now - phase_began_s, None if sending is None else broken)
            if place is not None:
                self.workers.leave(place)
            if goes_offline:
                return
            if phase.sending is not None:
                transfer, way = phase.sending.transfer, phase.sending.way
                self.traffic.count(transfer.sent_bytes, way)
                clock.record_task(phase.ends, task, size=transfer.sent_bytes, attempt=transfer.attempts, detail=way)
            else:
                clock.record_task(phase.ends, task, detail=phase.detail)
            if phase.ends is Kind.TRAINED:
                task.epochs = phase.epochs
                self.clients.training_ended(task)
            if phase.fails is not None:
                self._ended(task, phase.fails)
                clock.tell(ClientIdle(clock.env.now, client))
                return
            if phase.ends is Kind.UPLOADED:
                break
        clock.tell(UpdateArrived(clock.env.now, task.number))

    def _passes(
        self, client: int, duration_s: float, sending: LinkMessage | None, note: Note | None, until_s: float
    ) -> Generator[simpy.Event, None, tuple[int, int] | None]:
        """Wait for a message, or for the computation of a phase without one. Returns None; if it would have ended after
        `until_s`, the bytes sent and transmissions begun by then. `note`: logs the events of the message."""
        clock, processors, began_s = self.clock, self.workers.processors, self.clock.env.now
        if sending is None or note is None:
            if not processors.are_shared:
                return None if (yield from clock.stays(client, duration_s)) else NOTHING_SENT
            return None if (yield from processors.work(duration_s, until_s)) else NOTHING_SENT
        if (link := self._shared.get(sending.way)) is not None:
            return (yield from link.carry(sending, until_s, note))
        if sending.transfer.resent_at_s or sending.transfer.caught_s < math.inf:
            online_until_s = clock.world.presence.next_change(client, began_s)
            for mark in sending.events():
                if began_s + mark.at_s <= online_until_s:
                    clock.later(mark.at_s, partial(note, mark))
        return None if (yield from clock.stays(client, duration_s)) else sending.broken_off(clock.env.now - began_s)

    def _note(self, task: TaskRecord, way: str, mark: MessageEvent) -> None:
        """Log an event of a task's message. `way`: `down`, `up`, or the name of the message in the trace."""
        if mark.kind is Kind.OVERHEARD:
            task.overheard |= way != "down"
            self.traffic.overhear("down" if way == "down" else "up", task.client, task.base_version)
        self.clock.record_task(mark.kind, task, size=mark.size, attempt=mark.attempt, detail=way)

    def _went_offline(
        self, task: TaskRecord, sending: LinkMessage | None = None, broken: tuple[int, int] = NOTHING_SENT
    ) -> None:
        """Inform the server that the client has just gone offline: now, when the lease ends, or when the client
        returns. `broken`: bytes sent, and transmissions begun, of the message `sending` in transmission: they count as
        sent."""
        clock, client = self.clock, task.client
        sent_bytes, attempts = broken
        if sending is not None:
            self.traffic.count(sent_bytes, sending.way)
        clock.record_task(Kind.WENT_OFFLINE, task, size=sent_bytes, attempt=attempts)
        detected_s, back_s = (
            clock.world.detected_s(client, clock.env.now),
            clock.world.presence.next_change(client, clock.env.now),
        )
        clock.start(self._return(client, task if detected_s == back_s else None))
        if detected_s == clock.env.now:
            self._dropped_out(task)
        elif detected_s < back_s:
            clock.later(detected_s - clock.env.now, partial(self._lease_ended, task))

    def _lease_ended(self, task: TaskRecord) -> None:
        if not self.clock.stopped:
            self._ended(task, Fate.TIMED_OUT)

    def _dropped_out(self, task: TaskRecord) -> None:
        """Report to the server that the client was offline and its task is lost."""
        if task.number in self.clock.server.tasks:
            self.clock.record_task(Kind.DROPPED_OUT, task, detail="offline")
        self._ended(task, Fate.DROPPED_OUT)

    def _ended(self, task: TaskRecord, fate: Fate) -> None:
        self.clock.tell(ClientGone(self.clock.env.now, task.client, task.number, fate))

    def _return(self, client: int, task: TaskRecord | None = None) -> Steps:
        """Wait until an offline client is back, and report that it is idle. `task`: its task that is lost, if the
        server learns of that only now."""
        clock = self.clock
        back_s = clock.world.presence.next_change(client, clock.env.now)
        if back_s == math.inf:
            return
        yield clock.until(back_s)
        if not clock.stopped:
            clock.record(Kind.CAME_ONLINE, client=client)
            if task is not None:
                self._dropped_out(task)
            clock.tell(ClientIdle(clock.env.now, client))

    # --- requests for scores ---------------------------------------------------------------------------------------

    def score(self, action: RequestScores) -> Steps:
        """Send a request to a client, which downloads models, evaluates each on its data and uploads the scores. Pass
        its answer, or the lack of one, to the server."""
        clock, client, number, budgets = self.clock, action.client, len(action.models), self.clients.budgets
        size = number * self.load.payload_bytes
        clock.record(Kind.SCORES_REQUESTED, client=client, detail=f"{number} models", size=size)
        if self._running is not None and client in self._running:
            yield self._running[client]
        scores = None
        # As with tasks, the server does not know which clients are offline. Nothing is sent to an offline client.
        is_online = clock.world.online(client, clock.env.now) and client not in self.spent
        # Scores count for the budget from now on: they may be overheard.
        if is_online and (budgets is None or budgets.charge_scores(client, number)):
            turn = self._requests[client]
            self._requests[client] += 1
            answers = yield from self._answers(action, turn)
            if answers and client not in self.spent:
                scores = self.clients.score(action, turn)
        detail = f"{number} models" if scores is not None else NO_ANSWER
        clock.record(Kind.SCORED, client=client, detail=detail)
        clock.tell(ScoresArrived(clock.env.now, action.request, scores))

    def _answers(self, action: RequestScores, turn: int) -> Waiting:
        """Simulate download, evaluation and upload of a request for scores."""
        clock, client = self.clock, action.client
        for phase in scoring_phases(clock.world.scoring(client, turn), self.load, len(action.models)):
            sending, place, note = phase.sending, None, None
            if sending is not None:
                note = partial(self._note_scoring, client, phase.name)
            else:
                if (place := (yield from self.workers.wait(client))) is None:
                    yield self._learnt(client)
                    return False
                self.clients.scoring_begins(client)
            until_s = clock.world.presence.next_change(client, clock.env.now)
            broken = yield from self._passes(client, phase.duration_s, sending, note, until_s)
            if place is not None:
                self.workers.leave(place)
            if broken is not None:
                yield self._learnt(client)
            if sending is not None:
                # If a message breaks off, count the bytes that had left.
                sent_bytes = sending.transfer.sent_bytes if broken is None else broken[0]
                self.traffic.count(sent_bytes, sending.way)
            if broken is not None or not (sending is None or sending.transfer.delivered):
                return False
        return True

    def _learnt(self, client: int) -> simpy.Event:
        """Return the event that the server has learnt that the client, which has just gone offline, is gone."""
        clock = self.clock
        return clock.env.timeout(clock.world.detected_s(client, clock.env.now) - clock.env.now)

    def _note_scoring(self, client: int, way: str, mark: MessageEvent) -> None:
        """Log an event of models to score, sent to `client`, or of its scores sent back."""
        self.clock.record(mark.kind, client, way, mark.size, mark.attempt)
        if mark.kind in CAUGHT and way == SCORING_DOWN:
            # The models of a request reveal each update of the buffer.
            for task in self.clock.server.tasks.collected():
                if not task.overheard:
                    self._note(task, way, mark)


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
        self._evaluating: simpy.Process | None = None

    def run(self) -> str:
        """Run to the end and return the reason for it. Raises any exception of a process, also of the last step."""
        server, clock = self.server, self.clock
        for client in range(server.clients):
            # Its budget may be too small for any upload.
            self.processes.check_budget(client, 0)
        self._do(server.start(clock.now))
        while self.stopped is None and clock.env.peek() < math.inf:
            clock.step()
        if self.stopped is None:
            gone = len(self.processes.spent)
            spent = f", {gone} of {server.clients} have spent their budget" if gone else ""
            self._do(server.stop(f"nothing can happen any more: no client can come{spent}"))
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
        if self.clients.attackers is not None:
            self.clients.attackers.draw()

    def _forget(self, task: TaskRecord) -> None:
        if task.trained:
            self.clients.drop(task)

    def _request_scores(self, action: RequestScores) -> None:
        self.clock.start(self.processes.score(action))

    def _held_back(self, action: Collect) -> bool:
        on_the_way_s = 0.0 if self.mixing_node is None else self.mixing_node.seconds
        aggregate_s = self.server.plan.seconds_alone(len(action.tasks))
        if not on_the_way_s and not aggregate_s:
            return False
        self.clock.start(self._hold_back(action, on_the_way_s, aggregate_s))
        return True

    def _updates(self, action: Collect) -> Collected:
        if self.mixing_node is not None:
            detail = f"{len(action.tasks)} updates, {self.mixing_node.description}"
            self.clock.record(Kind.SHUFFLED, detail=detail)
        collected = self.clients.collect(self.clock.now, action)
        for task in self.clients.zeroed:
            self.clock.record_task(Kind.ZEROED, task, detail="not finite, sent as zero with the noise")
        return collected

    def _hold_back(self, action: Collect, on_the_way_s: float, aggregate_s: float) -> Steps:
        """Pass the updates to the server late: after the mixing node's delay of `on_the_way_s`, then after
        `aggregate_s` of the aggregation's work, during which the server does nothing else."""
        if on_the_way_s:
            yield self.clock.env.timeout(on_the_way_s)
        if aggregate_s and not self.clock.stopped:
            self._aggregation_begins()
            yield from self.processors.work(aggregate_s)
        if not self.clock.stopped:
            self.tell(self._updates(action))

    def _published(self, action: Publish) -> None:
        super()._published(action)
        seconds = self.clock.world.evaluate_beside_s
        if seconds and self.processors.are_shared and self.server.plan.is_evaluated(action.version):
            self._evaluating = self.clock.start(self._evaluate(seconds, self._evaluating))

    def _evaluate(self, seconds: float, before: simpy.Process | None) -> Steps:
        """Occupy a processor for `seconds`, after the evaluation `before` has ended."""
        if before is not None and before.is_alive:
            yield before
        yield from self.processors.work(seconds)

    def _set_timer(self, action: SetTimer) -> None:
        self.clock.start(self._timer(action))

    def _timer(self, action: SetTimer) -> Steps:
        if action.timer == AGGREGATION:
            yield from self.processors.work(action.delay_s)
        else:
            yield self.clock.env.timeout(action.delay_s)
        if not self.clock.stopped:
            self.clock.record(Kind.TIMER_FIRED, detail=action.timer)
            self.tell(TimerFired(self.clock.now, action.timer))
