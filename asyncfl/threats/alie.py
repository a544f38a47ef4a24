"""ALIE, A Little Is Enough: the mean less z standard deviations, no farther from it than honest updates are.

Source: Baruch, Baruch and Goldberg 2019. The attackers shift every parameter by z deviations. z is the
largest for which they still expect s honest updates farther out than they are, where s honest ones with the f attackers
make a majority of the n updates:

    s = floor(n / 2 + 1) - f,    z = Phi^-1((n - f - s) / (n - f)).

Two ends that the formula leaves open: attackers who are the majority by themselves (s < 1) use the z of the largest
minority, f = floor(n / 2), whose s is 1; and where z is negative, because the attackers are too few to be believed
anywhere off the centre, it is 0: they upload the mean.
"""

from __future__ import annotations

from statistics import NormalDist
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from asyncfl.messages import Vector
from asyncfl.quantities import MeasuredIn
from asyncfl.threats.attack import AttackView
from asyncfl.threats.informed import Deviating


def alie_z(collected: int, attackers: int) -> float:
    """z for `attackers` (f >= 0) of `collected` (n >= 1) updates, >= 0; see above."""
    if not 0 <= attackers <= collected or collected < 1:
        raise ValueError(f"attackers must be 0..collected ({collected} >= 1), got {attackers}")
    minority = min(attackers, collected // 2)
    honest = collected - minority
    supporters = collected // 2 + 1 - minority
    share = (honest - supporters) / honest
    return NormalDist().inv_cdf(share) if share > 0.5 else 0.0


class Alie(Deviating):
    """Uploads mean - z deviation of the known updates, coordinate by coordinate."""

    kind: Literal["alie"] = "alie"
    z: Annotated[float, Field(gt=0, allow_inf_nan=False), MeasuredIn("standard deviations")] | None = None
    """Deviations from the mean, > 0; null: `alie_z` of each buffer's updates and attackers."""

    def deviate(
        self, known: Vector, mean: NDArray[np.float64], deviation: NDArray[np.float64], view: AttackView
    ) -> NDArray[np.float64]:
        """mean - z deviation."""
        z = alie_z(view.collected, view.attackers) if self.z is None else self.z
        return mean - z * deviation
