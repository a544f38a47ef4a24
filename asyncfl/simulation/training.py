"""Training on demand: a task is trained when its update is collected, and not before it is known to be needed.

If the privacy scheme learns from every task, each task is trained instead when its training ends on the clock, even if
its update is never used.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.messages import Collect, Collected, RequestScores
from asyncfl.client import work_of
from asyncfl.federation.tasks_in_flight import TaskInFlight, TasksInFlight
from asyncfl.server import Server


class ClientWork(Protocol):
    """Carries out tasks when they are collected, or each when its training ends on the clock."""

    @property
    def every_task(self) -> bool:
        """Whether each task must be trained, even if its update is never used."""
        ...

    def train(self, task: TaskInFlight) -> None:
        """Train a task whose training has just ended on the clock. Called only with `every_task`."""
        ...

    def drop(self, task: TaskInFlight) -> None:
        """Discard a task that was trained and will not be collected."""
        ...

    def carry_out(self, time_s: float, tasks: Sequence[TaskInFlight]) -> Collected:
        """Train those of `tasks` that are not trained yet, and return their uploads as the server receives them."""
        ...

    @property
    def zeroed(self) -> NDArray[np.bool_]:
        """(n,) whether each update of the last collection was not finite and was replaced by zero."""
        ...

    def scoring_begins(self, client: int) -> None:
        """Store the client's current personal layers for its scores."""
        ...

    def score(self, request: RequestScores, turn: int) -> NDArray[np.float64]:
        """Return the client's (n_models,) scores. `turn`: number of its requests before."""
        ...


class TrainingOnDemand:
    """Decides when the tasks of one seed are trained."""

    def __init__(self, work: ClientWork | None, server: Server, tasks: TasksInFlight, epochs: int) -> None:
        """`work`: None to simulate the clock without training. `epochs`: number in a whole task."""
        self.epochs = epochs
        self.work = work
        self.server = server
        self.tasks = tasks
        self.trained = 0
        """Number of tasks trained so far."""
        self.zeroed: list[TaskInFlight] = []
        """Tasks of the last buffer whose update was not finite and was replaced by zero before the noise."""

    def dispatched(self, task: TaskInFlight) -> None:
        """Keep the model that a task begins with, if the task will be trained in any case."""
        if self.work is not None and self.work.every_task:
            task.base = self.server.tasks.model(task.base_version)

    def ended(self, task: TaskInFlight) -> None:
        """Train a task whose training has just ended on the clock, if each task must be trained; otherwise do
        nothing."""
        if self.work is None or not self.work.every_task:
            return
        self.trained += 1
        self.work.train(task)
        task.trained, task.base = True, None
        if task.number not in self.tasks:
            # The server gave the task up, or banned its client, during the training.
            self.work.drop(task)

    def settled(self, task: TaskInFlight) -> None:
        """Discard the result of a task that was trained but not collected."""
        if self.work is not None and task.trained:
            self.work.drop(task)

    def collect(self, time_s: float, action: Collect) -> Collected:
        """Train the tasks of a buffer that are not trained yet and return their updates; models of length 0 without
        training."""
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
        """Store the client's current personal layers for its scores."""
        if self.work is not None:
            self.work.scoring_begins(client)

    def score(self, request: RequestScores, turn: int) -> NDArray[np.float64] | None:
        """Return the client's (n_models,) scores; None without training. `turn`: number of its requests before."""
        return None if self.work is None else self.work.score(request, turn)
