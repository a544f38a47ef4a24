"""The uploads of twins, trained beside the recorded one, as two worlds an adversary must tell apart.

Noise that training draws (`DP-SGD`, or noise after each epoch) goes into what follows. There the adversary is granted,
as by the accountant, the model before each noised step: the distance is that of what the noise was added to, and an
upload is as many releases as it has epochs.

Layers that are a client's own go on in either world from what its earlier tasks made of them there. With DP-SGD they
are noised as all others are, and granted as they were: the accountant counts the tasks that they learned in.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.messages import Vector
from asyncfl.client import Assignment
from asyncfl.client.clip import norm_of
from asyncfl.client.path import TaskPath
from asyncfl.learning import Job, Learner
from asyncfl.learning.personal_layers import SharedPartLearner
from asyncfl.privacy import Contribution
from asyncfl.privacy.accounting.release_pairs import laplace_shift_counts
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
    """`laplace_shift_counts` of u - u'; None with Gaussian noise."""

    @property
    def distance(self) -> float:
        """The largest of the distances."""
        return max(self.distances)


@dataclass
class OwnLayers:
    """Layers that are a client's own, as they are before a task."""

    recorded: Vector
    """(n_personal,)"""
    twins: dict[int, Vector]
    """Number of the neighbour -> (n_personal,) what they are in its world."""

    def copy(self) -> OwnLayers:
        """What they are now, wherever they go on from there."""
        return OwnLayers(self.recorded, dict(self.twins))


