"""Centred clipping: the previous aggregate plus the mean of clipped differences from it."""

import copy
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from asyncfl.base.arrays import Floats, Vector
from asyncfl.base.quantities import MeasuredIn
from asyncfl.defences.buffer import Buffer, DefenceContext
from asyncfl.defences.clipping import Radius, clipping_factors
from asyncfl.defences.distances import norms
from asyncfl.defences.robust_rule import RobustRule, weighted_sum
from asyncfl.defences.rule import Aggregate


@dataclass(frozen=True)
class CentredClippingState:
    """State of the rule between buffers."""

    centre: Vector  # (n_parameters,) the last centre; 0 before the first buffer
    shuffle: Any  # random stream that shuffles buckets, or None


class CentredClipping(RobustRule):
    """v + weighted mean of (u_i - v), each clipped to L2 norm `radius`; v is the previous centre.

    Use it if attackers change between buffers: the memory averages out attacks that do not keep their direction.
    Weights count as in the mean. `aggregate` starts from v = 0; `step` uses the memory. Source: Karimireddy, He, Jaggi
    2021, equation 5 and algorithm 2.
    """

    kind: Literal["centred_clipping"] = "centred_clipping"
    radius: Annotated[Radius, MeasuredIn("L2 norm")] = "median"
    """tau, > 0, in units of the updates; `median`: the median distance to the centre (our choice, needs no tuning)."""
    iterations: Annotated[int, Field(ge=1), MeasuredIn("iterations")] = 1
    """Clipping steps per buffer, >= 1."""

    def solve(self, updates: Vector, shares: Floats) -> tuple[Vector, Floats]:
        return self.move_centre(np.zeros(updates.shape[1], dtype=updates.dtype), updates, shares)

    def move_centre(self, centre: Vector, updates: Vector, shares: Floats) -> tuple[Vector, Floats]:
        """Return the centre (d,) after `centre`, and each row's weight (n,) in the last clipping step: its share, or
        less if it was clipped. `updates` (n, d) and `shares` (n,) as in `solve`."""
        for _ in range(self.iterations):
            away = updates - centre
            weighed = shares * clipping_factors(norms(away), self.radius)
            centre = centre + weighted_sum(weighed, away)
        return centre, weighed

    def start(self, context: DefenceContext, random: np.random.Generator) -> CentredClippingState:
        return CentredClippingState(np.zeros(context.n_parameters, dtype=np.float32), super().start(context, random))

    def step(
        self, state: CentredClippingState, buffer: Buffer, weights: Floats
    ) -> tuple[Aggregate, CentredClippingState]:
        """See `Rule.step`. A buffer whose weights are all 0 leaves the centre unchanged."""
        shuffle = copy.deepcopy(state.shuffle)
        found = self.pre_aggregate(buffer.deltas, weights, shuffle)
        if found is None:
            return Aggregate(np.zeros_like(state.centre), weights.copy()), CentredClippingState(state.centre, shuffle)
        mixed, shares, composition = found
        centre, used = self.move_centre(state.centre, mixed, shares)
        mass = float(weights.sum())
        aggregate = Aggregate(
            centre * np.float32(mass), mass * (used @ composition), self.lowered(int(np.count_nonzero(weights)))
        )
        return aggregate, CentredClippingState(centre, shuffle)
