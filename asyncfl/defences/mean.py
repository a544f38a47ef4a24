"""Weighted sum of the updates: the rule of FedAvg, without any defence."""

from typing import ClassVar, Literal

import numpy as np

from asyncfl.base.arrays import Floats, Vector
from asyncfl.defences.rule import Rule


class Mean(Rule):
    """Weighted sum of the updates: no defence against poison. Source: McMahan et al. 2017, algorithm 1."""

    kind: Literal["mean"] = "mean"
    is_linear: ClassVar[bool] = True
    is_coordinatewise: ClassVar[bool] = True

    def aggregate(self, updates: Vector, weights: Floats) -> Vector:
        return weights.astype(np.float32) @ updates
