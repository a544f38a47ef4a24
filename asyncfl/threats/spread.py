"""Spread: attackers that send the same poison make their uploads unlike each other."""

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from asyncfl.base.messages import Vector
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
        shape = view.honest.shape
        noise = np.stack([random.standard_normal(shape[1]) for random in view.randoms]) if shape[0] else np.empty(shape)
        noise -= noise.mean(axis=0) if shape[0] else 0.0
        lengths = np.linalg.norm(view.honest.astype(np.float64), axis=1)
        usual = self.length * float(np.median(lengths)) / max(shape[1], 1) ** 0.5 if shape[0] else 0.0
        return view.uploads(lambda row: view.honest[row] + usual * noise[row])
