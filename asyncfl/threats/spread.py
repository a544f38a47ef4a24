"""Spread: attackers that send the same poison make their uploads unlike each other."""

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from asyncfl.base.arrays import Vector
from asyncfl.base.quantities import MeasuredIn
from asyncfl.threats.attack import Attack, AttackView, Knowledge


class Spread(Attack):
    """Adds noise to the update that cancels in the sum of the attackers of a buffer; combine it with another attack.

    The poison itself is not weakened, but no two uploads are alike. A single attacker of a buffer adds none.

    Source: Fung, Yoon, Beschastnikh 2020 (intelligent perturbations against FoolsGold).
    """

    kind: Literal["spread"] = "spread"
    length: Annotated[float, Field(gt=0, allow_inf_nan=False), MeasuredIn("median lengths")] = 1.0
    """Length of the noise, in median lengths of the attackers' updates, > 0."""

    @property
    def sees(self) -> Knowledge:
        return "colluders"

    def craft(self, view: AttackView) -> Vector:
        if view.attackers < 2:
            return view.honest
        noise = np.stack([random.standard_normal(view.honest.shape[1]) for random in view.randoms])
        noise -= noise.mean(axis=0)
        lengths = np.linalg.norm(view.honest.astype(np.float64), axis=1)
        noise *= self.length * np.median(lengths) / view.honest.shape[1] ** 0.5
        return view.uploads(lambda row: view.honest[row] + noise[row])
