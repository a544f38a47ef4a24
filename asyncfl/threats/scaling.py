"""Scaling, or model replacement: a multiple of the honest update."""

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from asyncfl.base.arrays import Vector
from asyncfl.base.quantities import MeasuredIn
from asyncfl.threats.attack import Attack, AttackView

Factor = Literal["replacement"] | Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Scaling(Attack):
    """Uploads w_base + g (w - w_base), its own update scaled by g.

    Alone it only amplifies an honest update; combined with a label flip or a backdoor it dominates the aggregate.

    Source: Bagdasaryan et al. 2020, model replacement.
    """

    kind: Literal["scaling"] = "scaling"
    factor: Annotated[Factor, MeasuredIn("factor")] = 10.0
    """g, > 0; `replacement`: n / f of each buffer, with which f equal updates out of n replace a plain mean."""

    def craft(self, view: AttackView) -> Vector:
        number = view.collected / max(view.attackers, 1) if self.factor == "replacement" else float(self.factor)
        return view.uploads(lambda row: np.float32(number) * view.honest[row])
