"""Canaries: planted records, of which an auditor counts how many it recognises.

Each canary is included or excluded by a fair coin of its own. An included canary *sample* replaces a sample of a
client; an excluded one leaves it in place, or (`zeroed`) is held, but left out of each Poisson batch that draws it, so
that its gradient counts as zero. An included canary *client* takes part with its data; of an excluded
one each update counts as zero (`zero_out` of Kairouz et al. 2021), and it still adds its noise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from asyncfl.base.component import Described
from asyncfl.base.errors import Fault
from asyncfl.base.quantities import MeasuredIn
from asyncfl.base.streams import Streams
from asyncfl.data.sample_source import Array, Floats, Ints, Rng

_COINS, _PLACES, _CONTENTS = range(3)  # numbers of the random streams: inclusion, positions, contents


class Canaries(Described):
    """Number and kind of the canaries."""

    count: Annotated[int, MeasuredIn("samples or clients")] = Field(ge=1, examples=[10])
    """m: number of canary samples (at most as many as all clients hold) or canary clients (at most all)."""
    unit: Literal["sample", "client"] = "sample"
    """Whether single samples or whole clients are included or excluded."""
    kind: Literal["mislabelled", "noise"] = "mislabelled"
    """`mislabelled`: a sample of the client with a wrong label (for a regression: the smallest or largest number that
    clients hold, whichever is farther away). `noise`: random pixels with a random label. For a canary client this holds
    for all its samples."""

    excluded: Literal["replaced", "zeroed"] = "replaced"
    """What an excluded canary sample is: the client's own sample in its place (neighbours `replace`) | nothing, in each
    batch that draws it (neighbours `zero_out`; with `training.batches: poisson`)."""

    def faults(self, clients: int, samples: int) -> Iterator[Fault]:
        """Report why the canaries cannot be planted among `clients` clients that hold `samples` samples in all."""
        if self.unit == "client" and self.excluded == "zeroed":
            yield Fault(
                "excluded", "must be left out with unit: client, whose updates always count as zero, got zeroed"
            )
        if self.unit == "client" and self.count > clients:
            yield Fault("count", f"must be at most the number of clients ({clients}), got {self.count}")
        if self.unit == "sample" and self.count > samples:
            yield Fault("count", f"must be at most the number of samples of all clients ({samples}), got {self.count}")

    @property
    def description(self) -> str:
        """The canaries in words, for captions."""
        return f"{self.count} canary {self.unit}{'s'[: self.count != 1]} ({self.kind}), each in or out by a coin"


@dataclass(frozen=True)
class PlantedCanaries:
    """The canaries of one seed, and which of them are included. Samples are given for `unit` sample alone."""

    unit: Literal["sample", "client"]
    included: NDArray[np.bool_]  # (m,) whether each canary is included
    owners: Ints  # (m,) the client that holds each canary sample, or that is the canary
    images: Floats  # (m, channels, height, width) images of the canary samples
    labels: Array  # (m,) labels of the canary samples
    replaced_images: Floats
    """(m, channels, height, width) images of the samples that included canaries replace; of length 0 if none is
    replaced."""
    replaced_labels: Array  # (m,) labels of these samples
    left_out: Mapping[int, Ints] = field(default_factory=dict)
    """Client -> numbers, among its own, of the samples that count as zero in each batch."""

    @property
    def zeroed(self) -> frozenset[int]:
        """Excluded canary clients, whose updates are all zero."""
        return frozenset(self.owners[~self.included].tolist()) if self.unit == "client" else frozenset()


def plant_canaries(
    canaries: Canaries, images: Floats, labels: Array, offsets: Ints, classes: int, streams: Streams
) -> tuple[Floats, Array, PlantedCanaries]:
    """Return images and labels of all clients, as in `FederatedData`, with the included canaries, and the canaries."""
    included = streams.generator("canaries", number=_COINS).random(canaries.count) < 0.5
    place, content = (streams.generator("canaries", number=number) for number in (_PLACES, _CONTENTS))
    images, labels = images.copy(), labels.copy()
    if canaries.unit == "client":
        owners = np.sort(place.choice(len(offsets) - 1, canaries.count, replace=False))
        for owner in owners.tolist():
            own = np.arange(offsets[owner], offsets[owner + 1])
            images[own], labels[own] = _contents(canaries, images, labels, own, classes, content)
        nothing = images[:0], labels[:0]
        return images, labels, PlantedCanaries("client", included, owners, *nothing, *nothing)
    number = _spread(canaries.count, np.diff(offsets))
    owners = np.repeat(np.arange(len(number)), number)
    drawn = [place.choice(np.diff(offsets)[client], many, replace=False) for client, many in enumerate(number)]
    places = offsets[owners] + np.concatenate(drawn)
    before_images, before_labels = images[places], labels[places]
    canary_images, canary_labels = _contents(canaries, images, labels, places, classes, content)
    if canaries.excluded == "zeroed":
        images[places], labels[places] = canary_images, canary_labels
        own = places - offsets[owners]
        away = {client: own[(owners == client) & ~included] for client in np.unique(owners[~included]).tolist()}
        nothing = images[:0], labels[:0]
        planted = PlantedCanaries("sample", included, owners, canary_images, canary_labels, *nothing, away)
        return images, labels, planted
    images[places[included]], labels[places[included]] = canary_images[included], canary_labels[included]
    planted = PlantedCanaries("sample", included, owners, canary_images, canary_labels, before_images, before_labels)
    return images, labels, planted


def _spread(count: int, room: Ints) -> Ints:
    """Divide canaries among clients (clients,) evenly, as far as each has room; the first clients get one more."""
    given = np.zeros_like(room)
    while left := count - int(given.sum()):
        free = np.flatnonzero(given < room)
        share = max(1, left // len(free))
        some = free[: left // share]
        given[some] = np.minimum(given[some] + share, room[some])
    return given


def _contents(
    canaries: Canaries, images: Floats, labels: Array, places: Ints, classes: int, random: Rng
) -> tuple[Floats, Array]:
    """Draw images and labels of canaries that replace the samples at `places` (k,)."""
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


def farthest_label(labels: Array, held: Array) -> Array:
    """Return for each number (..., outputs) the end of those `held` (n, outputs) that is farther away."""
    low, high = held.min(0), held.max(0)
    return np.asarray(np.where(labels > low / 2 + high / 2, low, high), held.dtype)
