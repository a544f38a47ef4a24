"""The driver of a simulation: executes a server's actions on the virtual clock.

Tasks of clients and requests for scores are processes (`client_processes`), and so is work of the server.
"""

from __future__ import annotations

import gc
from collections.abc import Generator, Iterable, Sequence
from typing import Any

import numpy as np
import simpy

from asyncfl.base.instrument import Instrument
from asyncfl.privacy import MixingNode
from asyncfl.protocol import Server
from asyncfl.protocol.events import Kind
from asyncfl.protocol.machine import AGGREGATION
from asyncfl.protocol.messages import (
    Action,
    ClientGone,
    Collect,
    Collected,
    CollectedSum,
    CollectSum,
    Dispatch,
    Input,
    Publish,
    ScoreRequest,
    SetTimer,
    TimerFired,
)
from asyncfl.protocol.task_record import TaskRecord
from asyncfl.simulation.action_executor import ActionExecutor
from asyncfl.simulation.capacity import Processors, Work, Workers
from asyncfl.simulation.client_processes import ClientProcesses
from asyncfl.simulation.clients import SimulatedClients
from asyncfl.simulation.clock import Clock, Moment, ResumableProcess
from asyncfl.simulation.event_order import SERVER, EventOrder
from asyncfl.simulation.secure_rounds import SecureRounds
from asyncfl.simulation.timeline_recorder import TimelineRecorder
from asyncfl.world import WorldState

COLLECT_EVERY = 50_000
"""New objects after which Python looks for cycles among them."""


class AggregationProcess(ResumableProcess):
    """Work of the server at an aggregation, and evaluation of its result, of which the server is told by a timer."""

    def __init__(self, driver: Driver, action: SetTimer, clients_s: float) -> None:
        """`clients_s`: those of its seconds for which clients evaluate, on processors that all share; 0: none does."""
        self._driver, self._action, self._clients_s = driver, action, clients_s
        self._work: Work | None = None
        """The work of the server; None before its begin."""
        self._evaluating = 0
        """Clients that evaluate."""

    def run(self) -> Generator[simpy.Event, Any, None]:
        driver, clock = self._driver, self._driver.clock
        self._work = self._work or driver.processors.begin(self._action.delay_s - self._clients_s)
        yield from self._work.run()
        if self._clients_s and not clock.stopped:
            self._evaluating = int(clock.world.all_online(clock.now).sum())
        for _ in range(self._evaluating):
            clock.begin(ClientEvaluation(driver, self._clients_s, self))
        if not self._evaluating:
            driver.fire(self._action)

    def evaluated(self) -> None:
        """Count a client that has evaluated the version; after the last, inform the server."""
        self._evaluating -= 1
        if not self._evaluating:
            self._driver.fire(self._action)


class ClientEvaluation(ResumableProcess):
    """Evaluation of a version by one client."""

    def __init__(self, driver: Driver, seconds: float, of: AggregationProcess) -> None:
        """`of`: the aggregation that waits for this evaluation."""
        self._driver, self._seconds, self._of = driver, seconds, of
        self._work: Work | None = None
        """The work; None before its begin."""

    def run(self) -> Generator[simpy.Event, Any, None]:
        self._work = self._work or self._driver.processors.begin(self._seconds)
        yield from self._work.run()
        self._of.evaluated()


class Collection(ResumableProcess):
    """The updates of a buffer on their way to the server: through the mixing node or until their sum is unmasked, and
    then through an aggregation during which the server does nothing else."""

    def __init__(self, driver: Driver, action: Collect, mixed: Moment | None, aggregate_s: float) -> None:
        """`mixed`: when the mixing node has sent them, or their sum is unmasked; None without either. `aggregate_s`:
        work of the aggregation, seconds."""
        self._driver, self._action, self._mixed, self._aggregate_s = driver, action, mixed, aggregate_s
        self._work: Work | None = None
        """Work of the aggregation; None before its begin."""

    def run(self) -> Generator[simpy.Event, Any, None]:
        driver = self._driver
        if self._mixed is not None:
            yield driver.clock.env.timeout_at(self._mixed)
            self._mixed = None
        if self._aggregate_s and not driver.clock.stopped:
            self._work = self._work or driver.begin_aggregation(self._aggregate_s)
            yield from self._work.run()
        driver.pass_on(self._action)


