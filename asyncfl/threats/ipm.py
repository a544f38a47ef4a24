"""IPM, inner product manipulation: a multiple of the negative mean of the known updates."""

from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from asyncfl.base.arrays import Vector
from asyncfl.base.quantities import MeasuredIn
from asyncfl.threats.attack import AttackView
from asyncfl.threats.informed import Informed, mean_and_deviation


class Ipm(Informed):
    """Uploads -tau times the mean of the known updates.

    The plain mean of n updates, f of them by attackers, reverses its direction for tau > (n - f) / f. A small tau
    passes rules that compare distances. With `versions` the attack begins as the mean itself and turns slowly, for
    defences that compare an update with earlier ones. Sources: Xie, Koyejo, Gupta 2019 (inner product manipulation);
    Rubinstein et al. 2009 (boiling frog).
    """

    kind: Literal["ipm"] = "ipm"
    tau: Annotated[float, Field(gt=0, allow_inf_nan=False), MeasuredIn("factor")] = 2.0
    """Length of the upload relative to the mean, > 0."""
    versions: Annotated[int, Field(ge=0), MeasuredIn("versions")] = 0
    """Number of model versions in which the factor goes evenly from 1 to -tau; 0: it is -tau from the beginning."""

    def forge(self, known: Vector, view: AttackView) -> NDArray[np.floating]:
        left = max(0.0, 1 - view.version / self.versions) if self.versions else 0.0
        return -(self.tau - (1 + self.tau) * left) * mean_and_deviation(known)[0]
