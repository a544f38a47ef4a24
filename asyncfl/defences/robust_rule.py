"""Shared parts of robust rules: checks, pre-aggregation, mass, and buffers that are too short."""

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from asyncfl.base.arrays import Floats, Vector
from asyncfl.base.component import choice
from asyncfl.base.errors import Fault
from asyncfl.defences.attacker_count import AttackerCount
from asyncfl.defences.buffer import Buffer, DefenceContext
from asyncfl.defences.clipping import AdaptiveClipping, Clipping
from asyncfl.defences.preaggregation import Bucketing, NearestNeighbourMixing, PreAggregation
from asyncfl.defences.rule import Aggregate, Rule, present

AnyPreAggregation: Any = choice(PreAggregation, NearestNeighbourMixing, Bucketing, Clipping, AdaptiveClipping)
"""Annotation of a field that holds a pre-aggregation, chosen by `kind`."""


class RobustRule(Rule):
    """Base class of rules that replace the weighted mean by a robust centre: `aggregate = sum(weights) * centre`."""

    pre: tuple[AnyPreAggregation, ...] = ()
    """Pre-aggregations that are applied to the updates first, in this order."""

    def solve(self, updates: Vector, shares: Floats) -> tuple[Vector, Floats | None]:
        """Return the robust centre (d,), of the same type as the updates, and the weight (n,) of each row in it; None
        in place of weights that differ between parameters. `updates`: (n, d) finite; `shares`: (n,) > 0, weights that
        sum to 1."""
        raise NotImplementedError

    def aggregate(self, updates: Vector, weights: Floats) -> Vector:
        return self._solved(updates, weights, None).update

    def weigh(self, updates: Vector, weights: Floats) -> Floats:
        """Return the weight of each update, see `Rule.weigh`. For rules that select updates they sum to the mass."""
        return self._solved(updates, weights, None).weights

    def start(self, context: DefenceContext, random: np.random.Generator) -> Any:
        return random if self.pre else None

    def step(self, state: Any, buffer: Buffer, weights: Floats) -> tuple[Aggregate, Any]:
        following = copy.deepcopy(state)
        made = self._solved(buffer.deltas, weights, following)
        return replace(made, notes=self.lowered(int(np.count_nonzero(weights)))), following

    def pre_aggregate(
        self, updates: Vector, weights: Floats, random: np.random.Generator | None
    ) -> tuple[Vector, Floats, Floats] | None:
        """Check the updates and pre-aggregate those with a weight; None if there are none.

        Returns the mixed rows (n_mixed, n_parameters), their weights (n_mixed,) > 0, which sum to 1, and the share of
        each update in each row, (n_mixed, n_updates). `random` is advanced; None: buckets in the order of the updates.
        """
        rows = present(updates, weights)
        if not len(rows):
            return None
        mixed = updates if len(rows) == len(updates) else updates[rows]
        shares, composition = weights[rows] / float(weights.sum()), np.eye(len(updates))[rows]
        for pre in self.pre:
            mixing = pre.mix(mixed, shares, random)
            shares = pre.share_out(mixing, shares)
            mixed, composition = _mixed(mixing, mixed), mixing @ composition
        return mixed, shares, composition

    def _solved(self, updates: Vector, weights: Floats, random: np.random.Generator | None) -> Aggregate:
        """Return the sum of the weights times the centre; 0 if no update has a weight."""
        found = self.pre_aggregate(updates, weights, random)
        if found is None:
            return Aggregate(np.zeros(updates.shape[1], dtype=updates.dtype), weights.copy())
        mixed, shares, composition = found
        centre, used = self.solve(mixed, shares)
        mass = float(weights.sum())
        weighed = weights.copy() if used is None else mass * (used @ composition)
        return Aggregate(np.asarray(centre * updates.dtype.type(mass)), weighed)

    def lowered(self, collected: int) -> tuple[str, ...]:
        notes: tuple[str, ...] = ()
        for pre in self.pre:
            notes += pre.lowered(collected)
            collected = pre.rows(collected)
        return notes

    def rows(self, collected: int) -> int:
        """Return the number of rows after pre-aggregation of `collected` updates."""
        for pre in self.pre:
            collected = pre.rows(collected)
        return collected

    def faults(self, collected: int) -> Iterator[Fault]:
        for pre in self.pre:
            yield from (fault.under("pre") for fault in pre.faults(collected))
            collected = pre.rows(collected)


class CountingRule(RobustRule, AttackerCount):
    """Base class of robust rules that tolerate a given number of attackers."""

    @property
    def poisoned(self) -> float:
        """Largest share of rows that contain poison after pre-aggregation."""
        share = self.expected_share
        for pre in self.pre:
            share = pre.poisoned_share(share)
        return share

    def lowered(self, collected: int) -> tuple[str, ...]:
        return super().lowered(collected) + self.count_lowered(self.rows(collected))

    def faults(self, collected: int) -> Iterator[Fault]:
        yield from super().faults(collected)
        yield from self.count_faults(self.rows(collected))

    def notes(self, collected: int) -> list[str]:
        return self.count_notes(self.rows(collected))


def _mixed(mixing: Floats, rows: Vector) -> Vector:
    """Return `mixing` (m, n) @ `rows` (n, d) in the rows' type, without the product where rows are only shortened."""
    factors = mixing.diagonal()
    if len(mixing) != len(rows) or np.count_nonzero(mixing) != np.count_nonzero(factors):
        return np.asarray(mixing.astype(rows.dtype) @ rows)
    return rows if (factors == 1).all() else np.asarray(rows * factors.astype(rows.dtype)[:, None])


FAINT = 1e-30
"""Smallest coefficient used in float32. Smaller ones belong to huge updates that were scaled down."""


def weighted_sum(coefficients: Floats, updates: Vector) -> Vector:
    """Return the sum of the rows of `updates` (n, d) times `coefficients` (n,), as (d,) of the updates' type. Rows with
    coefficient 0 are skipped, even if they are not finite."""
    faint = (coefficients != 0) & (np.abs(coefficients) < FAINT)
    rows = np.flatnonzero(np.where(faint, 0, coefficients))
    if len(rows) == len(updates):
        return np.asarray(coefficients.astype(updates.dtype) @ updates)
    total = np.asarray(coefficients[rows].astype(updates.dtype) @ updates[rows])
    for row in np.flatnonzero(faint):
        total += (coefficients[row] * updates[row].astype(np.float64)).astype(updates.dtype)
    return total
