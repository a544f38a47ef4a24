"""What clients do when the clock says that they have done it: train, attack, score."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asyncfl.client import Attackers, Payloads, TaskPath, Ticket
from asyncfl.data import FederatedData
from asyncfl.learning import Learner
from asyncfl.messages import Collected, RequestScores
from asyncfl.server import Server
from asyncfl.simulation.driver import TaskInFlight
from asyncfl.streams import Streams


class Worker:
    """The clients of one run. Remembers what was released, for the ledger."""

    def __init__(
        self,
        path: TaskPath,
        server: Server,
        learner: Learner,
        data: FederatedData,
        streams: Streams,
        attackers: Attackers | None,
    ) -> None:
        self.path = path
        self.server = server
        self.learner = learner
        self.data = data
        self.streams = streams
        self.attackers = attackers
        self.uploads: list[dict[str, Any]] = []
        """One row per trained task: task, client, version (that it was collected for, -1 where it never was),
        arrived_s (NaN where it never did), noise_std, sensitivity, distribution, count, epsilon, delta (see
        `privacy.Release`), clip_norm, attacked."""
        self.last_std = 0.0
        self.seconds = 0.0

    def carry_out(self, time_s: float, tasks: Sequence[TaskInFlight]) -> Collected:
        """What the clients of `tasks` upload, each from the version it was sent."""
        began = time.perf_counter()
        book = self.server.tasks
        tickets = [Ticket(t.number, t.client, t.base_version, book.model(t.base_version), t.turn) for t in tasks]
        payloads = self.path.carry_out(tickets, self.server.version, book.model(self.server.version))
        self.last_std = float(payloads.noise_std.max(initial=0.0))
        self._remember(tasks, payloads, self.server.version + 1)
        self.seconds += time.perf_counter() - began
        numbers = tuple(ticket.task for ticket in tickets)
        return Collected(
            time_s, numbers, payloads.models, payloads.losses, sound=payloads.sound, clip_norm=payloads.clip_norm
        )

    def _remember(self, tasks: Sequence[TaskInFlight], payloads: Payloads, version: int) -> None:
        for row, (task, release) in enumerate(zip(tasks, payloads.releases, strict=True)):
            self.uploads.append(
                {
                    "task": task.number,
                    "client": task.client,
                    "version": version,
                    "arrived_s": task.arrived_s,
                    "noise_std": payloads.noise_std[row],
                    "sensitivity": release.sensitivity,
                    "distribution": release.distribution,
                    "count": release.count,
                    "epsilon": release.epsilon,
                    "delta": release.delta,
                    "clip_norm": payloads.clip_norm,
                    "attacked": bool(payloads.attacked[row]),
                }
            )

    def score(self, request: RequestScores) -> NDArray[np.float64]:
        """Accuracy of each model on the client's data, or what an attacker says of them."""
        began = time.perf_counter()
        images, labels = self.data.client(request.client)
        scores = np.asarray(self.learner.accuracies(request.models, images, labels), dtype=np.float64)
        version = self.server.version
        if self.attackers is not None and self.attackers.attacks(request.client, version, 0):
            random = self.streams.generator("attack", request.client, request.request)
            scores = self.attackers.threats.lie(scores, random)
        self.seconds += time.perf_counter() - began
        return scores
