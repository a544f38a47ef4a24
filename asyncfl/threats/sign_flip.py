"""Sign flip: the negative of the update, of its last layer, of the model or of the mean of updates."""

from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from asyncfl.base.arrays import Vector
from asyncfl.base.quantities import MeasuredIn
from asyncfl.threats.attack import AttackView, Knowledge
from asyncfl.threats.informed import Informed, mean_and_deviation


class SignFlip(Informed):
    """Uploads the negative of its own update, of the last layer alone, of its own model, or of the mean of the known
    updates.

    Sources: update: Li et al. 2019 (RSA); mean: Allen-Zhu et al. 2020; one layer: Zhuang et al. 2024 (layer-wise
    poisoning).
    """

    kind: Literal["sign_flip"] = "sign_flip"
    of: Literal["update", "last_layer", "model", "mean"] = "update"
    """Upload: w_base - s (w - w_base) (`update`; `last_layer`: in the last layer, and w in the others), -s w (`model`),
    or w_base - s mean(known updates) (`mean`)."""
    factor: Annotated[float, Field(gt=0, allow_inf_nan=False), MeasuredIn("factor")] = 1.0
    """s: length of the negative relative to the original, > 0."""
    payloads: bool = False
    """Whether the algorithm's further vectors, such as the change of SCAFFOLD's control, are negated, too."""
    knowledge: Knowledge = "own"
    """Updates whose mean is negated; only used by `of: mean`."""

    @property
    def sees(self) -> Knowledge:
        return self.knowledge if self.of == "mean" else "own"

    def craft(self, view: AttackView) -> Vector:
        if self.of == "mean":
            return super().craft(view)
        factor, honest, bases = np.float32(self.factor), view.honest, view.bases
        if self.of == "last_layer":
            crafted = honest.copy()
            crafted[:, crafted.shape[1] - view.last_layer :] *= -factor
            return crafted
        if self.of == "update":
            return view.uploads(lambda row: -factor * honest[row])
        return view.uploads(lambda row: -factor * (bases[row] + honest[row]) - bases[row])

    def craft_payload(self, name: str, honest: Vector) -> Vector:
        return np.float32(-self.factor) * honest if self.payloads else honest

    def forge(self, known: Vector, view: AttackView) -> NDArray[np.floating]:
        return -self.factor * mean_and_deviation(known)[0]
