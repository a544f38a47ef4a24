"""DnC, divide and conquer: leaves out the updates that stand out along the direction in which they differ most."""

import copy
import math
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from asyncfl.base.arrays import Bools, Floats, Ints, Vector
from asyncfl.base.errors import Fault
from asyncfl.base.quantities import MeasuredIn
from asyncfl.defences.attacker_count import AttackerCount
from asyncfl.defences.buffer import Buffer, DefenceContext
from asyncfl.defences.robust_rule import weighted_sum
from asyncfl.defences.rule import Aggregate, Rule, present


class Dnc(Rule, AttackerCount):
    """Mean of the updates that do not stand out along the top singular vector of the centred updates.

    In each iteration `coordinates` parameters are drawn; of the updates in these, less their mean, v is the right
    singular vector of the largest singular value, and the `filtered` f updates of largest <update - mean, v>^2 are left
    out. The mean is of those that are left in every iteration; if there are none, of those of the first.

    Use it if attackers agree on one direction. Updates that attackers spread over many directions stand out less than
    honest ones that differ. Weights do not enter the selection, but the mean. Source: Shejwalkar and Houmansadr 2021;
    its f is known, and so are its one iteration, 10,000 coordinates and `filtered` 1.
    """

    kind: Literal["dnc"] = "dnc"
    iterations: Annotated[int, Field(ge=1, le=100), MeasuredIn("iterations")] = 1
    """Number of draws of coordinates."""
    coordinates: Annotated[int, Field(ge=1), MeasuredIn("parameters")] = 10_000
    """b: number of parameters that are drawn, at most all."""
    filtered: Annotated[float, Field(gt=0, le=10, allow_inf_nan=False), MeasuredIn("share")] = 1.0
    """c: updates that are left out in an iteration, as a multiple of f."""

    by_theory: ClassVar[tuple[int, int]] = (2, 1)
    computable: ClassVar[tuple[int, int]] = (1, 1)

    def aggregate(self, updates: Vector, weights: Floats) -> Vector:
        """Return the aggregate by all parameters, none drawn."""
        return self._made(updates, weights, None).update

    def weigh(self, updates: Vector, weights: Floats) -> Floats:
        return self._made(updates, weights, None).weights

    def start(self, context: DefenceContext, random: np.random.Generator) -> Any:
        return random

    def step(self, state: Any, buffer: Buffer, weights: Floats) -> tuple[Aggregate, Any]:
        following = copy.deepcopy(state)
        return self._made(buffer.deltas, weights, following), following

    def _made(self, updates: Vector, weights: Floats, random: np.random.Generator | None) -> Aggregate:
        rows = present(updates, weights)
        if not len(rows):
            return Aggregate(np.zeros(updates.shape[1], dtype=updates.dtype), weights.copy())
        kept = rows[self._kept(updates[rows], random)]
        weighed = np.zeros(len(updates))
        weighed[kept] = float(weights.sum()) * weights[kept] / weights[kept].sum()
        return Aggregate(weighted_sum(weighed, updates), weighed, notes=self.count_lowered(len(rows)))

    def _kept(self, updates: Vector, random: np.random.Generator | None) -> Bools:
        """Return which of the updates (n, n_parameters) are in the mean, (n,)."""
        n, parameters = updates.shape
        out = min(math.floor(self.filtered * self.attackers(n) + 0.5), n - 1)
        draws = self.coordinates < parameters and random is not None
        first = kept = np.ones(n, dtype=bool)
        for number in range(self.iterations if draws else 1):
            some = updates
            if draws and random is not None:
                some = updates[:, np.sort(random.choice(parameters, self.coordinates, replace=False))]
            inside = np.ones(n, dtype=bool)
            inside[_outstanding(some, out)] = False
            first = first if number else inside
            kept = kept & inside
        return kept if kept.any() else first

    def faults(self, collected: int) -> Iterator[Fault]:
        yield from self.count_faults(collected)

    def lowered(self, collected: int) -> tuple[str, ...]:
        return self.count_lowered(collected)

    def notes(self, collected: int) -> list[str]:
        return self.count_notes(collected)


def _outstanding(updates: Vector, number: int) -> Ints:
    """Return the rows of the `number` updates (n, d) that are farthest from the mean along the top singular vector."""
    # Length 1 of the longest: squares of float32 may overflow.
    longest = float(np.abs(updates).max(initial=0.0)) or 1.0
    centred = updates.astype(np.float64) / longest
    centred -= centred.mean(axis=0)
    # The products with it are the top eigenvector of the products of the rows with each other, times a number.
    along = np.linalg.eigh(centred @ centred.T)[1][:, -1]
    return np.argsort(-(along**2), kind="stable")[:number]
