"""Norm clipping: the weighted mean of updates that are clipped to a maximum L2 norm."""

from typing import Annotated, Literal

from asyncfl.base.arrays import Floats, Vector
from asyncfl.base.quantities import MeasuredIn
from asyncfl.defences.clipping import Radius, clipping_factors
from asyncfl.defences.distances import norms
from asyncfl.defences.robust_rule import RobustRule, weighted_sum


class NormClipping(RobustRule):
    """Weighted mean of the updates, each clipped to an L2 norm of at most `bound`.

    Use it against scaling and model replacement; it does not detect poison of ordinary length. Weights count as in the
    mean. Source: Sun et al. 2019, norm thresholding of updates.
    """

    kind: Literal["norm_clipping"] = "norm_clipping"
    bound: Annotated[Radius, MeasuredIn("L2 norm")] = "median"
    """Maximum L2 norm, > 0, in units of the updates; `median`: the median norm of the buffer."""

    def solve(self, updates: Vector, shares: Floats) -> tuple[Vector, Floats]:
        weighed = shares * clipping_factors(norms(updates), self.bound)
        return weighted_sum(weighed, updates), weighed
