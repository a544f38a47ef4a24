"""Canaries: records that are planted so that an auditor can count how many of them it recognises.

Each canary is in or out by a fair coin of its own. A canary *sample* takes the place of a sample of a client where it
is in, and that sample stays where it is out: the two worlds differ in one replaced sample, and no client's number of
samples changes. A canary *client* takes part with its data where it is in; where it is out each of its updates counts
as zero (`zero_out` of Kairouz et al. 2021), and it still adds its noise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from asyncfl.component import Described
from asyncfl.errors import Fault
from asyncfl.quantities import MeasuredIn
from asyncfl.streams import Streams

COINS, PLACES, CONTENTS = range(3)
"""Streams of the canaries: who is in, where they are, what they are."""


class Canaries(Described):
    """How many canaries are planted, and what they are."""

    count: Annotated[int, MeasuredIn("samples or clients")] = Field(ge=1, examples=[10])
    """m: samples (at most as many as all clients hold) or clients (at most all)."""
    unit: Literal["sample", "client"] = "sample"
    """Whether single samples, or whole clients, are in or out."""
    kind: Literal["mislabelled", "noise"] = "mislabelled"
    """What they are: samples of the client with a wrong label (of a regression: the least or the largest that clients
    hold, whichever is further away), or images of random pixels with a random label; of a canary client, all its
    samples."""

    def faults(self, clients: int, samples: int) -> Iterator[Fault]:
        """Why they cannot be planted among `clients` clients that hold `samples` samples in all."""
        if self.unit == "client" and self.count > clients:
            yield Fault("count", f"must be at most the number of clients ({clients}), got {self.count}")
        if self.unit == "sample" and self.count > samples:
            yield Fault("count", f"must be at most the number of samples of all clients ({samples}), got {self.count}")

    @property
    def description(self) -> str:
        """What they are, for captions."""
        return (
            f"{self.count} canary {self.unit}{'' if self.count == 1 else 's'} ({self.kind}), each in or out by a coin"
        )


@dataclass(frozen=True)
class PlantedCanaries:
    """The canaries of one seed, and what the coins said."""

    unit: Literal["sample", "client"]
    included: NDArray[np.bool_]
    """(m,) whether each is in."""
    owners: NDArray[np.int64]
    """(m,) the client that holds each, or that it is."""
    images: NDArray[np.float32]
    """(m, channels, height, width) of the canary samples; (0, ...) of canary clients, whose data they hold."""
    labels: NDArray[Any]
    """(m,) their labels; (0,) of canary clients."""
    replaced_images: NDArray[np.float32]
    """(m, channels, height, width) of the samples whose place they take where they are in; (0, ...) of clients."""
    replaced_labels: NDArray[Any]
    """(m,) their labels; (0,) of canary clients."""

    @property
    def zeroed(self) -> frozenset[int]:
        """Canary clients that are out: each of their updates is zero."""
        return frozenset(self.owners[~self.included].tolist()) if self.unit == "client" else frozenset()


def plant_canaries(
    canaries: Canaries,
    images: NDArray[np.float32],
    labels: NDArray[Any],
    offsets: NDArray[np.int64],
    classes: int,
    streams: Streams,
) -> tuple[NDArray[np.float32], NDArray[Any], PlantedCanaries]:
    """Images and labels of all clients with the canaries that are in, and the canaries. The arguments stay as they are.

    `images`: (n, channels, height, width), `labels`: (n,), `offsets`: (clients + 1,) as of `FederatedData`.
    """
    included = streams.generator("canaries", number=COINS).random(canaries.count) < 0.5
    place, content = (streams.generator("canaries", number=number) for number in (PLACES, CONTENTS))
    images, labels = images.copy(), labels.copy()
    if canaries.unit == "client":
        owners = np.sort(place.choice(len(offsets) - 1, canaries.count, replace=False))
        for owner in owners.tolist():
            own = np.arange(offsets[owner], offsets[owner + 1])
            images[own], labels[own] = _contents(canaries, images, labels, own, classes, content)
        return (
            images,
            labels,
            PlantedCanaries("client", included, owners, images[:0], labels[:0], images[:0], labels[:0]),
        )
    number = _spread(canaries.count, np.diff(offsets))
    owners = np.repeat(np.arange(len(number)), number)
    drawn = [place.choice(np.diff(offsets)[client], many, replace=False) for client, many in enumerate(number)]
    places = offsets[owners] + np.concatenate(drawn)
    before_images, before_labels = images[places], labels[places]
    canary_images, canary_labels = _contents(canaries, images, labels, places, classes, content)
    images[places[included]], labels[places[included]] = canary_images[included], canary_labels[included]
    planted = PlantedCanaries("sample", included, owners, canary_images, canary_labels, before_images, before_labels)
    return images, labels, planted


def _spread(count: int, room: NDArray[np.int64]) -> NDArray[np.int64]:
    """(clients,) canaries of each client: equally many, as far as each has room; the first clients get one more."""
    given = np.zeros_like(room)
    while left := count - int(given.sum()):
        free = np.flatnonzero(given < room)
        share = max(1, left // len(free))
        some = free[: left // share]
        given[some] = np.minimum(given[some] + share, room[some])
    return given


def _contents(
    canaries: Canaries,
    images: NDArray[np.float32],
    labels: NDArray[Any],
    places: NDArray[np.int64],
    classes: int,
    random: np.random.Generator,
) -> tuple[NDArray[np.float32], NDArray[Any]]:
    """Images and labels of canaries in the place of the samples at `places` (k,)."""
    if canaries.kind == "mislabelled":
        if not classes:
            return images[places], farthest_label(labels[places], labels)
        wrong = (labels[places] + random.integers(1, classes, len(places))) % classes
        return images[places], wrong
    low, high = float(images.min()), float(images.max())
    noise = random.uniform(low, high, (len(places), *images.shape[1:])).astype(np.float32)
    if not classes:
        ends = labels.min(0), labels.max(0)
        return noise, random.uniform(*ends, (len(places), labels.shape[1])).astype(np.float32)
    return noise, random.integers(0, classes, len(places))


def farthest_label(labels: NDArray[Any], held: NDArray[Any]) -> NDArray[Any]:
    """(..., outputs) for each number the least or the largest of those `held` (n, outputs), whichever is further."""
    low, high = held.min(0), held.max(0)
    found: NDArray[Any] = np.where(labels > low / 2 + high / 2, low, high).astype(held.dtype)
    return found
