"""Scores of canaries: how likely each was trained on, judged by uploads and published models.

Either a canary sample or the sample that it replaces was trained on. Training lowers the loss of its samples. So a
model speaks for the canary if its loss of the canary, relative to its loss of the replaced sample, is lower than the
initial model's. An update speaks for the canary if it descends the canary's loss and ascends that of the replaced
sample: the score is the inner product of the update with the difference of the two gradients at the model that the
client was sent. For Gaussian noise of one size this inner product orders canaries by likelihood ratio. A canary client
replaces nothing, since its update counts as zero if it is left out.

The scores need no knowledge of the noise, the clipping or the number of local steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from asyncfl.audit.finished_run import with_model_callback
from asyncfl.base.messages import Vector
from asyncfl.client import Batch, TaskObserver
from asyncfl.data import FederatedData
from asyncfl.data.canaries import PlantedCanaries
from asyncfl.federation import Federation, SeedRun
from asyncfl.federation.adversary_holdings import first_times, holdings, overheard
from asyncfl.learning import Learner

Floats = NDArray[np.float64]

MOST_VERSIONS = 100
"""Largest number of published models to score, evenly spaced over the run, so that scoring costs less than training."""


@dataclass(frozen=True)
class HeldReleases:
    """Releases that one adversary holds, without version 0, which is public and depends on no data.

    The ledger grants an adversary more: a model that it missed also counts once it holds a later one. A measured
    epsilon is a lower bound either way.
    """

    tasks: frozenset[int] = frozenset()
    versions: tuple[int, ...] = ()
    """Published versions that the adversary holds, from 1 on, ascending."""


def held_releases(run: SeedRun) -> dict[str, HeldReleases]:
    """Return the uploads and published models that each adversary holds in a seed: name of the adversary -> releases.

    Adversaries: eavesdropper, server, both, public_last (the last published model), public (all published models).
    """
    published = {row["version"]: row["time_s"] for row in run.rounds}
    held = holdings(run.events, published)
    # Buffers that are sent to clients for scoring are not attacked here.
    tapped = frozenset(first_times(overheard(run.events, "up"), "task"))
    caught = {version for version in held["eavesdropper"].models if version > 0}
    arrived = frozenset(held["server"].uploads)
    models = [version for version in published if version > 0]
    return {
        "eavesdropper": HeldReleases(tapped, tuple(sorted(caught))),
        "server": HeldReleases(arrived, tuple(models)),
        "both": HeldReleases(arrived | tapped, tuple(models)),
        "public_last": HeldReleases(versions=tuple(models[-1:])),
        "public": HeldReleases(versions=tuple(models)),
    }


@dataclass(frozen=True)
class CanaryRecords:
    """Samples that represent canaries, with signed weights: a low loss speaks for or against a canary."""

    canaries: NDArray[np.int64]
    images: NDArray[np.float32]
    labels: NDArray[np.int64]
    of: NDArray[np.int64]
    """(r,) index into `canaries` of each sample."""
    weights: Floats
    """(r,) weights: 1 for a canary sample, -1 for the sample it replaces, 1/n for each sample of a canary client."""

    def summed(self, values: Floats) -> Floats:
        total = np.zeros(len(self.canaries))
        np.add.at(total, self.of, self.weights * values)
        return total


def canary_records(data: FederatedData, planted: PlantedCanaries, chosen: NDArray[np.int64]) -> CanaryRecords:
    """Return the samples that represent the canaries with the numbers `chosen` (k,)."""
    places = np.arange(len(chosen))
    if planted.unit == "sample":
        return CanaryRecords(
            chosen,
            np.concatenate([planted.images[chosen], planted.replaced_images[chosen]]),
            np.concatenate([planted.labels[chosen], planted.replaced_labels[chosen]]),
            np.concatenate([places, places]),
            np.repeat([1.0, -1.0], len(chosen)),
        )
    held = [data.client(client) for client in planted.owners[chosen].tolist()]
    sizes = np.array([len(labels) for _, labels in held])
    return CanaryRecords(
        chosen,
        np.concatenate([images for images, _ in held]),
        np.concatenate([labels for _, labels in held]),
        np.repeat(places, sizes),
        np.repeat(1.0 / sizes, sizes),
    )


class CanaryScorer(TaskObserver):
    """Observer of a seed with canaries that scores uploads and models. It does not change the run."""

    def __init__(self) -> None:
        self.planted: PlantedCanaries | None = None
        self._learner: Learner
        self._of_client: dict[int, CanaryRecords] = {}
        self._all: CanaryRecords
        self._first: Floats
        self._every: int
        self._pending: tuple[int, Vector] | None = None
        self._uploads: dict[int, tuple[int, Floats, Floats]] = {}
        """Task -> client; for each canary of the client the inner product of the update with its descent direction, and
        the fall of its loss from version 0 to the uploaded model."""
        self._models: dict[int, Floats] = {}
        """Version -> fall of each canary's loss from version 0 to this version."""

    def around(self, federation: Federation) -> Federation:
        """Observe `federation`, whose data must have canaries, and return the observed federation."""
        data, planted = federation.data, federation.data.canaries
        if planted is None:
            raise ValueError("the data have no canaries")
        self.planted, self._learner = planted, federation.learner
        self._all = canary_records(data, planted, np.arange(len(planted.owners)))
        self._of_client = {
            client: canary_records(data, planted, np.flatnonzero(planted.owners == client))
            for client in np.unique(planted.owners).tolist()
        }
        self._every = max(1, federation.plan.protocol.rounds // MOST_VERSIONS)
        self._first = self._preference(federation.plan.initial)
        if federation.path.scheme.mixing_node is None:
            federation.path.observer = self  # a mixed update belongs to no single client
        return with_model_callback(federation, self.published)

    def carried_out(self, batch: Batch) -> None:
        """Score the uploads of clients that hold canaries. Malformed and non-finite uploads are skipped."""
        for assignment, model, sound in zip(batch.assignments, batch.models, batch.sound, strict=True):
            records = self._of_client.get(assignment.client)
            if records is None or not sound:
                continue
            update = model - assignment.base
            if np.isfinite(update).all():
                slopes = self._learner.slopes(assignment.base, update, records.images, records.labels)
                liked = self._preference(model, records) - self._first[records.canaries]
                self._uploads[assignment.task] = assignment.client, -records.summed(slopes), liked

    def published(self, version: int, model: Vector) -> None:
        """Score a published model; in a long run only evenly spaced versions and the last."""
        if version % self._every == 0:
            self._models[version], self._pending = self._preference(model) - self._first, None
        else:
            self._pending = version, model.copy()

    def scores(self, holding: HeldReleases) -> dict[str, Floats]:
        """Compute the scores that an adversary can compute from what it holds: name -> (m,) values.

        The higher, the more likely the canary was included; NaN: no usable upload of the canary's client is held.
        `updates`: sum over the updates of the canary's client; `uploads`: mean over the models that the client
        uploaded; `last model`: the last scored model held; `models`: mean over the scored models held, if more than
        one. A name is missing where the adversary holds nothing of its kind.
        """
        if self._pending is not None:
            version, model = self._pending
            self._models[version], self._pending = self._preference(model) - self._first, None
        found: dict[str, Floats] = {}
        held = [self._uploads[task] for task in sorted(holding.tasks & self._uploads.keys())]
        if held:
            found["updates"], found["uploads"] = self._summed(held)
        versions = [version for version in holding.versions if version in self._models]
        if versions:
            found["last model"] = self._models[versions[-1]]
        if len(versions) > 1:
            found["models"] = np.mean([self._models[version] for version in versions], axis=0)
        return {name: np.where(np.isfinite(values), values, np.nan) for name, values in found.items()}

    def _summed(self, held: list[tuple[int, Floats, Floats]]) -> Floats:
        """Compute (2, m) sums of inner products and mean falls of the loss over a client's uploads; NaN without one."""
        total, number = np.zeros((2, len(self._all.canaries))), np.zeros(len(self._all.canaries))
        for client, towards, liked in held:
            own = self._of_client[client].canaries
            total[:, own] += towards, liked
            number[own] += 1
        with np.errstate(invalid="ignore", divide="ignore"):
            total[1] /= number
        total[:, number == 0] = np.nan
        return total

    def _preference(self, model: Vector, records: CanaryRecords | None = None) -> Floats:
        """Compute (k,) the loss of the replaced sample minus that of the canary; `records` None: all canaries."""
        records = self._all if records is None else records
        if not np.isfinite(model).all():
            return np.full(len(records.canaries), np.nan)
        return -records.summed(self._learner.losses(model, records.images, records.labels))


def of_honest_clients(
    scores: Mapping[str, Floats], planted: PlantedCanaries, attackers: list[int]
) -> tuple[dict[str, Floats], NDArray[np.bool_]]:
    """Return the scores of the canaries of honest clients, and (m,) whether each was included.

    Attackers' canaries are left out, since no scheme protects an attacker's data.
    """
    honest = ~np.isin(planted.owners, attackers)
    return {name: values[honest] for name, values in scores.items()}, planted.included[honest]
