"""IPM, inner product manipulation: a multiple of the negative mean of the known updates."""

from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from asyncfl.base.messages import Vector
from asyncfl.base.quantities import MeasuredIn
from asyncfl.threats.attack import AttackView
from asyncfl.threats.informed import Informed, mean_and_deviation


class Ipm(Informed):
    """Uploads -tau times the mean of the known updates.

    The plain mean of n updates, f of them by attackers, reverses its direction for tau > (n - f) / f. A small tau
    passes rules that compare distances. Source: Xie, Koyejo, Gupta 2019 (inner product manipulation).
    """

    kind: Literal["ipm"] = "ipm"
    tau: Annotated[float, Field(gt=0, allow_inf_nan=False), MeasuredIn("factor")] = 2.0
    """Length of the upload relative to the mean, > 0."""

    def forge(self, known: Vector, view: AttackView) -> NDArray[np.floating]:
        return -self.tau * mean_and_deviation(known)[0]
