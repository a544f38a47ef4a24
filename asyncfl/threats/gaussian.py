"""Gaussian attack: uploads noise in place of an update."""

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from asyncfl.base.arrays import Vector
from asyncfl.base.quantities import MeasuredIn
from asyncfl.threats.attack import Attack, AttackView


class Gaussian(Attack):
    """Uploads independent draws of N(0, std^2) in each parameter. Source: Blanchard et al. 2017."""

    kind: Literal["gaussian"] = "gaussian"
    std: Annotated[float, Field(gt=0, allow_inf_nan=False), MeasuredIn("1")] = 0.1
    """Standard deviation of each parameter, > 0."""
    of: Literal["update", "model"] = "update"
    """Replaced by noise: the difference from the model that was sent, or the whole model."""

    def craft(self, view: AttackView) -> Vector:
        std = np.float32(self.std)

        def upload(row: int) -> Vector:
            noise: Vector = view.randoms[row].standard_normal(view.current.shape, dtype=np.float32)
            noise *= std
            if self.of == "model":
                noise -= view.bases[row]
            return noise

        return view.uploads(upload)
