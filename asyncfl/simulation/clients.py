"""The clients of one seed on the clock: they train, attack and score at the virtual time at which that is done.

A task is trained when its update is collected, and not before it is known to be needed. If something is learnt from
every task (`TaskPath.every_task`), each is trained instead when its training ends on the clock, even if its update is
never used.
"""

from __future__ import annotations

import math
import time

import numpy as np

from asyncfl.base.arrays import Floats
from asyncfl.base.client_state import ClientState
from asyncfl.client import Assignment, Attackers, work_of
from asyncfl.client.norm_bound import too_long
from asyncfl.privacy.ledger.budgets import BudgetTracker
from asyncfl.protocol import Scoring, Server
from asyncfl.protocol.events import Kind
from asyncfl.protocol.messages import Collect, Collected, CollectedSum, Download, ScoreRequest
from asyncfl.protocol.task_record import TaskRecord
from asyncfl.secure_aggregation import MaskedSum
from asyncfl.simulation.phases import TaskPhases, Workload
from asyncfl.simulation.pool import TrainingOrder, TrainingPool
from asyncfl.simulation.prepare import Federation
from asyncfl.world import WorldState


class SimulatedClients:
    """The clients of a timeline: they take time and may attack, but train and score nothing."""

    every_task = False
    """Whether each task is trained when its training ends on the clock."""
    pool: TrainingPool | None = None
    """Trains tasks ahead, elsewhere; None to train here when it is needed."""

    def __init__(
        self,
        server: Server,
        load: Workload,
        *,
        attackers: Attackers | None = None,
        budgets: BudgetTracker | None = None,
        scoring: Scoring = "parallel",
    ) -> None:
        """`load`: costs of a task; `budgets`: budgets at which clients stop, None for none; `scoring`: whether a client
        scores models during a task (`parallel`) or after it (`serial`)."""
        self.server = server
        self.load = load
        self.attackers = attackers
        self.budgets = budgets
        self.scoring = scoring
        self.trained = 0
        """Number of tasks trained so far."""
        self.zeroed: list[TaskRecord] = []
        """Tasks of the last buffer whose update was not finite and was replaced by zero before the noise."""
        self.out_of_range = 0
        """Numbers of the last buffer that were clipped to the range of secure aggregation."""
        self.wrapped = 0
        """Numbers of the last sum that were too large for the field of secure aggregation."""

    def begin(self, task: TaskRecord) -> None:
        """Register a task that begins."""
        if self.attackers is not None:
            self.attackers.begin(task.number, task.client, task.turn)
        if self.every_task:
            task.base = self.server.tasks.download(task.base_version)

    def begun(self, now_s: float, world: WorldState) -> None:
        """Decide which of the tasks that began together attack."""
        if self.attackers is not None:
            self.attackers.draw()

    def forget(self, task: TaskRecord) -> None:
        """Discard a task whose fate is settled."""
        if task.trained:
            self.drop(task)

    def speed(self, task: TaskRecord) -> float:
        """Return the factor by which the client is faster than usual (flooding)."""
        return 1.0 if self.attackers is None else self.attackers.speed(task.number, task.client)

    def training_ended(self, task: TaskRecord) -> None:
        """Train a task whose training has just ended on the clock, if each task must be trained."""
        if not self.every_task:
            return
        self.trained += 1
        self.train(task)
        task.trained, task.base = True, None
        if task.number not in self.server.tasks:
            # The server gave the task up, or banned its client, during the training.
            self.drop(task)

    def collect(self, time_s: float, action: Collect, masked: MaskedSum | None = None) -> Collected:
        """Return the updates of a buffer, models of length 0 without training; with `masked` their sum in place of
        them."""
        tasks = self.server.tasks.collect(action.tasks)
        work = work_of([task.epochs for task in tasks], self.load.epochs)
        return Collected(
            action.tasks, np.empty((len(tasks), 0), dtype=np.float32), np.zeros(len(tasks)), work=work, time_s=time_s
        )

    def scoring_begins(self, client: int) -> None:
        """Called when the client begins to evaluate models."""

    def score(self, request: ScoreRequest, turn: int) -> Floats | None:
        """Return the client's (n_models,) scores; None without training. `turn`: number of its requests before."""
        return None

    def train(self, task: TaskRecord) -> None:
        """Train a task ahead of its collection."""
        raise NotImplementedError

    def drop(self, task: TaskRecord) -> None:
        """Discard a task that was trained but not collected."""
        raise NotImplementedError


