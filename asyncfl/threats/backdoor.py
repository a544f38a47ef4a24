"""Backdoor: a patch of pixels that makes the model predict a target class."""

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from asyncfl.base.arrays import Ints, Vector
from asyncfl.base.errors import Fault
from asyncfl.base.quantities import MeasuredIn
from asyncfl.threats.attack import Attack, AttackView
from asyncfl.threats.label_flip import no_such_class, without_classes
from asyncfl.threats.scaling import Factor, Scaling

Brightness = Literal["brightest"] | Annotated[float, Field(allow_inf_nan=False)]


class Backdoor(Attack):
    """Trains on samples of which a share carries a square trigger and the target's label.

    Success is the share of triggered test images of other classes that the model classifies as the target.

    Source: Gu et al. 2017; Bagdasaryan et al. 2020.
    """

    kind: Literal["backdoor"] = "backdoor"
    logged: ClassVar[tuple[str, ...]] = ("rounds.attack_success",)
    target_class: Annotated[int, Field(ge=0), MeasuredIn("class")] = 0
    """Class that triggered images are classified as, 0..classes-1."""
    poison_share: Annotated[float, Field(gt=0, le=1), MeasuredIn("share")] = 0.5
    """Share of an attacker's samples with trigger and target label, rounded, 0 exclusive..1."""
    side: Annotated[int, Field(ge=1), MeasuredIn("pixels")] = 3
    """Height and width of the trigger, pixels."""
    margin: Annotated[int, Field(ge=0), MeasuredIn("pixels")] = 1
    """Pixels between the trigger and the two edges of its corner."""
    corner: Literal["top_left", "top_right", "bottom_left", "bottom_right"] = "bottom_right"
    """Corner of the image that holds the trigger."""
    value: Annotated[
        Literal["brightest"] | Annotated[float, Field(allow_inf_nan=False)], MeasuredIn("scaled pixel")
    ] = "brightest"
    """Value of the trigger's pixels in the scaling of the data; `brightest`: the largest value among the
    images given."""
    factor: Annotated[Factor, MeasuredIn("factor")] = 1.0
    """g: factor on the length of the update, > 0; `replacement`: n / f of each buffer."""

    def faults(self, classes: int, shape: tuple[int, ...]) -> Iterator[Fault]:
        yield from without_classes(self.kind, classes)
        if not classes:
            return
        yield from no_such_class("target_class", self.target_class, classes)
        if len(shape) != 3:
            yield Fault(
                "kind", f"must not be {self.kind} where samples are no images: it has no place for a trigger in {shape}"
            )
            return
        room = min(shape[1:]) - self.margin
        if self.side > room:
            yield Fault(
                "side",
                f"must be 1..{room} on images of {shape[1]}x{shape[2]} with margin {self.margin}, "
                f"got {self.side}; lower side or margin",
            )

    @property
    def target(self) -> int:
        return self.target_class

    def poison(
        self, images: NDArray[np.float32], labels: Ints, classes: int, random: np.random.Generator
    ) -> tuple[NDArray[np.float32], Ints]:
        chosen = random.permutation(len(labels))[: round(self.poison_share * len(labels))]
        images, labels, marked = images.copy(), labels.copy(), self.triggered(images)
        images[chosen] = marked[chosen]
        labels[chosen] = self.target_class
        return images, labels

    def craft(self, view: AttackView) -> Vector:
        return view.honest if self.factor == 1 else Scaling(factor=self.factor).craft(view)

    def triggered(self, images: NDArray[np.float32]) -> NDArray[np.float32]:
        marked = images.copy()
        if not len(images):
            return marked
        value = images.max() if self.value == "brightest" else np.float32(self.value)
        vertical, horizontal = self.corner.split("_")
        rows = self._span(images.shape[2], vertical == "top")
        columns = self._span(images.shape[3], horizontal == "left")
        marked[:, :, rows, columns] = value
        return marked

    def _span(self, length: int, from_start: bool) -> slice:
        """Return the rows or columns of the trigger in an image of `length` pixels, at its start or its end."""
        start = self.margin if from_start else length - self.margin - self.side
        return slice(start, start + self.side)


def backdoor_test_set(
    attack: Attack, images: NDArray[np.float32], labels: Ints
) -> tuple[NDArray[np.float32], Ints] | None:
    """Return triggered test images of all classes but the target, labelled as the target; None: no backdoor. `images`:
    (n, C, H, W), `labels`: (n,). The accuracy of a model on this set is the success rate, 0..1. Images of the target
    class are left out because they are classified as the target without a trigger."""
    target, marked = attack.target, attack.triggered(images)
    if target is None or marked is None:
        return None
    others = labels != target
    return marked[others], np.full(int(others.sum()), target, dtype=np.int64)
