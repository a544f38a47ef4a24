"""ALIE (A Little Is Enough): the mean minus z standard deviations, no farther from the mean than honest updates are.

Source: Baruch, Baruch and Goldberg 2019. The attackers shift every parameter by z deviations. z is the largest value
for which s honest updates are still expected farther from the mean than the attackers, where s honest updates and the f
attackers together are a majority of the n updates:

    s = floor(n / 2 + 1) - f,    z = Phi^-1((n - f - s) / (n - f)).

The formula leaves two cases open. If attackers are a majority themselves (s < 1), f is lowered to floor(n / 2), for
which s is 1. If z is negative because there are too few attackers, z is 0: they upload the mean.
"""

from statistics import NormalDist
from typing import Annotated, Literal

from pydantic import Field

from asyncfl.base.arrays import Floats, Vector
from asyncfl.base.quantities import MeasuredIn
from asyncfl.threats.attack import AttackView
from asyncfl.threats.informed import Deviating
from asyncfl.threats.strength import optimal_strength


def alie_z(collected: int, attackers: int) -> float:
    """Return z >= 0 for `attackers` (f >= 0) of `collected` (n >= 1) updates.

    Raises:
        ValueError: the numbers are out of range.
    """
    if not 0 <= attackers <= collected or collected < 1:
        raise ValueError(f"attackers must be 0..collected ({collected} >= 1), got {attackers}")
    minority = min(attackers, collected // 2)
    honest = collected - minority
    supporters = collected // 2 + 1 - minority
    share = (honest - supporters) / honest
    return NormalDist().inv_cdf(share) if share > 0.5 else 0.0


class Alie(Deviating):
    """Uploads mean - z deviation of the known updates, coordinate by coordinate. Source: Baruch, Baruch,
    Goldberg 2019."""

    kind: Literal["alie"] = "alie"
    z: (
        Annotated[
            Literal["optimal"] | Annotated[float, Field(gt=0, allow_inf_nan=False)], MeasuredIn("standard deviations")
        ]
        | None
    ) = None
    """Number of standard deviations from the mean, > 0; null: `alie_z` of each buffer; `optimal`: that which moves the
    next model farthest, by trials on a copy of the server's defences."""
    rehearsals: Annotated[int, Field(ge=1, le=100), MeasuredIn("rehearsals")] = 16
    """Values of `z: optimal` to try for each buffer, >= 1; each costs one judgement by the server's defences."""

    @property
    def rehearses(self) -> bool:
        return self.z == "optimal"

    def deviate(self, known: Vector, mean: Floats, deviation: Floats, view: AttackView) -> Floats:
        z = self.z
        if z == "optimal":
            z = optimal_strength(lambda strength: mean - strength * deviation, mean, view, self.rehearsals)
        z = alie_z(view.collected, view.attackers) if z is None else z
        return mean - z * deviation
