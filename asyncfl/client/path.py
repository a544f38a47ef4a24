"""The path of a task: poison data, train, take statistics, clip, craft the attack, add noise.

Tasks are carried out when the server collects them, all at once, each from the version it was sent. Every draw comes
from the stream of its (client, task), so neither the moment nor the order of training changes a result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from asyncfl.client.attackers import Attackers
from asyncfl.data import FederatedData
from asyncfl.learning import Job, Learner, Training
from asyncfl.messages import Vector
from asyncfl.privacy import Contribution, PrivacyContext, Release, Scheme, State
from asyncfl.privacy.noise import add_noise
from asyncfl.streams import Streams


@dataclass(frozen=True, slots=True)
class Ticket:
    """A task that is to be carried out now."""

    task: int
    client: int
    base_version: int
    base: Vector
    """(n_parameters,) the model that the client was sent."""
    turn: int = 0
    """Tasks that the client was given before."""


@dataclass(frozen=True)
class Payloads:
    """What the clients of some tasks upload. Rows follow the tickets."""

    models: Vector
    """(n, n_parameters) float32 as uploaded; read-only, valid until the next tasks are carried out."""
    losses: NDArray[np.float64]
    """(n,) mean training loss of the last local epoch."""
    norms: NDArray[np.float64]
    """(n,) norm (the scheme's `clip_order`) before clipping of what the scheme clips (model or update)."""
    clip_norm: float | None
    """Norm that they were clipped to; None where there was no clipping."""
    noise_std: NDArray[np.float64]
    """(n,) standard deviation of the noise on each parameter."""
    contributions: tuple[Contribution, ...]
    """What the noise of each depended on."""
    releases: tuple[Release, ...]
    """What each upload is to an accountant."""
    attacked: NDArray[np.bool_]
    """(n,) whether the task was an attack."""
    sound: NDArray[np.bool_]
    """(n,) False where the upload has the wrong length; its row is then without meaning."""


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
        attackers: Attackers | None = None,
        state: State | None = None,
    ) -> None:
        """`state`: what the scheme remembers over the run (`Scheme.start`); the server's noise shares it."""
        self.data = data
        self.learner = learner
        self.training = training
        self.scheme = scheme
        self.context = context
        self.streams = streams
        self.attackers = attackers
        self.state = state
        self.contributions: dict[int, Contribution] = {}
        """Task -> what the noise of its upload depended on."""
        self._collections = 0
        self._rows = np.empty((0, learner.n_parameters), dtype=np.float32)

    def carry_out(self, tickets: Sequence[Ticket], version: int, current: Vector) -> Payloads:
        """What the clients of `tickets` upload, while `version` with the parameters `current` is the newest."""
        attacked = np.zeros(len(tickets), dtype=bool)
        if self.attackers is not None:
            attacked[:] = [self.attackers.attacks(t.client, t.base_version, t.turn) for t in tickets]
        rows = self._buffer(len(tickets))
        jobs = [self._job(ticket, bool(bad)) for ticket, bad in zip(tickets, attacked, strict=True)]
        losses = self.learner.train(rows, jobs)
        self._subtract_bases(rows, tickets)
        norms = self._norms(rows)
        contributions = self._contributions(tickets, losses, norms)
        clip_norm = self._clip(rows, norms)
        self._add_bases(rows, tickets)

        releases = tuple(self.scheme.upload_release(self.context, clip_norm, one) for one in contributions)
        std = np.array([release.std for release in releases])
        sound = np.ones(len(tickets), dtype=bool)
        self._add_noise(rows, tickets, std, np.flatnonzero(~attacked))
        if self.attackers is not None and attacked.any():
            self.attackers.craft(rows, [ticket.base for ticket in tickets], attacked, version, current)
            if self.attackers.threats.attackers_add_noise:
                self._add_noise(rows, tickets, std, np.flatnonzero(attacked))
            else:
                std[attacked] = 0.0
                releases = tuple(replace(one, std=float(own)) for one, own in zip(releases, std, strict=True))
            sound[attacked] = self.attackers.threats.attack.length_error == 0
        if self.state is not None:
            random = self.streams.generator("clip_quantile", task=self._collections)
            self.state.collected(contributions, norms, random)
        self._collections += 1
        loan = rows.view()
        loan.flags.writeable = False
        return Payloads(loan, losses, norms, clip_norm, std, contributions, releases, attacked, sound)

    def _buffer(self, count: int) -> Vector:
        if len(self._rows) < count:
            self._rows = np.empty((count, self.learner.n_parameters), dtype=np.float32)
        return self._rows[:count]

    def _job(self, ticket: Ticket, attacked: bool) -> Job:
        images, labels = self.data.client(ticket.client)
        if attacked and self.attackers is not None:
            images, labels = self.attackers.poisoned(ticket.client, images, labels)
        random = self.streams.generator("batches", ticket.client, ticket.task)
        epochs = np.tile(np.arange(len(labels)), (self.training.epochs, 1))
        return Job(base=ticket.base, images=images, labels=labels, order=random.permuted(epochs, axis=1))

    def _contributions(
        self, tickets: Sequence[Ticket], losses: NDArray[np.float64], norms: NDArray[np.float64]
    ) -> tuple[Contribution, ...]:
        """What each upload's noise depends on. The state hears of each task after it was asked about it."""
        made = []
        for row, ticket in enumerate(tickets):
            epsilon = self.scheme.upload_epsilon(self.context, self.state, ticket.client, ticket.turn)
            one = Contribution(ticket.client, self.data.samples(ticket.client), ticket.turn, epsilon)
            if self.state is not None:
                self.state.trained(one, float(losses[row]), float(norms[row]))
            made.append(one)
            self.contributions[ticket.task] = one
        return tuple(made)

    def _subtract_bases(self, rows: Vector, tickets: Sequence[Ticket]) -> None:
        if self.scheme.payload == "update":
            for row, ticket in zip(rows, tickets, strict=True):
                row -= ticket.base

    def _add_bases(self, rows: Vector, tickets: Sequence[Ticket]) -> None:
        if self.scheme.payload == "update":
            for row, ticket in zip(rows, tickets, strict=True):
                row += ticket.base

    def _norms(self, rows: Vector) -> NDArray[np.float64]:
        if self.scheme.clip_order == 1:
            return np.array([float(np.abs(row).sum(dtype=np.float64)) for row in rows])
        norms: NDArray[np.float64] = np.sqrt([float(np.dot(row, row)) for row in rows])
        return norms

    def _clip(self, rows: Vector, norms: NDArray[np.float64]) -> float | None:
        """Scale down in place what is longer than the clipping norm; that norm."""
        finite = norms[np.isfinite(norms)]
        clip_norm = self.scheme.clip_norm_of(finite, self.state) if len(finite) else None
        if clip_norm is not None:
            for row in np.flatnonzero(norms > clip_norm):
                rows[row] *= np.float32(clip_norm / norms[row])
        return clip_norm

    def _add_noise(
        self, rows: Vector, tickets: Sequence[Ticket], std: NDArray[np.float64], which: NDArray[np.int64]
    ) -> None:
        for row in which:
            ticket = tickets[row]
            stream = (self.streams, "client_noise", ticket.client, ticket.task)
            add_noise(self.scheme.distribution, rows[row], float(std[row]), *stream)