class TwinTraining:
    """Trains twins of the tasks of one run."""

    def __init__(self, path: TaskPath) -> None:
        self.path = path

    def uploads(
        self,
        assignment: Assignment,
        contribution: Contribution,
        norms: NDArray[np.float64],
        row: int,
        twins: Sequence[tuple[Neighbour, float | None]],
        layers: OwnLayers | None = None,
    ) -> Iterator[TwinUpload]:
        """The upload of each twin in turn. `contribution`: of the recorded one; `norms`: (n,) of its collection before
        clipping, where it stands in `row`; `twins`: with the budget of the twin's upload, where it has one; `layers`:
        the client's own, where it has some; those of each twin go on with its upload."""
        path = self.path
        job = path.job(assignment)
        if path.training.example_noise:
            yield from self._by_steps(assignment, job, contribution, twins, layers)
            return
        recorded_layers = None if layers is None else [layers.recorded]
        bases = self._bases(assignment, job, contribution, recorded_layers)
        own, own_losses, _ = self._trained([job], bases, recorded_layers)
        recorded = [self._payload(models[0], assignment) for models in own]
        own_norm = norm_of(recorded[-1], path.scheme.clip_target.order)
        clip_norm = path.clip_norm(np.where(np.arange(len(norms)) == row, own_norm, norms))
        recorded = [_clipped(one, norm_of(one, path.scheme.clip_target.order), clip_norm) for one in recorded]
        at_once = max(1, CHUNK_BYTES // (4 * len(assignment.base)))
        for start in range(0, len(twins), at_once):
            some = twins[start : start + at_once]
            jobs = [self._twin(job, one, assignment.client) for one, _ in some]
            before = None if layers is None else [layers.twins[one.number] for one, _ in some]
            rows, losses, after = self._trained(jobs, bases, before)
            for place, (neighbour, epsilon) in enumerate(some):
                theirs = [self._payload(models[place], assignment) for models in rows]
                if neighbour.kind == "zeroed":
                    theirs = [self._nothing(assignment)] * len(theirs)
                elif layers is not None:
                    assert after is not None
                    layers.twins[neighbour.number] = after[place]
                norm = norm_of(theirs[-1], path.scheme.clip_target.order)
                clip = path.clip_norm(np.where(np.arange(len(norms)) == row, norm, norms))
                theirs = [_clipped(one, norm_of(one, path.scheme.clip_target.order), clip) for one in theirs]
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
                    laplace_shift_counts(differences[-1], noise.std / np.sqrt(2)) if laplace and noise.std else None,
                )

    def model(self, assignment: Assignment, layers: OwnLayers | None) -> tuple[Learner, Vector]:
        """What trains all layers, and the model (n_parameters,) of all of them that the recorded task came to."""
        learner, job = self._whole(self.path.job(assignment), layers)
        row = np.empty((1, learner.n_parameters), np.float32)
        learner.train(row, [job])
        return learner, row[0]

    def _whole(self, job: Job, layers: OwnLayers | None) -> tuple[Learner, Job]:
        learner = self.path.learner
        if layers is None:
            return learner, job
        assert isinstance(learner, SharedPartLearner)
        return learner.whole, replace(job, base=learner.parameter_split.join(job.base, layers.recorded))

    def _bases(
        self, assignment: Assignment, job: Job, contribution: Contribution, layers: Sequence[Vector] | None
    ) -> list[Vector]:
        """Models that the parts of the recorded training begin with: one, or one for each epoch."""
        path = self.path
        if not path.scheme.noise_each_epoch:
            return [assignment.base]
        stream = path.streams.generator("epoch_noise", assignment.client, assignment.turn)
        std = np.float32(path.scheme.upload_noise(path.context, None, contribution).std)
        bases = [assignment.base]
        for epoch in range(len(job.order) - 1):
            row = np.empty((1, len(assignment.base)), np.float32)
            part = replace(job, base=bases[-1], order=job.order[epoch : epoch + 1])
            _, layers = self._learn(row, [part], layers)
            row[0] += std * stream.standard_normal(row.shape[1], dtype=np.float32)
            bases.append(row[0])
        return bases

    def _trained(
        self, jobs: Sequence[Job], bases: Sequence[Vector], layers: Sequence[Vector] | None
    ) -> tuple[list[Vector], NDArray[np.float64], Sequence[Vector] | None]:
        """(n, n_parameters) models of the jobs at the end of each part, the losses of the last one, and what became of
        the clients' own `layers`."""
        made = []
        for epoch, base in enumerate(bases):
            rows = np.empty((len(jobs), len(base)), np.float32)
            orders = [job.order if len(bases) == 1 else job.order[epoch : epoch + 1] for job in jobs]
            parts = [replace(job, base=base, order=order) for job, order in zip(jobs, orders, strict=True)]
            losses, layers = self._learn(rows, parts, layers)
            made.append(rows)
        return made, losses, layers

    def _learn(
        self, rows: Vector, jobs: Sequence[Job], layers: Sequence[Vector] | None
    ) -> tuple[NDArray[np.float64], Sequence[Vector] | None]:
        """Losses of the jobs, whose models are written into `rows`, and the clients' own layers afterwards."""
        learner = self.path.learner
        if layers is None:
            return learner.train(rows, jobs), None
        assert isinstance(learner, SharedPartLearner)
        return learner.train_personal(rows, jobs, layers)

    def _twin(self, job: Job, neighbour: Neighbour, client: int) -> Job:
        images, labels = neighbour.data(self.path.data, client)
        return replace(job, images=images, labels=labels)

    def _payload(self, model: Vector, assignment: Assignment) -> Vector:
        """What the scheme clips of a model, as multiple of the update where it takes one."""
        scheme = self.path.scheme
        if scheme.clip_target.payload == "model":
            return model
        return (model - assignment.base) * np.float32(
            scheme.update_factor(self.path.context, self.path.data.samples(assignment.client), assignment.epochs)
        )

    def _nothing(self, assignment: Assignment) -> Vector:
        """The payload of an update that is zero."""
        return assignment.base if self.path.scheme.clip_target.payload == "model" else np.zeros_like(assignment.base)

    # --- DP-SGD ------------------------------------------------------------------------------------------------------

    def _by_steps(
        self,
        assignment: Assignment,
        job: Job,
        contribution: Contribution,
        twins: Sequence[tuple[Neighbour, float | None]],
        layers: OwnLayers | None,
    ) -> Iterator[TwinUpload]:
        from asyncfl.twins.private_steps import step_distances

        path = self.path
        std = path.scheme.upload_noise(path.context, None, contribution).std
        data = [self._twin(job, neighbour, assignment.client) for neighbour, _ in twins]
        empty = [neighbour.kind == "zeroed" for neighbour, _ in twins]
        learner, recorded = self._whole(path.job(assignment), layers)
        found, _ = step_distances(learner, recorded, data, empty)
        for (neighbour, epsilon), distances in zip(twins, found, strict=True):
            one = replace(contribution, epsilon=epsilon)
            yield TwinUpload(neighbour, np.nan, np.nan, None, tuple(distances), one, std)


def _clipped(payload: Vector, norm: float, clip_norm: float | None) -> Vector:
    if clip_norm is None or not norm > clip_norm:
        return payload
    return payload * np.float32(clip_norm / norm)
