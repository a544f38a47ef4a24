"""Training on demand: a task is trained when its update is collected, and not before it is known to be needed.

A scheme that learns from every task changes that: then each is trained as soon as its training ends on the clock,
whatever becomes of its update.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from asyncfl.client import work_of
from asyncfl.federation.tasks_in_flight import TaskInFlight, TasksInFlight
from asyncfl.messages import Collect, Collected, RequestScores
from asyncfl.server import Server


class ClientWork(Protocol):
    """Carries out tasks when they are collected, or each as soon as its training ends on the clock."""

    @property
    def every_task(self) -> bool:
        """Whether each task must be trained, whatever becomes of its update."""
        ...

    def train(self, task: TaskInFlight) -> None:
        """Train a task whose training has just ended on the clock. Asked for only with `every_task`."""
        ...

    def drop(self, task: TaskInFlight) -> None:
        """A task that `train` was asked for will not be collected."""
        ...

    def carry_out(self, time_s: float, tasks: Sequence[TaskInFlight]) -> Collected:
        """What the clients of `tasks` upload."""
        ...

    @property
    def zeroed(self) -> NDArray[np.bool_]:
        """(n,) which updates of the tasks that were carried out last were not finite and became zero."""
        ...

    def scoring_begins(self, client: int) -> None:
        """The client begins to score models: with the layers of its own that it has now."""
        ...

    def score(self, request: RequestScores, turn: int) -> NDArray[np.float64]:
        """(n_models,) what the client answers that was asked to score models, as often as `turn` before."""
        ...


class TrainingOnDemand:
    """Has the tasks of one seed trained that must be."""

    def __init__(self, work: ClientWork | None, server: Server, tasks: TasksInFlight, epochs: int) -> None:
        """`work` None: the clock runs alone, without training. `epochs`: of a whole task."""
        self.epochs = epochs
        self.work = work
        self.server = server
        self.tasks = tasks
        self.trained = 0
        """Tasks that were trained so far."""
        self.zeroed: list[TaskInFlight] = []
        """Tasks of the last buffer whose update was not finite and became zero before the noise."""

    def dispatched(self, task: TaskInFlight) -> None:
        """Keep the model that a task begins with, where it will be trained in any case."""
        if self.work is not None and self.work.every_task:
            task.base = self.server.tasks.model(task.base_version)

    def ended(self, task: TaskInFlight) -> None:
        """The training of a task has ended on the clock: carry it out, where that does not wait for its collection."""
        if self.work is None or not self.work.every_task:
            return
        self.trained += 1
        self.work.train(task)
        task.trained, task.base = True, None
        if task.number not in self.tasks:
            # Given up, or its client banned, while it was trained.
            self.work.drop(task)

    def settled(self, task: TaskInFlight) -> None:
        """Forget what a task has learned that nobody collects."""
        if self.work is not None and task.trained:
            self.work.drop(task)

    def collect(self, time_s: float, action: Collect) -> Collected:
        """The updates of a buffer; those of an empty model where nothing is trained."""
        tasks = self.tasks.collect(action.tasks)
        if self.work is None:
            nothing = np.empty((len(tasks), 0), dtype=np.float32)
            work = work_of([task.epochs for task in tasks], self.epochs)
            return Collected(time_s, action.tasks, nothing, np.zeros(len(tasks)), work=work)
        if not self.work.every_task:
            self.trained += len(tasks)
        collected = self.work.carry_out(time_s, tasks)
        self.zeroed = [tasks[row] for row in np.flatnonzero(self.work.zeroed).tolist()]
        for task in tasks:
            task.trained = False
        return collected

    def scoring_begins(self, client: int) -> None:
        """A client begins to score models: with the layers of its own that it has now."""
        if self.work is not None:
            self.work.scoring_begins(client)

    def score(self, request: RequestScores, turn: int) -> NDArray[np.float64] | None:
        """(n_models,) what a client says of the models; None where nothing is trained. `turn`: its requests before."""
        return None if self.work is None else self.work.score(request, turn)
