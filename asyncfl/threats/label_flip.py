"""Label flip: honest training on wrong labels, all of them or a share."""

from collections.abc import Iterator
from typing import Annotated, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from asyncfl.base.arrays import Ints
from asyncfl.base.errors import Fault
from asyncfl.base.quantities import MeasuredIn
from asyncfl.threats.attack import Attack

Class = Annotated[int, Field(ge=0)]


class LabelFlip(Attack):
    """Trains on wrong labels: class C - 1 - y in place of y, another class by `to`, or `target_class` in place of
    `source_class` alone.

    Sources: Fang et al. 2020 (reversed); Tolpegin et al. 2020 (one class); Han et al. 2018 (next: pair flip; random:
    symmetric noise).
    """

    kind: Literal["label_flip"] = "label_flip"
    to: Literal["reversed", "next", "permuted", "random"] = "reversed"
    """Wrong label: C-1-y, y+1 modulo C, a permutation without fixed points that all attackers share, or any other
    class, drawn for each sample."""
    share: Annotated[float, Field(gt=0, le=1), MeasuredIn("share")] = 1.0
    """Share of an attacker's samples that are mislabelled, rounded, 0 exclusive..1."""
    source_class: Annotated[Class, MeasuredIn("class")] | None = None
    """Class whose samples are mislabelled, 0..classes-1; null: all classes, by `to`."""
    target_class: Annotated[Class, MeasuredIn("class")] | None = None
    """Label that these samples get, 0..classes-1; only together with `source_class`."""

    @model_validator(mode="after")
    def _check_pair(self) -> Self:
        if (self.source_class is None) != (self.target_class is None):
            raise ValueError("source_class and target_class must be given together, or neither")
        if self.source_class is not None and self.source_class == self.target_class:
            raise ValueError(f"target_class must differ from source_class, got {self.target_class} for both")
        if self.source_class is not None and self.to != "reversed":
            raise ValueError(f"to must be left out where source_class and target_class are given, got {self.to}")
        return self

    def faults(self, classes: int, shape: tuple[int, ...]) -> Iterator[Fault]:
        yield from without_classes(self.kind, classes)
        if not classes:
            return
        for field in ("source_class", "target_class"):
            yield from no_such_class(field, getattr(self, field), classes)

    def poison(
        self, images: NDArray[np.float32], labels: Ints, classes: int, random: np.random.Generator
    ) -> tuple[NDArray[np.float32], Ints]:
        wrong = self._wrong(labels, classes, random)
        if self.share < 1:
            right = random.permutation(len(labels))[round(self.share * len(labels)) :]
            wrong[right] = labels[right]
        return images, wrong

    def _wrong(self, labels: Ints, classes: int, random: np.random.Generator) -> Ints:
        """Return the wrong label (n,) of each of `labels` (n,)."""
        if self.source_class is not None and self.target_class is not None:
            return np.where(labels == self.source_class, self.target_class, labels)
        match self.to:
            case "reversed":
                return classes - 1 - labels
            case "next":
                return (labels + 1) % classes
            case "random":
                return (labels + random.integers(1, max(classes, 2), len(labels))) % classes
        order = np.random.default_rng(classes).permutation(classes)  # the cycle order[0] -> order[1] -> ... -> order[0]
        following = np.empty(classes, dtype=np.int64)
        following[order] = np.roll(order, -1)
        return following[labels]


def without_classes(kind: str, classes: int) -> Iterator[Fault]:
    """Yield a fault if `classes` is 0, that is for a regression. `kind`: that of the attack, which needs classes."""
    if not classes:
        yield Fault("kind", f"{kind} is an attack on classes, which a regression has none of; take another attack")


def no_such_class(field: str, chosen: int | None, classes: int) -> Iterator[Fault]:
    """Yield a fault if the data set has no class `chosen`, the value of `field`; None is allowed."""
    if chosen is not None and chosen >= classes:
        yield Fault(field, f"must be 0..{classes - 1} (the data set has {classes} classes), got {chosen}")
