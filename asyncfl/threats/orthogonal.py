"""Orthogonal: attackers keep what a trusted direction measures, and turn round everything that lies across it.

Let m be the mean of the attackers' honest updates, and r the common descent of the classes that they hold: the
direction along which every mixture of these classes moves forward, of length 1. All upload

    along (m.r) r - across (m - (m.r) r).

A defence that judges updates by r alone, from samples of its own, sees honest gain; the mean of the buffer loses what
lies across r, which is most of an update. With the factors of the default most such updates are longer than clipped
training allows, which a defence may know: `longest` keeps them within that.
"""

from collections.abc import Iterator
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from asyncfl.base.arrays import Floats, Vector
from asyncfl.base.errors import Fault
from asyncfl.base.quantities import MeasuredIn
from asyncfl.learning.common_descent import common_descent
from asyncfl.threats.attack import Attack, AttackView, Knowledge
from asyncfl.threats.informed import for_attackers, mean_and_deviation
from asyncfl.threats.label_flip import without_classes


class Orthogonal(Attack):
    """Uploads the attackers' mean honest update with its part along the common descent of their classes kept, and the
    rest reversed.

    It needs nothing but what the attackers hold. Where no direction descends for all their classes, they upload their
    honest updates. Source: found by others in a test of `evidence` with clean samples, which it beats.
    """

    kind: Literal["orthogonal"] = "orthogonal"
    along: Annotated[float, Field(ge=0, allow_inf_nan=False), MeasuredIn("factor")] = 2.0
    """Factor of the part along the common descent, >= 0."""
    across: Annotated[float, Field(allow_inf_nan=False), MeasuredIn("factor")] = 2.5
    """Factor of the part across it, which is reversed; negative: it is kept, and stretched by the factor's size, as a
    backdoor needs."""
    longest: Annotated[float, Field(gt=0, allow_inf_nan=False), MeasuredIn("L2 norm")] | None = None
    """Length that longer uploads are scaled down to, > 0, such as learning rate times clipping norm times steps; null:
    none is."""
    knowledge: Literal["own", "colluders"] = "colluders"
    """Updates that the mean is of: each attacker's own, or those of all attackers in the buffer."""

    @property
    def sees(self) -> Knowledge:
        return self.knowledge

    def faults(self, classes: int, shape: tuple[int, ...]) -> Iterator[Fault]:
        yield from without_classes(self.kind, classes)

    def craft(self, view: AttackView) -> Vector | None:
        if view.class_gradients is None:
            return None
        direction, length = common_descent(view.class_gradients(view.current))
        if not length:
            return None

        def turned(known: Vector) -> Floats:
            mean = mean_and_deviation(known)[0]
            kept = float(mean @ direction) * direction.astype(np.float64)
            crafted = self.along * kept - self.across * (mean - kept)
            size = float(np.linalg.norm(crafted))
            return crafted if self.longest is None or size <= self.longest else crafted * (self.longest / size)

        forged = for_attackers(self.knowledge, view, turned)

        def upload(row: int) -> Floats | Vector:
            poison = forged[row]
            return view.honest[row] if poison is None else poison

        return view.uploads(upload)
