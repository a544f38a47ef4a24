"""The path of a task: train, take statistics, clip, add noise.

Tasks are trained when the server collects them, all at once, each from the version it was sent. Every draw comes from
the stream of its (client, task), so neither the moment nor the order of training changes a result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from asyncfl.data import FederatedData
from asyncfl.learning import Job, Learner, Training
from asyncfl.messages import Vector
from asyncfl.privacy import PrivacyContext, Scheme
from asyncfl.privacy.noise import add_gaussian
from asyncfl.streams import Streams


@dataclass(frozen=True, slots=True)
class Ticket:
    """A task that is to be carried out now."""

    task: int
    client: int
    base: Vector
    """(n_parameters,) the model that the client was sent."""


@dataclass(frozen=True)
class Payloads:
    """What the clients of some tasks upload. Rows follow the tickets."""

    models: Vector
    """(n, n_parameters) float32 as uploaded; read-only, valid until the next tasks are carried out."""
    losses: NDArray[np.float64]
    """(n,) mean training loss of the last local epoch."""
    norms: NDArray[np.float64]
    """(n,) L2 norm before clipping of what the privacy scheme clips (model or update)."""
    clip_norm: float | None
    """Norm that they were clipped to; None where there was no clipping."""
    noise_std: NDArray[np.float64]
    """(n,) standard deviation of the noise on each parameter."""


class TaskPath:
    """Carries out the tasks of one run. The matrix of uploads is one buffer, used again each time."""

    def __init__(
        self,
        data: FederatedData,
        learner: Learner,
        training: Training,
        scheme: Scheme,
        context: PrivacyContext,
        streams: Streams,
    ) -> None:
        self.data = data
        self.learner = learner
        self.training = training
        self.scheme = scheme
        self.context = context
        self.streams = streams
        self._rows = np.empty((0, learner.n_parameters), dtype=np.float32)

    def carry_out(self, tickets: Sequence[Ticket]) -> Payloads:
        """What the clients of `tickets` upload."""
        rows = self._buffer(len(tickets))
        losses = self.learner.train(rows, [self._job(ticket) for ticket in tickets])
        norms, clip_norm = self._clip(rows, tickets)
        std = np.zeros(len(tickets))
        for row, ticket in enumerate(tickets):
            samples = self.data.samples(ticket.client)
            std[row] = self.scheme.upload_std(self.context, clip_norm, samples)
            add_gaussian(rows[row], std[row], self.streams, "client_noise", ticket.client, ticket.task)
        loan = rows.view()
        loan.flags.writeable = False
        return Payloads(loan, losses, norms, clip_norm, std)

    def _buffer(self, count: int) -> Vector:
        if len(self._rows) < count:
            self._rows = np.empty((count, self.learner.n_parameters), dtype=np.float32)
        return self._rows[:count]

    def _job(self, ticket: Ticket) -> Job:
        images, labels = self.data.client(ticket.client)
        random = self.streams.generator("batches", ticket.client, ticket.task)
        epochs = np.tile(np.arange(len(labels)), (self.training.epochs, 1))
        return Job(base=ticket.base, images=images, labels=labels, order=random.permuted(epochs, axis=1))

    def _clip(self, rows: Vector, tickets: Sequence[Ticket]) -> tuple[NDArray[np.float64], float | None]:
        """Scale down in place what is longer than the clipping norm; unclipped norms and that norm."""
        of_update = self.scheme.payload == "update"
        if of_update:
            for row, ticket in zip(rows, tickets, strict=True):
                row -= ticket.base
        norms = np.sqrt([float(np.dot(row, row)) for row in rows])
        finite = norms[np.isfinite(norms)]
        clip_norm = self.scheme.clip_norm_of(finite) if len(finite) else None
        if clip_norm is not None:
            for row in np.flatnonzero(norms > clip_norm):
                rows[row] *= np.float32(clip_norm / norms[row])
        if of_update:
            for row, ticket in zip(rows, tickets, strict=True):
                row += ticket.base
        return norms, clip_norm