class EvaluationProcess(ResumableProcess):
    """Evaluation of a version on a processor beside the run, after that of the version before."""

    def __init__(self, driver: Driver, seconds: float, before: EvaluationProcess | None) -> None:
        self._driver, self._seconds, self._before = driver, seconds, before
        self._work: Work | None = None
        """The work; None before its begin."""

    def run(self) -> Generator[simpy.Event, Any, None]:
        processes = self._driver.clock.processes
        if self._before is not None and self._before in processes:
            yield processes[self._before]
        self._before = None
        self._work = self._work or self._driver.processors.begin(self._seconds)
        yield from self._work.run()


class Driver(ActionExecutor):
    """Runs one seed on the virtual clock."""

    def __init__(
        self,
        server: Server,
        world: WorldState,
        recorder: TimelineRecorder,
        clients: SimulatedClients,
        *,
        instruments: Sequence[Instrument] = (),
        mixing_node: MixingNode | None = None,
    ) -> None:
        """`instruments`: as in `ActionExecutor`. `mixing_node`: node through which the updates of a buffer pass
        together to the server; None without one."""
        self.clock = clock = Clock(server, world, recorder, self.tell)
        super().__init__(server, clock, instruments=instruments)
        self.clients = clients
        self.mixing_node = mixing_node
        self.processors = Processors(clock, world.settings.processors)
        workers = Workers(clock, world.settings.workers, world.settings.turnaround_s, self.processors)
        self.processes = ClientProcesses(clock, clients, self.traffic, workers)
        self.secure: SecureRounds | None = None
        """Messages of secure aggregation; None without it."""
        if (secure := server.protocol.secure_aggregation) is not None:
            self.secure = SecureRounds(self.processes, secure, server.protocol, clients.load.n_parameters)
        self._evaluation: EvaluationProcess | None = None
        """The last evaluation beside the run."""

    def run(self) -> str:
        """Run to the end and return the reason for it. Raises any exception of a call of the clock."""
        thresholds = gc.get_threshold()
        # Tasks in flight are many objects that live long, in no cycles: the collector would look at each many times.
        gc.set_threshold(COLLECT_EVERY, *thresholds[1:])
        try:
            self.begin()
            step, queue = self.clock.step, self.clock.env.queue
            while self.stopped is None and queue:  # `goes_on`
                step()
            return self.end()
        finally:
            gc.set_threshold(*thresholds)

    def begin(self) -> None:
        """Publish version 0 and begin the first tasks."""
        for client in range(self.server.clients) if self.clients.budgets is not None else ():
            # Its budget may be too small for any upload.
            self.processes.check_budget(client, 0)
        self._do(self.server.start(self.clock.now))
        self.clock.settle()

    @property
    def goes_on(self) -> bool:
        """Whether the clock has a further step. The driver can be pickled between two steps."""
        return self.stopped is None and self.clock.goes_on

    def end(self) -> str:
        """Stop the server, if nothing can happen any more, and return the reason for the end of the run."""
        if self.stopped is None:
            gone, clients = len(self.processes.spent), self.server.clients
            spent = f", {gone} of {clients} have spent their budget" if gone else ""
            rests = f", {self.server.resting} wait for later versions" if self.server.resting else ""
            self._do(self.server.stop(f"nothing can happen any more: no client can come{spent}{rests}"))
        self.processes.count_traffic()
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
                work = None
        self.processes.begin_first()

    def _dispatch(self, action: Dispatch) -> ClientGone | None:
        return self.processes.dispatch(action, self.secure)

    def _begun(self) -> None:
        if self.secure is not None:
            self.secure.set_up()
        self.clients.begun(self.clock.now, self.clock.world)

    def _forget(self, task: TaskRecord) -> None:
        self.clients.forget(task)

    def _request_scores(self, action: ScoreRequest) -> None:
        self.processes.score(action)

    def _held_back(self, action: Collect) -> bool:
        mixed = None
        if self.mixing_node is not None and self.mixing_node.seconds:
            mixed = Moment(self.clock.now + self.mixing_node.seconds, SERVER)
        if self.secure is not None and isinstance(action, CollectSum):
            unmasked_s = self.secure.unmask(action)
            mixed = Moment(unmasked_s, SERVER) if unmasked_s > self.clock.now else None
        aggregate_s = self.server.plan.seconds_alone(len(action.tasks))
        if mixed is None and not aggregate_s:
            return False
        self.clock.begin(Collection(self, action, mixed, aggregate_s))
        return True

    def _updates(self, action: Collect) -> Collected:
        if self.mixing_node is not None:
            detail = f"{len(action.tasks)} updates, {self.mixing_node.description}"
            self.clock.record(Kind.SHUFFLED, detail=detail)
        if self.secure is not None and isinstance(action, CollectSum):
            collected = self._sum(self.secure, action)
        else:
            collected = self.clients.collect(self.clock.now, action)
        for task in self.clients.zeroed:
            self.clock.record_task(Kind.ZEROED, task, detail="not finite, sent as zero with the noise")
        return collected

    def _sum(self, secure: SecureRounds, action: CollectSum) -> Collected:
        """Return the sum of a buffer, whose unmasking is over."""
        masked = secure.masked_sum(action)
        if masked is None:
            self.clients.zeroed = []
            empty = np.empty((len(action.tasks), 0), dtype=np.float32)
            return CollectedSum(action.tasks, empty, unmasked=False, time_s=self.clock.now)
        collected = self.clients.collect(self.clock.now, action, masked)
        secure.record_sum(masked, self.clients.out_of_range, self.clients.wrapped)
        return collected

    def begin_aggregation(self, aggregate_s: float) -> Work:
        """Begin an aggregation that takes `aggregate_s` on a processor of its own."""
        self._aggregation_begins()
        return self.processors.begin(aggregate_s)

    def pass_on(self, action: Collect) -> None:
        """Pass the updates of a buffer to the server."""
        if not self.clock.stopped:
            self.tell(self._updates(action))

    def _published(self, action: Publish) -> None:
        self.processes.count_traffic()
        super()._published(action)
        seconds = self.clock.world.evaluate_beside_s
        if seconds and self.processors.are_shared and self.server.plan.is_evaluated(action.version):
            self._evaluation = EvaluationProcess(self, seconds, self._evaluation)
            self.clock.begin(self._evaluation)

    def _set_timer(self, action: SetTimer) -> None:
        if action.timer == AGGREGATION:
            plan = self.server.plan
            # On processors of their own all take as long as one, which is in the delay.
            is_theirs = self.clock.world.settings.evaluate_at == "clients" and self.processors.are_shared
            clients_s = plan.evaluate_s if is_theirs and plan.is_evaluated(self.server.version + 1) else 0.0
            self.clock.begin(AggregationProcess(self, action, clients_s))
        else:
            self.clock.later(action.delay_s, EventOrder.of_timer(action.timer), self.fire, action)

    def fire(self, action: SetTimer) -> None:
        """Inform the server that a timer has run out."""
        if not self.clock.stopped:
            self.clock.record(Kind.TIMER_FIRED, detail=action.timer)
            self.tell(TimerFired(action.timer, time_s=self.clock.now))

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Begin the processes of a driver that was pickled, each where it was."""
        self.__dict__.update(state)
        if self.stopped is None:
            self.processes.workers.resume()
            self.clock.resume()
