"""Centred clipping: the last aggregate, moved by differences none of which is longer than a bound."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from asyncfl.defences.buffer import Buffer
from asyncfl.defences.detector import DefenceContext
from asyncfl.defences.norm_clipping import Radius, clipping_factors
from asyncfl.defences.norms import norms
from asyncfl.defences.robust_rule import RobustRule, weighted_sum
from asyncfl.defences.rule import Aggregate
from asyncfl.messages import Vector
from asyncfl.quantities import MeasuredIn


@dataclass(frozen=True)
class CentredClippingState:
    """What the rule remembers."""

    centre: Vector
    """(n_parameters,) the last centre; 0 before the first buffer."""
    shuffle: Any
    """Stream that shuffles buckets, or None."""


class CentredClipping(RobustRule):
    """v + weighted mean of (u_i - v), each of L2 norm at most `radius`; v is the last such centre.

    Use it where attackers change from buffer to buffer: the memory keeps them from pulling the same way for long.
    Weights count as in the mean. `aggregate` alone starts from v = 0; `step` remembers. Source: Karimireddy, He, Jaggi
    2021, equation 5 and algorithm 2.
    """

    kind: Literal["centred_clipping"] = "centred_clipping"
    radius: Annotated[Radius, MeasuredIn("L2 norm")] = "median"
    """tau, > 0, in units of the updates; `median`: that of the distances to the centre (ours, nothing to be tuned)."""
    iterations: Annotated[int, Field(ge=1), MeasuredIn("iterations")] = 1
    """Times that a buffer moves the centre, >= 1."""

    def solve(self, updates: Vector, shares: NDArray[np.float64]) -> tuple[Vector, NDArray[np.float64]]:
        """The centre after a start from 0, see `RobustRule.solve`."""
        return self.move_centre(np.zeros(updates.shape[1], dtype=updates.dtype), updates, shares)

    def move_centre(
        self, centre: Vector, updates: Vector, shares: NDArray[np.float64]
    ) -> tuple[Vector, NDArray[np.float64]]:
        """The next centre, and what each row weighed in the last move (less than its share where it was clipped)."""
        for _ in range(self.iterations):
            away = updates - centre
            weighed = shares * clipping_factors(norms(away), self.radius)
            centre = centre + weighted_sum(weighed, away)
        return centre, weighed

    def start(self, context: DefenceContext, random: np.random.Generator) -> CentredClippingState:
        """A centre at 0: nothing moves."""
        return CentredClippingState(np.zeros(context.n_parameters, dtype=np.float32), super().start(context, random))

    def step(
        self, state: CentredClippingState, buffer: Buffer, weights: NDArray[np.float64]
    ) -> tuple[Aggregate, CentredClippingState]:
        """See `Rule.step`; a buffer without weight leaves the centre where it is."""
        shuffle = copy.deepcopy(state.shuffle)
        rule, notes = self.fit_to(int(np.count_nonzero(weights)))
        mixed = rule.pre_aggregate(buffer.deltas, weights, shuffle)
        if mixed is None:
            return Aggregate(np.zeros_like(state.centre), weights.copy()), CentredClippingState(state.centre, shuffle)
        centre, weighed = self.move_centre(state.centre, mixed.updates, mixed.shares)
        update = centre * np.float32(mixed.mass)
        return Aggregate(update, mixed.mass * (weighed @ mixed.composition), notes), CentredClippingState(
            centre, shuffle
        )
