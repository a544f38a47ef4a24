"""How much what was released looks as if each canary had been trained on.

A canary sample and the sample whose place it takes are two records, of which one was trained on; whoever recognises
which has won the coin. Training lowers the loss of what it trains on, so a model that prefers the canary to the other
record more than the initial model did speaks for `in`; and an upload does as far as it points down the canary's loss
and up the other's: the inner product of the update with the difference of their gradients at the model that the client
was sent. For Gaussian noise of one size that inner product orders the coins by likelihood. A canary client has no other
record, as its update counts as zero where it is out.

Neither needs to know the noise, the clipping or the number of local steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from asyncfl.audit.held_releases import HeldReleases
from asyncfl.audit.published_models import with_model_callback
from asyncfl.client.observer import Collection, TaskObserver
from asyncfl.data import FederatedData
from asyncfl.data.canaries import PlantedCanaries
from asyncfl.federation import Federation
from asyncfl.learning import Learner
from asyncfl.messages import Vector

Floats = NDArray[np.float64]

MOST_VERSIONS = 100
"""Published models that are scored, evenly over the run, so that this costs less than training."""


@dataclass(frozen=True)
class CanaryRecords:
    """What stands for some canaries: records that speak for `in` where a model likes them, or against."""

    canaries: NDArray[np.int64]
    """(k,) number of each canary."""
    images: NDArray[np.float32]
    """(r, channels, height, width)."""
    labels: NDArray[np.int64]
    """(r,)."""
    of: NDArray[np.int64]
    """(r,) place in `canaries` of each record."""
    weights: Floats
    """(r,) what each counts: 1 for a canary sample, -1 for the sample it replaces, 1/n for each of a client's."""

    def summed(self, values: Floats) -> Floats:
        """(k,) weighted sum of the records' values (r,), for each canary."""
        total = np.zeros(len(self.canaries))
        np.add.at(total, self.of, self.weights * values)
        return total


def canary_records(data: FederatedData, planted: PlantedCanaries, chosen: NDArray[np.int64]) -> CanaryRecords:
    """What stands for the canaries with the numbers `chosen` (k,)."""
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
    """Looks on while a seed with canaries runs, and scores what is released. It changes nothing of the run."""

    def __init__(self) -> None:
        self.planted: PlantedCanaries | None = None
        self._learner: Learner
        self._of_client: dict[int, CanaryRecords] = {}
        self._all: CanaryRecords
        self._first: Floats
        self._every: int
        self._pending: tuple[int, Vector] | None = None
        self._uploads: dict[int, tuple[int, Floats, Floats]] = {}
        """Task -> client, and of each of its canaries how far the update points to it, and how much more than version
        0 the uploaded model likes it."""
        self._models: dict[int, Floats] = {}
        """Version -> score of each canary: how much more than version 0 it likes the canary."""

    def around(self, federation: Federation) -> Federation:
        """The federation, looked at. Its data must have canaries."""
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
        self._first = self._liking(federation.plan.initial)
        if federation.path.scheme.mixing_node is None:
            federation.path.observer = self  # what a node has mixed is of no client
        return with_model_callback(federation, self.published)

    def carried_out(self, collection: Collection) -> None:
        """Score the uploads of clients that hold canaries. What is not finite, or malformed, tells nothing here."""
        payloads = collection.payloads
        for assignment, model, sound in zip(collection.assignments, payloads.models, payloads.sound, strict=True):
            records = self._of_client.get(assignment.client)
            if records is None or not sound:
                continue
            update = model - assignment.base
            if np.isfinite(update).all():
                slopes = self._learner.slopes(assignment.base, update, records.images, records.labels)
                liked = self._liking(model, records) - self._first[records.canaries]
                self._uploads[assignment.task] = assignment.client, -records.summed(slopes), liked

    def published(self, version: int, model: Vector) -> None:
        """Score a published model; of a long run evenly many, and the last in any case."""
        if version % self._every == 0:
            self._models[version], self._pending = self._liking(model) - self._first, None
        else:
            self._pending = version, model.copy()

    def scores(self, holding: HeldReleases) -> dict[str, Floats]:
        """Score -> (m,) the higher the more likely each canary is in; NaN where the adversary holds nothing about it.

        `updates`: summed over the updates of the canary's client; `uploads`: by the losses of the models that it
        uploaded, their mean; `last model`: of the last model held; `models`: the mean of all of them. Only those
        that rest on something.
        """
        if self._pending is not None:
            version, model = self._pending
            self._models[version], self._pending = self._liking(model) - self._first, None
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
        """(2, m) both scores of uploads, the first summed over those of each canary's client, the second averaged."""
        total, number = np.zeros((2, len(self._all.canaries))), np.zeros(len(self._all.canaries))
        for client, towards, liked in held:
            own = self._of_client[client].canaries
            total[:, own] += towards, liked
            number[own] += 1
        with np.errstate(invalid="ignore", divide="ignore"):
            total[1] /= number
        total[:, number == 0] = np.nan
        return total

    def _liking(self, model: Vector, records: CanaryRecords | None = None) -> Floats:
        """(k,) minus the loss of each canary, of `records` or (None) of all, and plus that of what it replaces."""
        asked = self._all if records is None else records
        if not np.isfinite(model).all():
            return np.full(len(asked.canaries), np.nan)
        return -asked.summed(self._learner.losses(model, asked.images, asked.labels))


def of_honest_clients(
    scores: Mapping[str, Floats], planted: PlantedCanaries, attackers: list[int]
) -> tuple[dict[str, Floats], NDArray[np.bool_]]:
    """Scores and coins of the canaries of clients that do not attack: an attacker's data are promised nothing."""
    honest = ~np.isin(planted.owners, attackers)
    return {name: values[honest] for name, values in scores.items()}, planted.included[honest]
