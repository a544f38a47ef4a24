"""Label flip: honest training on wrong labels."""

from collections.abc import Iterator
from typing import Annotated, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from asyncfl.base.errors import Fault
from asyncfl.base.messages import Ints
from asyncfl.base.quantities import MeasuredIn
from asyncfl.threats.attack import Attack

Class = Annotated[int, Field(ge=0)]


class LabelFlip(Attack):
    """Trains on class C - 1 - y in place of y, or on `target_class` in place of `source_class` alone. Sources: Fang et
    al. 2020 (all classes); Tolpegin et al. 2020 (one class)."""

    kind: Literal["label_flip"] = "label_flip"
    source_class: Annotated[Class, MeasuredIn("class")] | None = None
    """Class whose samples are mislabelled, 0..classes-1; null: all classes, y -> C-1-y."""
    target_class: Annotated[Class, MeasuredIn("class")] | None = None
    """Label that these samples get, 0..classes-1; only together with `source_class`."""

    @model_validator(mode="after")
    def _check_pair(self) -> Self:
        if (self.source_class is None) != (self.target_class is None):
            raise ValueError("source_class and target_class must be given together, or neither (y -> C-1-y)")
        if self.source_class is not None and self.source_class == self.target_class:
            raise ValueError(f"target_class must differ from source_class, got {self.target_class} for both")
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
        if self.source_class is None or self.target_class is None:
            return images, classes - 1 - labels
        flipped = labels.copy()
        flipped[labels == self.source_class] = self.target_class
        return images, flipped


def without_classes(kind: str, classes: int) -> Iterator[Fault]:
    """Yield a fault if `classes` is 0, that is for a regression. `kind`: that of the attack, which needs classes."""
    if not classes:
        yield Fault("kind", f"{kind} is an attack on classes, which a regression has none of; take another attack")


def no_such_class(field: str, chosen: int | None, classes: int) -> Iterator[Fault]:
    """Yield a fault if the data set has no class `chosen`, the value of `field`; None is allowed."""
    if chosen is not None and chosen >= classes:
        yield Fault(field, f"must be 0..{classes - 1} (the data set has {classes} classes), got {chosen}")
