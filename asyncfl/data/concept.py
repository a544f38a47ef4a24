"""Clients that see the same things differently: concepts that differ between groups of clients.

Partitions decide which samples a client holds; a concept decides what those samples look like and mean to it. With
domains (other features altogether), label skew and quantity skew these are the five kinds of heterogeneity that are
told apart since Kairouz et al. (2021, arXiv:1912.04977, section 3.1).

Client i belongs to group i mod `groups`; group 0 sees the data as they are. A test sample is seen as one of its
domain's clients sees it, in turn, so the test set is the same mixture of concepts as the federation.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from asyncfl.component import Component
from asyncfl.data.own.arrays import ArraySource
from asyncfl.errors import Fault
from asyncfl.quantities import MeasuredIn
from asyncfl.streams import Streams


class Concept(Component):
    """Base of all concepts."""

    logged: ClassVar[tuple[str, ...]] = (
        "summary.data",
        "rounds.train_loss",
    )

    groups: Annotated[int, MeasuredIn("groups")] = Field(default=2, ge=2)
    """Groups of clients; client i belongs to group i mod groups, and group 0 sees the data as they are."""

    def faults(self, clients: int, classes: int) -> Iterator[Fault]:
        """What makes this request impossible, fields named relative to the concept."""
        if self.groups > clients:
            yield Fault("groups", f"must be 2..data.clients ({clients}), got {self.groups}")

    @property
    def description(self) -> str:
        """What captions say of it."""
        return f"{self.groups} groups of clients with concepts of their own"

    def labels(
        self, labels: NDArray[np.int64], owners: NDArray[np.int64], classes: int, streams: Streams
    ) -> NDArray[np.int64]:
        """(n,) labels 0..classes-1 as the clients `owners` (n,) take them; the given ones are left as they are."""
        return labels

    def images(self, images: NDArray[np.uint8], owners: NDArray[np.int64]) -> NDArray[np.uint8]:
        """(n, height, width[, 3]) images, or what else a data set of your own holds, as the clients `owners` (n,) see
        them; the given ones are left as they are."""
        return images


class Relabelled(Concept):
    """Same features, different labels: each group but the first has names of its own for some classes.

    Source: Kairouz et al. 2021, section 3.1; the relabelling is ours.
    """

    kind: Literal["relabelled"] = "relabelled"
    classes: Annotated[int, MeasuredIn("classes")] = Field(default=10, ge=2)
    """How many classes change their labels, in a ring that is drawn for each group."""

    def faults(self, clients: int, classes: int) -> Iterator[Fault]:
        yield from super().faults(clients, classes)
        if self.classes > classes:
            yield Fault("classes", f"must be 2..{classes} (classes), got {self.classes}")

    @property
    def description(self) -> str:
        return f"{self.classes} labels exchanged in all but one of {self.groups} groups of clients"

    def labels(
        self, labels: NDArray[np.int64], owners: NDArray[np.int64], classes: int, streams: Streams
    ) -> NDArray[np.int64]:
        names = np.tile(np.arange(classes), (self.groups, 1))
        for group in range(1, self.groups):
            ring = streams.generator("domains", number=group).permutation(classes)[: self.classes]
            names[group, ring] = np.roll(ring, 1)
        renamed: NDArray[np.int64] = names[owners % self.groups, labels]
        return renamed


class Restyled(Concept):
    """Same labels, different features: each group but the first sees the images changed.

    Source: Kairouz et al. 2021, section 3.1; the changes are ours.
    """

    kind: Literal["restyled"] = "restyled"
    change: Literal["rotated", "inverted"] = "rotated"
    """Group g sees images turned by g quarter turns to the left (Ghosh et al. 2020, arXiv:2006.04088), or, with two
    groups, as negatives."""

    def faults(self, clients: int, classes: int) -> Iterator[Fault]:
        allowed = (2, 3, 4) if self.change == "rotated" else (2,)
        if self.groups not in allowed:
            listed = f"{', '.join(map(str, allowed))} with change: {self.change}"
            yield Fault("groups", f"must be {listed}, got {self.groups}")
        else:
            yield from super().faults(clients, classes)

    @property
    def description(self) -> str:
        return f"images {self.change} in all but one of {self.groups} groups of clients"

    def image_faults(self, source: ArraySource) -> Iterator[Fault]:
        """Why the samples of a data set of one's own cannot be changed so."""
        if not source.are_images:
            yield Fault(
                "kind", f"must not be restyled where {source.title} holds no pictures (bytes), got {source.shape}"
            )
        elif self.change == "rotated" and source.shape[1] != source.shape[2]:
            got = f"{source.shape[1]}x{source.shape[2]} pixels"
            yield Fault("change", f"must be inverted where pictures are not square ({got}), got rotated")

    def images(self, images: NDArray[np.uint8], owners: NDArray[np.int64]) -> NDArray[np.uint8]:
        seen = images.copy()
        for group in range(1, self.groups):
            rows = np.flatnonzero(owners % self.groups == group)
            seen[rows] = np.rot90(seen[rows], group, axes=(1, 2)) if self.change == "rotated" else 255 - seen[rows]
        return seen
