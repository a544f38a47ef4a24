"""SimPy carries out what the server asks for and tells it what happened, until the run ends."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from typing import Protocol

import simpy

from asyncfl.federation.tasks import TasksInFlight
from asyncfl.federation.traffic import Traffic
from asyncfl.messages import (
    Action,
    Ban,
    ClientGone,
    CohortRepeated,
    Collect,
    Collected,
    Dispatch,
    Fate,
    Input,
    Judged,
    Publish,
    RequestScores,
    SetTimer,
    Settle,
    ShortBuffer,
    Stop,
    TimerFired,
)
from asyncfl.privacy import MixingNode
from asyncfl.server import Server
from asyncfl.server.machine import AGGREGATION
from asyncfl.simulation.budgets import SpentBudgets
from asyncfl.simulation.client_side import ClientSide
from asyncfl.simulation.clock import Clock, Steps
from asyncfl.simulation.scoring import ScoreRequests
from asyncfl.simulation.task_process import TaskProcess
from asyncfl.simulation.training import TrainingOnDemand
from asyncfl.simulation.transfers import Transfers
from asyncfl.trace import Kind, Recorder
from asyncfl.world import WorldState

JUDGED = {
    Fate.AGGREGATED: Kind.AGGREGATED,
    Fate.FLAGGED: Kind.FLAGGED,
    Fate.REJECTED: Kind.REJECTED,
}
"""Fates that have an event of their own; the server's other verdicts are `discarded` with the fate as detail."""


class Watcher(Protocol):
    """Looks at every verdict and every published model."""

    def judged(self, judged: Judged) -> None:
        """Take note of a detector's verdict."""
        ...

    def published(self, time_s: float, publish: Publish, traffic: Traffic) -> str | None:
        """Take note of a version; a text is the reason to stop the run."""
        ...


