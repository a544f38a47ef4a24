"""The uploads of twins, trained beside the recorded one, as two worlds an adversary must tell apart.

Noise that training draws (`DP-SGD`, or noise after each epoch) goes into what follows. There the adversary is granted,
as by the accountant, the model before each noised step: the distance is that of what the noise was added to, and an
upload is as many releases as it has epochs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from asyncfl.client import Ticket
from asyncfl.client.path import TaskPath, norm_of
from asyncfl.learning import Job
from asyncfl.messages import Vector
from asyncfl.privacy import Contribution
from asyncfl.privacy.accounting.two_worlds import laplace_classes
from asyncfl.twins.neighbours import Neighbour

CHUNK_BYTES = 2**26
"""Memory for models of twins that are trained together."""


@dataclass(frozen=True)
class TwinUpload:
    """What a twin would have made of a task."""

    neighbour: Neighbour
    loss: float
    """Mean training loss of the last local epoch; NaN where none was found."""
    norm: float
    """Of its payload before clipping."""
    clip_norm: float | None
    """That it is clipped to; None: it is not."""
    distances: tuple[float, ...]
    """|u - u'| of what noise is added to, L2 (laplace: L1); several where an upload stands for several releases."""
    contribution: Contribution
    """With the twin's own budget, where budgets follow the losses."""
    std: float
    """Standard deviation of the noise on the twin's upload."""
    shifts: NDArray[np.int64] | None = None
    """`laplace_classes` of u - u'; None with Gaussian noise."""

    @property
    def distance(self) -> float:
        """The largest of the distances."""
        return max(self.distances)


class TwinTraining:
    """Trains twins of the tasks of one run."""

    def __init__(self, path: TaskPath) -> None:
        self.path = path

    def uploads(
        self,
        ticket: Ticket,
        contribution: Contribution,
        norms: NDArray[np.float64],
        row: int,
        twins: Sequence[tuple[Neighbour, float | None]],
    ) -> Iterator[TwinUpload]:
        """The upload of each twin in turn. `contribution`: of the recorded one; `norms`: (n,) of its collection before
        clipping, where it stands in `row`; `twins`: with the budget of the twin's upload, where it has one."""
        path = self.path
        job = path.job(ticket)
        if path.training.example_noise:
            yield from self._by_steps(ticket, job, contribution, twins)
            return
        bases = self._bases(ticket, job, contribution)
        own, own_losses = self._trained([job], bases)
        recorded = [self._payload(models[0], ticket) for models in own]
        own_norm = norm_of(recorded[-1], path.scheme.clipped.order)
        clip_norm = path.clip_norm(np.where(np.arange(len(norms)) == row, own_norm, norms))
        recorded = [_clipped(one, norm_of(one, path.scheme.clipped.order), clip_norm) for one in recorded]
        at_once = max(1, CHUNK_BYTES // (4 * len(ticket.base)))
        for start in range(0, len(twins), at_once):
            some = twins[start : start + at_once]
            jobs = [self._twin(job, one, ticket.client) for one, _ in some]
            rows, losses = self._trained(jobs, bases)
            for place, (neighbour, epsilon) in enumerate(some):
                theirs = [self._payload(models[place], ticket) for models in rows]
                if neighbour.kind == "zeroed":
                    theirs = [self._nothing(ticket)] * len(theirs)
                norm = norm_of(theirs[-1], path.scheme.clipped.order)
                clip = path.clip_norm(np.where(np.arange(len(norms)) == row, norm, norms))
                theirs = [_clipped(one, norm_of(one, path.scheme.clipped.order), clip) for one in theirs]
                one = replace(contribution, epsilon=epsilon)
                noise = path.scheme.upload_noise(path.context, clip, one)
                differences = [a.astype(np.float64) - b for a, b in zip(recorded, theirs, strict=True)]
                laplace = noise.distribution == "laplace"
                yield TwinUpload(
                    neighbour,
                    float(own_losses[0] if neighbour.kind == "zeroed" else losses[place]),
                    norm,
                    clip,
                    tuple(norm_of(difference, 1 if laplace else 2) for difference in differences),
                    one,
                    noise.std,
                    laplace_classes(differences[-1], noise.std / np.sqrt(2)) if laplace and noise.std else None,
                )

    def _bases(self, ticket: Ticket, job: Job, contribution: Contribution) -> list[Vector]:
        """Models that the parts of the recorded training begin with: one, or one for each epoch."""
        path = self.path
        if not path.scheme.noise_each_epoch:
            return [ticket.base]
        stream = path.streams.generator("epoch_noise", ticket.client, ticket.turn)
        std = np.float32(path.scheme.upload_noise(path.context, None, contribution).std)
        bases = [ticket.base]
        for epoch in range(len(job.order) - 1):
            row = np.empty((1, len(ticket.base)), np.float32)
            path.learner.train(row, [replace(job, base=bases[-1], order=job.order[epoch : epoch + 1])])
            row[0] += std * stream.standard_normal(row.shape[1], dtype=np.float32)
            bases.append(row[0])
        return bases

    def _trained(self, jobs: Sequence[Job], bases: Sequence[Vector]) -> tuple[list[Vector], NDArray[np.float64]]:
        """(n, n_parameters) models of the jobs at the end of each part, and the losses of the last one."""
        made = []
        for epoch, base in enumerate(bases):
            rows = np.empty((len(jobs), len(base)), np.float32)
            orders = [job.order if len(bases) == 1 else job.order[epoch : epoch + 1] for job in jobs]
            parts = [replace(job, base=base, order=order) for job, order in zip(jobs, orders, strict=True)]
            losses = self.path.learner.train(rows, parts)
            made.append(rows)
        return made, losses

    def _twin(self, job: Job, neighbour: Neighbour, client: int) -> Job:
        images, labels = neighbour.data(self.path.data, client)
        return replace(job, images=images, labels=labels)

    def _payload(self, model: Vector, ticket: Ticket) -> Vector:
        """What the scheme clips of a model, as multiple of the update where it takes one."""
        scheme = self.path.scheme
        if scheme.clipped.payload == "model":
            return model
        return (model - ticket.base) * np.float32(
            scheme.update_factor(self.path.context, self.path.data.samples(ticket.client), ticket.epochs)
        )

    def _nothing(self, ticket: Ticket) -> Vector:
        """The payload of an update that is zero."""
        return ticket.base if self.path.scheme.clipped.payload == "model" else np.zeros_like(ticket.base)

    # --- DP-SGD ------------------------------------------------------------------------------------------------------

    def _by_steps(
        self,
        ticket: Ticket,
        job: Job,
        contribution: Contribution,
        twins: Sequence[tuple[Neighbour, float | None]],
    ) -> Iterator[TwinUpload]:
        from asyncfl.twins.private_steps import step_distances

        path = self.path
        std = path.scheme.upload_noise(path.context, None, contribution).std
        data = [self._twin(job, neighbour, ticket.client) for neighbour, _ in twins]
        empty = [neighbour.kind == "zeroed" for neighbour, _ in twins]
        found, _ = step_distances(path.learner, path.job(ticket), data, empty)
        for (neighbour, epsilon), distances in zip(twins, found, strict=True):
            one = replace(contribution, epsilon=epsilon)
            yield TwinUpload(neighbour, np.nan, np.nan, None, tuple(distances), one, std)


def _clipped(payload: Vector, norm: float, clip_norm: float | None) -> Vector:
    if clip_norm is None or not norm > clip_norm:
        return payload
    return payload * np.float32(clip_norm / norm)
