"""Concept shift: groups of clients with other labels for the same features, or other features for the same label.

With domains, label skew and quantity skew these are the five kinds of heterogeneity of Kairouz et al. (2021,
arXiv:1912.04977, section 3.1). Test samples are changed as for their domain's clients in turn, so the test set has the
same mixture of concepts as the federation.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from asyncfl.base.component import Component
from asyncfl.base.errors import Fault
from asyncfl.base.quantities import MeasuredIn
from asyncfl.base.streams import Streams
from asyncfl.data.own.dataset import ArraySource
from asyncfl.data.sample_source import Ints


class Concept(Component):
    """Base class of all concepts."""

    logged: ClassVar[tuple[str, ...]] = ("summary.data", "rounds.train_loss")
    groups: Annotated[int, MeasuredIn("groups")] = Field(default=2, ge=2)
    """Number of groups of clients; client i belongs to group i mod groups, and group 0 keeps the data unchanged."""

    def faults(self, clients: int, classes: int) -> Iterator[Fault]:
        """Report why the concept cannot be applied; field names are relative to the concept."""
        if self.groups > clients:
            yield Fault("groups", f"must be 2..data.clients ({clients}), got {self.groups}")

    def image_faults(self, source: ArraySource) -> Iterator[Fault]:
        """Report why the concept cannot change the user's own samples."""
        yield from ()

    @property
    def description(self) -> str:
        """The concept in words, for captions."""
        return f"{self.groups} groups of clients with concepts of their own"

    def labels(self, labels: Ints, owners: Ints, classes: int, streams: Streams) -> Ints:
        """Return the labels (n,), 0..classes-1, as the clients `owners` (n,) see them, in a new array."""
        return labels

    def images(self, images: NDArray[np.uint8], owners: Ints) -> NDArray[np.uint8]:
        """Return the images (n, height, width[, 3]), or other features, as the clients `owners` (n,) see them, in a new
        array."""
        return images


class Relabelled(Concept):
    """Same features, different labels: each group but the first exchanges some of its labels.

    Source: Kairouz et al. 2021, section 3.1; the relabelling is ours.
    """

    kind: Literal["relabelled"] = "relabelled"
    classes: Annotated[int, MeasuredIn("classes")] = Field(default=10, ge=2)
    """Number of classes that exchange labels, along a ring that is drawn for each group."""

    def faults(self, clients: int, classes: int) -> Iterator[Fault]:
        yield from super().faults(clients, classes)
        if self.classes > classes:
            yield Fault("classes", f"must be 2..{classes} (classes), got {self.classes}")

    @property
    def description(self) -> str:
        return f"{self.classes} labels exchanged in all but one of {self.groups} groups of clients"

    def labels(self, labels: Ints, owners: Ints, classes: int, streams: Streams) -> Ints:
        names = np.tile(np.arange(classes), (self.groups, 1))
        for group in range(1, self.groups):
            ring = streams.generator("domains", number=group).permutation(classes)[: self.classes]
            names[group, ring] = np.roll(ring, 1)
        return np.asarray(names[owners % self.groups, labels])


class Restyled(Concept):
    """Same labels, different features: each group but the first has changed images.

    Source: Kairouz et al. 2021, section 3.1; the changes are ours.
    """

    kind: Literal["restyled"] = "restyled"
    change: Literal["rotated", "inverted"] = "rotated"
    """`rotated`: group g has images turned left by g quarter turns (Ghosh et al. 2020, arXiv:2006.04088). `inverted`:
    the second of two groups has negatives."""

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
        if not source.are_images:
            got = f"{source.title} holds no pictures (bytes), got {source.shape}"
            yield Fault("kind", f"must not be restyled where {got}")
        elif self.change == "rotated" and source.shape[1] != source.shape[2]:
            got = f"{source.shape[1]}x{source.shape[2]} pixels"
            yield Fault("change", f"must be inverted where pictures are not square ({got}), got rotated")

    def images(self, images: NDArray[np.uint8], owners: Ints) -> NDArray[np.uint8]:
        seen = images.copy()
        for group in range(1, self.groups):
            rows = np.flatnonzero(owners % self.groups == group)
            seen[rows] = np.rot90(seen[rows], group, axes=(1, 2)) if self.change == "rotated" else 255 - seen[rows]
        return seen
