"""The driver of a simulation: executes a server's actions on the virtual clock."""

from __future__ import annotations

import math
from collections.abc import Iterable

import simpy

from asyncfl.base.messages import (
    Action,
    ClientGone,
    Collect,
    Collected,
    Dispatch,
    Input,
    Publish,
    RequestScores,
    SetTimer,
    TimerFired,
)
from asyncfl.federation.action_executor import ActionExecutor, Watcher
from asyncfl.privacy import MixingNode
from asyncfl.server import Server
from asyncfl.server.machine import AGGREGATION
from asyncfl.server.tasks import TaskRecord
from asyncfl.simulation.capacity import Processors, Workers
from asyncfl.simulation.clients import SimulatedClients
from asyncfl.simulation.clock import Clock, Steps
from asyncfl.simulation.processes import ClientProcesses
from asyncfl.trace import Kind, Recorder
from asyncfl.world import WorldState


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
        self.clients.begun()

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
