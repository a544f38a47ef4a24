"""Puller: equal Sybils that pull the model away from one class.

Let m be the mean of the attackers' honest updates, and d the descent of one class at the current model, of length 1:
the direction in which the loss on the attackers' own samples of that class falls fastest. All upload

    m - strength |m| d.

Most of it is honest, so that defences which look for the many that agree may take the attackers for these; an honest
client with much of that class then stands apart.
"""

from collections.abc import Iterator
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from asyncfl.base.arrays import Floats, Vector
from asyncfl.base.errors import Fault
from asyncfl.base.quantities import MeasuredIn
from asyncfl.threats.attack import Attack, AttackView, Knowledge
from asyncfl.threats.informed import for_attackers, mean_and_deviation
from asyncfl.threats.label_flip import no_such_class, without_classes


class Puller(Attack):
    """Uploads the attackers' mean honest update less its own length along the descent of one class.

    It needs nothing but what the attackers hold. Without a sample of the class they upload their honest updates.
    Source: found by others in a test of `evidence`, which it got to ban an honest client.
    """

    kind: Literal["puller"] = "puller"
    pulled_class: Annotated[int, Field(ge=0), MeasuredIn("class")] = 0
    """Class whose descent is subtracted, 0..classes-1."""
    strength: Annotated[float, Field(gt=0, allow_inf_nan=False), MeasuredIn("lengths of the mean")] = 1.0
    """Length of what is subtracted, in lengths of the mean update, > 0."""
    knowledge: Literal["own", "colluders"] = "colluders"
    """Updates that the mean is of: each attacker's own, or those of all attackers in the buffer."""

    @property
    def sees(self) -> Knowledge:
        return self.knowledge

    def faults(self, classes: int, shape: tuple[int, ...]) -> Iterator[Fault]:
        yield from without_classes(self.kind, classes)
        if classes:
            yield from no_such_class("pulled_class", self.pulled_class, classes)

    def craft(self, view: AttackView) -> Vector | None:
        if view.class_gradients is None:
            return None
        gradient = view.class_gradients(view.current)[self.pulled_class].astype(np.float64)
        length = float(np.linalg.norm(gradient))
        if not length:
            return None

        def pulled(known: Vector) -> Floats:
            mean = mean_and_deviation(known)[0]
            # The descent is the negative gradient.
            return np.asarray(mean + self.strength * float(np.linalg.norm(mean)) / length * gradient)

        forged = for_attackers(self.knowledge, view, pulled)

        def upload(row: int) -> Floats | Vector:
            poison = forged[row]
            return view.honest[row] if poison is None else poison

        return view.uploads(upload)
