"""Releases of a client that an adversary holds, in two worlds: its uploads, or the models that they entered."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from asyncfl.audit.neighbours.data import Neighbour
from asyncfl.audit.neighbours.observer import AuditedClient, AuditedTask
from asyncfl.audit.neighbours.training import TwinUpload
from asyncfl.client import TaskPath
from asyncfl.federation.adversaries import AdversaryHoldings
from asyncfl.privacy.accounting.gaussian import exact_epsilon
from asyncfl.privacy.accounting.release_pairs import BINS, GaussianPairs, ReleasePairs
from asyncfl.privacy.ledger.releases import model_releases
from asyncfl.privacy.release import ModelRelease

Floats = NDArray[np.float64]
GaussianRow = tuple[float, float, float, float]
"""Numbers released, squared distance, standard deviation of the noise here and in the twin's world."""


@dataclass(frozen=True)
class TwinRelease:
    """One release that an adversary holds, in both worlds."""

    time_s: float
    task: int
    """Task of the upload; -1: it is a model."""
    neighbour: Neighbour
    distance: float
    sensitivity: float
    std: float
    twin_std: float
    gaussians: tuple[GaussianRow, ...]
    """Rows of `GaussianPairs`; empty with Laplace noise."""
    shifts: NDArray[np.int64] | None
    """`laplace_shift_counts`; None with Gaussian noise."""
    pure: float
    """Epsilon at delta = 0."""


def upload_releases(
    path: TaskPath, audited: AuditedClient, neighbour: Neighbour, held: AdversaryHoldings
) -> Iterator[TwinRelease]:
    """Yield the client's uploads that an adversary holds, in the order in which it got them, beside those of a twin."""
    d = path.learner.n_parameters
    for time_s, number in sorted((held.uploads[task], task) for task in audited.tasks if task in held.uploads):
        task = audited.tasks[number]
        if (twin := task.twins.get(neighbour.number)) is None:
            continue
        release = task.release
        if release.distribution == "laplace":
            scale = release.std / math.sqrt(2)
            pure = math.fsum(twin.distances) / scale if scale else math.inf if twin.distance else 0.0
            rows: tuple[GaussianRow, ...] = ()
            if twin.shifts is None and twin.distance:
                rows = ((d, twin.distance**2, 0.0, 0.0),)
        else:
            others = (other for other in task.others.get(neighbour.number, ()))
            seen = [other for other in others if held.uploads.get(other.task, math.inf) <= time_s]
            rows = tuple((d, distance**2, release.std, twin.std) for distance in twin.distances)
            rows += tuple((d, other.distance**2, other.std, other.twin_std) for other in seen)
            pure = math.inf if GaussianPairs.of(rows).telling.any() else 0.0
        moved = twin.distance, release.sensitivity, release.std, twin.std
        yield TwinRelease(time_s, number, twin.neighbour, *moved, rows, twin.shifts, pure)


def model_transcript(
    path: TaskPath,
    audited: AuditedClient,
    neighbour: Neighbour,
    held: AdversaryHoldings,
    models: Iterable[ModelRelease],
) -> Iterator[TwinRelease]:
    """Yield the models that an adversary holds and the client's uploads entered, beside those of a twin.

    A model's distance is that of the client's upload times its weight. Where there are several of them, or the clip
    norm moves the others too, it is bounded from below by the triangle inequality.
    """
    mine = [(held.models[one.version], one.version, one) for one in models if one.version in held.models]
    for time_s, _, model in sorted(mine, key=lambda row: row[:2]):
        twins = {
            upload.task: audited.tasks[upload.task].twins[neighbour.number]
            for upload in model.uploads
            if upload.task in audited.tasks and neighbour.number in audited.tasks[upload.task].twins
        }
        if twins:
            yield _model(path, audited, model, twins, time_s)


def _model(
    path: TaskPath, audited: AuditedClient, model: ModelRelease, twins: dict[int, TwinUpload], time_s: float
) -> TwinRelease:
    first = next(iter(twins.values()))
    number = first.neighbour.number
    others = {other.task: other for task in twins for other in audited.tasks[task].others.get(number, ())}
    weights = {upload.task: abs(upload.weight or 0.0) for upload in model.uploads}
    *less, most = sorted(weights[task] * twin.distance for task, twin in twins.items())
    less += [weights.get(other.task, 0.0) * other.distance for other in others.values()]
    distance = max(0.0, most - math.fsum(less))
    stds = [upload.release.std for upload in model.uploads]
    contributions, twin_stds = list(model.contributions), list(stds)
    for place, upload in enumerate(model.uploads):
        if upload.task in twins:
            twin = twins[upload.task]
            contributions[place] = replace(upload.contribution, epsilon=twin.contribution.epsilon)
            twin_stds[place] = twin.std
        elif upload.task in others:
            twin_stds[place] = others[upload.task].twin_std
    scheme, context = path.scheme, path.context
    here = model_releases(scheme, context, model.clip_norm, model.contributions, stds, model.server_std)
    there = model_releases(scheme, context, first.clip_norm, contributions, twin_stds, None)
    own, twin_std = here[audited.client], there[audited.client].std
    row = (float(path.learner.n_parameters), distance**2, own.std, twin_std)
    pure = math.inf if GaussianPairs.of([row]).telling.any() else 0.0
    return TwinRelease(time_s, -1, first.neighbour, distance, own.sensitivity, own.std, twin_std, (row,), None, pure)


def epsilons(releases: Sequence[TwinRelease], delta: float) -> tuple[Floats, Floats]:
    """Compute epsilon (n,) of each release alone, and (n,) of all of them so far, at `delta`; 0: pure."""
    if delta == 0:
        once = np.array([one.pure for one in releases])
        return once, np.cumsum(once)
    mus = np.array([math.fsum(_squared_mu(row) for row in one.gaussians) for one in releases])
    once, so_far = exact_epsilon(mus, delta), exact_epsilon(np.cumsum(mus), delta)
    together: tuple[GaussianRow, ...] = ()
    shifts, alike = np.zeros(len(BINS), np.int64), True
    for place, one in enumerate(releases):
        own = np.zeros_like(shifts) if one.shifts is None else one.shifts
        together, shifts = together + one.gaussians, shifts + own
        if one.shifts is not None or any(std != twin_std for _, _, std, twin_std in one.gaussians):
            alike = False
            once[place] = ReleasePairs(GaussianPairs.of(one.gaussians), own).epsilon(delta)
        if not alike:
            least = float(so_far[place - 1]) if place else 0.0
            so_far[place] = max(least, ReleasePairs(GaussianPairs.of(together), shifts).epsilon(delta))
    return once, so_far


def _squared_mu(row: GaussianRow) -> float:
    _, squared_distance, std, _ = row
    return squared_distance / std**2 if std > 0 else math.inf if squared_distance else 0.0


def furthest_upload(
    audited: AuditedClient, kinds: Container[str], held: AdversaryHoldings
) -> tuple[AuditedTask, TwinUpload] | None:
    """Return the held upload of a twin of these kinds that lies furthest away for its sensitivity; None: none."""
    found = [
        (twin.distance / task.release.sensitivity if task.release.sensitivity > 0 else 0.0, -task.task, task, twin)
        for task in audited.tasks.values()
        if task.task in held.uploads
        for twin in task.twins.values()
        if twin.neighbour.kind in kinds
    ]
    return max(found, key=lambda row: row[:2])[2:] if found else None
