"""Minority: attackers side with the honest clients that hold one class, so that the two together look like a majority.

Let h_k be the descent of the loss on the attackers' samples of class k, scaled to length 1, and H the matrix of their
inner products. The attackers choose u as the combination sum_k w_k h_k that gains 1 for `target_class` and loses
`against` for each other class,

    (H + 0.001 I) w = p,    p_k = 1 for the target class and -against for the others.

An honest client that holds mostly the target class gains along u, most others lose. All attackers upload u with the
length at which they gain as much along it as the honest update that gains most, so that they stand beside the minority
and do not stick out. A defence that takes more than half of the clients for a side of honest ones may then judge the
honest majority by that side.
"""

from collections.abc import Iterator
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from asyncfl.base.arrays import Floats, Vector
from asyncfl.base.errors import Fault
from asyncfl.base.quantities import MeasuredIn
from asyncfl.threats.attack import Attack, AttackView, Knowledge
from asyncfl.threats.informed import finite_rows
from asyncfl.threats.label_flip import no_such_class, without_classes

RIDGE = 1e-3  # keeps the weights of nearly parallel descents finite


class Minority(Attack):
    """Uploads an update along which only clients that hold one class gain, as long as the longest honest gain.

    The attackers compute it from the samples that they hold together. Source: ours, against detectors that take the
    side of a majority.
    """

    kind: Literal["minority"] = "minority"
    target_class: Annotated[int, Field(ge=0), MeasuredIn("class")] = 0
    """Class of the honest clients that the attackers side with, 0..classes-1."""
    against: Annotated[float, Field(ge=0, le=1), MeasuredIn("share")] = 0.4
    """Loss of each other class along the upload, as a share of the target class's gain, 0..1."""
    knowledge: Literal["colluders", "buffer"] = "colluders"
    """Updates among which the longest gain is looked up: the attackers' honest updates, or those of the honest clients
    in the buffer."""

    @property
    def sees(self) -> Knowledge:
        return self.knowledge

    def faults(self, classes: int, shape: tuple[int, ...]) -> Iterator[Fault]:
        yield from without_classes(self.kind, classes)
        if classes:
            yield from no_such_class("target_class", self.target_class, classes)

    def craft(self, view: AttackView) -> Vector | None:
        if view.class_gradients is None:
            return None
        known = finite_rows(view.known if self.knowledge == "buffer" and len(view.known) else view.honest)
        bases = {base.tobytes(): base for base in view.bases}
        directions = {key: self._direction(view.class_gradients(base)) for key, base in bases.items()}

        def upload(row: int) -> Floats | Vector:
            direction = directions[view.bases[row].tobytes()]
            longest = float((known @ direction).max(initial=0.0))
            return longest * direction if longest > 0 else view.honest[row]

        return view.uploads(upload)

    def _direction(self, gradients: Vector) -> Floats:
        """Return u / |u| (n_parameters,) from the `gradients` (classes, n_parameters) of a model; 0 if the attackers
        hold no sample of the target class."""
        lengths = np.sqrt(np.einsum("ij,ij->i", gradients, gradients))
        descents = -gradients / np.where(lengths > 0, lengths, np.inf)[:, None]
        if not np.isfinite(descents).all() or not lengths[self.target_class]:
            return np.zeros(gradients.shape[1])
        wanted = np.where(np.arange(len(descents)) == self.target_class, 1.0, -self.against) * (lengths > 0)
        direction = np.linalg.solve(descents @ descents.T + RIDGE * np.eye(len(descents)), wanted) @ descents
        return np.asarray(direction / np.linalg.norm(direction))