class TrainingClients(SimulatedClients):
    """Clients that train, attack and score. Their uploads are recorded in `Federation.releases`."""

    def __init__(self, federation: Federation, server: Server) -> None:
        scenario, path = federation.resolved.scenario, federation.path
        self.path = path
        super().__init__(
            server,
            Workload.of(scenario, federation.data.sizes),
            attackers=federation.attackers,
            budgets=scenario.budget_tracker(path.context, federation.data.sizes, path.state, path.states),
            scoring=scenario.protocol.scoring,
        )
        self.every_task = self.path.every_task
        if self.attackers is not None:
            self.attackers.server = server.rehearse
        self._fresh: list[TaskRecord] = []
        """Tasks that have just begun."""
        self._releases, self._streams = federation.releases, federation.resolved.streams
        self._reports_losses = scenario.reports_losses
        self._checks_norms = scenario.protocol.check_norms
        self._last: dict[int, tuple[int, int, int]] = {}
        """Client -> number, base version and turn of its last collected task."""
        self._scores_with: dict[int, ClientState] = {}
        """Client -> its state when it began to score models."""
        self.seconds = 0.0
        """Wall-clock seconds spent on training and scoring so far."""

    def begin(self, task: TaskRecord) -> None:
        super().begin(task)
        if self.pool is not None:
            self._fresh.append(task)

    def train_elsewhere(self, pool: TrainingPool | None, now_s: float, world: WorldState) -> None:
        """Have tasks trained by a pool from now on, those in flight too; None: here, when it is needed."""
        self.pool = pool
        self.path.train_elsewhere(pool)
        for task in list(self.server.tasks.open.values()) if pool is not None else ():
            if not task.trained:
                self._foresee(task, now_s, world)

    def begun(self, now_s: float, world: WorldState) -> None:
        super().begun(now_s, world)
        for task in self._fresh:
            self._foresee(task, now_s, world)
        self._fresh.clear()
        if self.pool is not None:
            self.pool.feed()

    def _foresee(self, task: TaskRecord, now_s: float, world: WorldState) -> None:
        """Have a task trained ahead if its own draws say that its update will be needed."""
        epochs, arrives_s = arrival(world, task, self.load, self.speed(task), now_s)
        if self.pool is None or epochs == 0 or (arrives_s == math.inf and not self.every_task):
            return
        attacked = self.attackers is not None and self.attackers.attacks(
            task.number, task.client, task.base_version, task.turn
        )
        base = self.server.tasks.download(task.base_version)
        vectors = ClientState(base.payloads)
        carried = self.path.carried(task.client)
        order = TrainingOrder(task.client, task.turn, epochs, attacked, carried, vectors, task.base_version)
        self.pool.foresee(task.number, order, base.model, arrives_s)

    def forget(self, task: TaskRecord) -> None:
        super().forget(task)
        if self.pool is not None:
            self.pool.forget(task.number)

    def train(self, task: TaskRecord) -> None:
        began = time.perf_counter()
        if task.base is None:
            raise ValueError(f"the base model of task {task.number} was not kept")
        self.path.train(_assignment(task, task.base))
        self.seconds += time.perf_counter() - began

    def drop(self, task: TaskRecord) -> None:
        self._releases.dropped(self.path.drop(task.number))

    def collect(self, time_s: float, action: Collect, masked: MaskedSum | None = None) -> Collected:
        began = time.perf_counter()
        table, version = self.server.tasks, self.server.version
        tasks = table.collect(action.tasks)
        if not self.every_task:
            self.trained += len(tasks)
        bases = {one: table.download(one) for one in {version, *(task.base_version for task in tasks)}}
        made = self.path.carry_out(
            [_assignment(task, bases[task.base_version]) for task in tasks], version, bases[version].model, masked
        )
        self._releases.collected(made.uploads)
        sound = made.sound
        if self._checks_norms:
            long = too_long(
                self.path,
                *(made.models, [bases[task.base_version].model for task in tasks], made.clip_norm, made.contributions),
            )
            sound = sound & ~long
        self.zeroed = [tasks[row] for row in np.flatnonzero(made.zeroed).tolist()]
        for task in tasks:
            task.trained = False
            self._last[task.client] = task.number, task.base_version, task.turn
        self.seconds += time.perf_counter() - began
        self.out_of_range, self.wrapped = made.out_of_range, made.wrapped
        work = work_of([task.epochs for task in tasks], self.load.epochs)
        if masked is not None:
            # The server gets no single model, and no loss.
            return CollectedSum(
                action.tasks,
                made.models[:, :0],
                sound=sound,
                clip_norm=made.clip_norm,
                upload_std=made.asked_std,
                work=work,
                total=made.total,
                time_s=time_s,
            )
        return Collected(
            action.tasks,
            made.models,
            made.losses if self._reports_losses else None,
            sound=sound,
            clip_norm=made.clip_norm,
            upload_std=made.asked_std,
            work=work,
            payloads=made.payloads,
            time_s=time_s,
        )

    def scoring_begins(self, client: int) -> None:
        self._scores_with[client] = self.path.states.of(client)

    def score(self, request: ScoreRequest, turn: int) -> Floats:
        began, client = time.perf_counter(), request.client
        scores = self.path.scores(client, turn, request.models, self._scores_with.pop(client, None))
        number, base_version, turn = self._last.get(client, (-1, self.server.version, 0))
        if self.attackers is not None and self.attackers.attacks(number, client, base_version, turn):
            scores = self.attackers.threats.lie(scores, self._streams.generator("lies", client, turn))
        self.seconds += time.perf_counter() - began
        return scores


def arrival(
    world: WorldState, task: TaskRecord, load: Workload, speed: float, now_s: float
) -> tuple[int | None, float]:
    """Return the epochs that the client will do (None for all), and when its update will arrive, as far as its own
    draws tell: clients that share a link or processors take longer. 0 epochs if it does not train, inf if nothing
    arrives."""
    epochs: int | None = 0
    for phase in TaskPhases(world.task(task.client, task.turn), load, speed):
        now_s += phase.duration_s
        if phase.fails is not None or world.presence.next_change(task.client, now_s - phase.duration_s) <= now_s:
            return epochs, math.inf
        if phase.ends is Kind.TRAINED:
            epochs = phase.epochs
    return epochs, now_s


def _assignment(task: TaskRecord, base: Download) -> Assignment:
    return Assignment(
        task.number, task.client, task.base_version, base.model, task.turn, task.epochs, download=base.payloads
    )
