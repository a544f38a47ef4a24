"""The clients' work at the virtual time at which it is done: train, attack, score."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.messages import Collected, RequestScores, Vector
from asyncfl.client import Assignment, work_of
from asyncfl.federation.prepare import Federation
from asyncfl.federation.tasks_in_flight import TaskInFlight
from asyncfl.server import Server


class SimulatedClients:
    """The clients of one seed, which train, attack and score. Their uploads are recorded in `Federation.releases`."""

    def __init__(self, federation: Federation, server: Server) -> None:
        self.federation = federation
        self.server = server
        self.path = federation.path
        self.attackers = federation.attackers
        if self.attackers is not None:
            self.attackers.server = server.rehearse
        self._last: dict[int, tuple[int, int, int]] = {}
        """Client -> number, base version and turn of its last collected task."""
        self._scores_with: dict[int, Vector] = {}
        """Client -> personal layers with which it scores models."""
        self.seconds = 0.0
        """Wall-clock seconds spent on training and scoring so far."""
        self.zeroed: NDArray[np.bool_]
        """(n,) whether each update of the last buffer was not finite and was replaced by zero."""

    @property
    def every_task(self) -> bool:
        """Whether tasks are trained even if their update is never used, see `TaskPath.every_task`."""
        return self.path.every_task

    def train(self, task: TaskInFlight) -> None:
        """Train a task whose training has just ended on the clock."""
        if task.base is None:
            raise ValueError(f"the base model of task {task.number} was not kept")
        began = time.perf_counter()
        self.path.train(Assignment(task.number, task.client, task.base_version, task.base, task.turn, task.epochs))
        self.seconds += time.perf_counter() - began

    def drop(self, task: TaskInFlight) -> None:
        """Record the upload of a trained task that is not collected, and discard its update."""
        self.federation.releases.dropped(self.path.drop(task.number))

    def carry_out(self, time_s: float, tasks: Sequence[TaskInFlight]) -> Collected:
        """Train those of `tasks` that are not trained yet, each from the version its client was sent, and return their
        uploads as the server receives them."""
        began = time.perf_counter()
        book = self.server.tasks
        assignments = [
            Assignment(t.number, t.client, t.base_version, book.model(t.base_version), t.turn, t.epochs) for t in tasks
        ]
        payloads = self.path.carry_out(assignments, self.server.version, book.model(self.server.version))
        self.zeroed = payloads.zeroed
        self.federation.releases.collected(payloads.uploads)
        self._last.update((task.client, (task.number, task.base_version, task.turn)) for task in tasks)
        self.seconds += time.perf_counter() - began
        numbers = tuple(assignment.task for assignment in assignments)
        return Collected(
            time_s,
            numbers,
            payloads.models,
            payloads.losses if self.federation.resolved.scenario.reports_losses else None,
            sound=payloads.sound,
            clip_norm=payloads.clip_norm,
            upload_std=payloads.asked_std,
            work=work_of([task.epochs for task in tasks], self.path.training.epochs),
        )

    def scoring_begins(self, client: int) -> None:
        """Store the client's current personal layers for its scores, since it may train before its answer arrives."""
        if self.path.personal is not None:
            self._scores_with[client] = self.path.personal.of(client)

    def score(self, request: RequestScores, turn: int) -> NDArray[np.float64]:
        """Return the (n_models,) accuracies on the client's data, plus the scheme's score noise if any, or an
        attacker's false scores. `turn`: number of the client's requests before.

        The client answers as attacker or honest client according to its last collected update: a sleeping attacker lies
        about the buffers that it attacks.
        """
        began = time.perf_counter()
        own = self._scores_with.pop(request.client, None)
        scores = np.asarray(self.path.accuracies(request.client, request.models, own), dtype=np.float64)
        if self.path.scheme.scores is not None:
            random = self.federation.resolved.streams.generator("score_noise", request.client, turn)
            samples, personal = self.federation.data.samples(request.client), self.path.context.personal
            std = self.path.scheme.scores.std_of(len(scores), samples, personal)
            scores = scores + std * random.standard_normal(len(scores))
        number, base_version, turn = self._last.get(request.client, (-1, self.server.version, 0))
        if self.attackers is not None and self.attackers.attacks(number, request.client, base_version, turn):
            random = self.federation.resolved.streams.generator("lies", request.client, turn)
            scores = self.attackers.threats.lie(scores, random)
        self.seconds += time.perf_counter() - began
        return scores
