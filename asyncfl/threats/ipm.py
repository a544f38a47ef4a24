"""IPM, inner product manipulation: a multiple of the negative mean of the known updates."""

from typing import Annotated, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from asyncfl.base.arrays import Vector
from asyncfl.base.quantities import MeasuredIn
from asyncfl.threats.attack import AttackView
from asyncfl.threats.informed import Informed, mean_and_deviation
from asyncfl.threats.strength import optimal_strength


class Ipm(Informed):
    """Uploads -tau times the mean of the known updates.

    The plain mean of n updates, f of them by attackers, reverses its direction for tau > (n - f) / f. A small tau
    passes rules that compare distances. With `versions` the attack begins as the mean itself and turns slowly, for
    defences that compare an update with earlier ones. With `tau: optimal` attackers try factors on a copy of the
    server's defences. Sources: Xie, Koyejo, Gupta 2019 (inner product manipulation);
    Rubinstein et al. 2009 (boiling frog).
    """

    kind: Literal["ipm"] = "ipm"
    tau: Annotated[Literal["optimal"] | Annotated[float, Field(gt=0, allow_inf_nan=False)], MeasuredIn("factor")] = 2.0
    """Length of the upload relative to the mean, > 0; `optimal`: that which moves the next model farthest."""
    rehearsals: Annotated[int, Field(ge=1, le=100), MeasuredIn("rehearsals")] = 16
    """Values of `tau: optimal` to try for each buffer, >= 1; each costs one judgement by the server's defences."""
    versions: Annotated[int, Field(ge=0), MeasuredIn("versions")] = 0
    """Number of model versions in which the factor goes evenly from 1 to -tau; 0: it is -tau from the beginning."""

    @model_validator(mode="after")
    def _check_optimal(self) -> Self:
        if self.tau == "optimal" and (self.versions or self.knowledge == "own"):
            wrong = "versions 0" if self.versions else "knowledge colluders or buffer"
            raise ValueError(f"tau optimal needs {wrong}: all attackers send one upload of one strength")
        return self

    @property
    def rehearses(self) -> bool:
        return self.tau == "optimal"

    def forge(self, known: Vector, view: AttackView) -> NDArray[np.floating]:
        mean, tau = mean_and_deviation(known)[0], self.tau
        if tau == "optimal":
            found = optimal_strength(lambda strength: -strength * mean, mean, view, self.rehearsals)
            tau = UNREHEARSED if found is None else found
        left = max(0.0, 1 - view.version / self.versions) if self.versions else 0.0
        return -(tau - (1 + tau) * left) * mean


UNREHEARSED = 2.0
"""Factor of `tau: optimal` where uploads cannot be rehearsed."""