class Driver:
    """One seed of a run on the clock."""

    def __init__(
        self,
        server: Server,
        world: WorldState,
        recorder: Recorder,
        clients: ClientSide,
        *,
        watcher: Watcher | None = None,
        mixing_node: MixingNode | None = None,
    ) -> None:
        """`watcher` None: nobody looks at what is published.

        `mixing_node`: what the updates of a buffer pass together on their way to the server; None: nothing.
        """
        self.server = server
        self.watcher = watcher
        self.mixing_node = mixing_node
        self.clock = clock = Clock(server, world, recorder, self.tell)
        self.tasks = TasksInFlight()
        self.transfers = Transfers(clock, self.tasks)
        self.training = TrainingOnDemand(clients.work, server, self.tasks)
        self.budgets = SpentBudgets(clients.budgets, clock, self.tasks)
        # A request for scores waits for the client's task only where clients do one thing after another.
        running: dict[int, simpy.Process] | None = {} if clients.scoring == "serial" else None
        self.task_process = TaskProcess(
            clock, self.tasks, self.transfers, self.training, self.budgets, clients, running
        )
        self.requests = ScoreRequests(clock, self.transfers, self.training, self.budgets, clients.load, running)
        self._unreached: deque[ClientGone] = deque()
        self._stopping: str | None = None
        self._stopped: str | None = None

    def run(self) -> str:
        """Run to the end. Returns the reason why it ended. Raises what is raised on the way, on the last step too."""
        server, clock = self.server, self.clock
        self.budgets.begin(server.clients)
        self._carry_out(server.start(clock.now))
        while self._stopped is None and clock.env.peek() < math.inf:
            clock.step()
        if self._stopped is None:
            gone = len(self.budgets.spent)
            spent = f", {gone} of {server.clients} have spent their budget" if gone else ""
            self._carry_out(server.stop(f"nothing can happen any more: no client can come{spent}"))
        return str(self._stopped)

    def tell(self, message: Input) -> None:
        """Hand a message to the server and carry out its answer."""
        self._carry_out(self.server.handle(message))

    def _carry_out(self, actions: Iterable[Action]) -> None:
        record = self.clock.record
        waiting = deque(actions)
        while waiting or self._unreached or self._stopping is not None:
            if not waiting or isinstance(waiting[0], Collect):
                # What is collected may end tasks. Before, the server hears of those that never began.
                if self._unreached:
                    waiting.extend(self.server.handle(self._unreached.popleft()))
                    continue
                if self._stopping is not None:
                    # Its models are forgotten: a buffer that was to be collected is not.
                    if waiting:
                        waiting.popleft()
                    reason, self._stopping = self._stopping, None
                    waiting.extend(self.server.stop(reason))
                    continue
            action = waiting.popleft()
            match action:
                case Dispatch():
                    if (gone := self.task_process.dispatch(action)) is not None:
                        self._unreached.append(gone)
                case Settle():
                    self._settled(action)
                case Publish():
                    self._published(action)
                case Collect() if self.mixing_node is not None and self.mixing_node.seconds:
                    self.clock.start(self._pass_mixing_node(action, self.mixing_node.seconds))
                case Collect():
                    # Answered before anything else: at the same virtual time, whatever it costs here.
                    waiting.extendleft(reversed(self.server.handle(self._collect(action))))
                case SetTimer():
                    if action.timer == AGGREGATION:
                        record(Kind.AGGREGATION_STARTED)
                    self.clock.start(self._timer(action))
                case RequestScores():
                    self.clock.start(self.requests.carry_out(action))
                case Judged():
                    if self.watcher is not None:
                        self.watcher.judged(action)
                case Ban():
                    record(Kind.BANNED, client=action.client)
                case ShortBuffer():
                    record(Kind.SHORT_BUFFER, detail=f"{action.held} of {action.wanted} updates")
                case CohortRepeated():
                    record(Kind.COHORT_REPEATED, detail=f"nothing came of {action.size} tasks")
                case Stop():
                    record(Kind.STOPPED, detail=action.reason)
                    self._stopped = action.reason
        self.task_process.begun()

    def _settled(self, action: Settle) -> None:
        if action.fate is Fate.REJECTED and action.task not in self.tasks:
            # An update that nobody asked for: it is of no task, and counts as none.
            self.clock.record(JUDGED[action.fate], detail=action.detail)
            return
        task = self.tasks.settle(action)
        self.training.settled(task)
        if action.fate in (Fate.LOST_DOWN, Fate.LOST_UP, Fate.DROPPED_OUT, Fate.UNFINISHED):
            return
        kind = JUDGED.get(action.fate, Kind.DISCARDED)
        detail = action.fate.value if kind is Kind.DISCARDED else action.detail
        self.clock.note(kind, task, staleness=action.staleness, weight=action.weight, detail=detail)

    def _published(self, action: Publish) -> None:
        self.clock.version = action.version
        self.clock.record(Kind.PUBLISHED, detail="" if action.version else "initial model")
        if self.watcher is not None:
            # A run that is to stop does so when the tasks that begin with this version have begun, or could not.
            self._stopping = self.watcher.published(self.clock.now, action, self.transfers.traffic)

    def _collect(self, action: Collect) -> Collected:
        self.task_process.begun()
        if self.mixing_node is not None:
            detail = f"{len(action.tasks)} updates, {self.mixing_node.said}"
            self.clock.record(Kind.SHUFFLED, detail=detail)
        collected = self.training.collect(self.clock.now, action)
        for task in self.training.zeroed:
            self.clock.note(Kind.ZEROED, task, detail="not finite, sent as zero with the noise")
        return collected

    def _pass_mixing_node(self, action: Collect, seconds: float) -> Steps:
        yield self.clock.env.timeout(seconds)
        if not self.clock.stopped:
            self.tell(self._collect(action))

    def _timer(self, action: SetTimer) -> Steps:
        yield self.clock.env.timeout(action.delay_s)
        if not self.clock.stopped:
            self.clock.record(Kind.TIMER_FIRED, detail=action.timer)
            self.tell(TimerFired(self.clock.now, action.timer))
