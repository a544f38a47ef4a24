"""Clipping of updates to a maximum L2 norm, also before a rule aggregates them."""

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from asyncfl.base.arrays import Floats, Vector
from asyncfl.base.errors import Fault
from asyncfl.base.quantities import MeasuredIn
from asyncfl.defences.attacker_count import AttackerCount
from asyncfl.defences.distances import norms
from asyncfl.defences.preaggregation import PreAggregation

Radius = Literal["median"] | Annotated[float, Field(gt=0)]


def clipping_factors(lengths: Floats, bound: Radius) -> Floats:
    """Return the factors (n,) in 0..1 that clip `lengths` (n,) to `bound`."""
    limit = float(np.median(lengths)) if bound == "median" else bound
    return np.divide(limit, lengths, out=np.ones_like(lengths), where=lengths > limit)


class Clipping(PreAggregation):
    """Clips each update to an L2 norm of at most `bound`.

    Use it before a robust rule if a bound is known that honest updates keep. Updates get shorter as training goes on,
    and a fixed bound does not: see `adaptive_clipping`. Source: Allouah et al. 2025, static clipping.
    """

    kind: Literal["clipping"] = "clipping"
    bound: Annotated[Radius, MeasuredIn("L2 norm")] = "median"
    """Maximum L2 norm, > 0, in units of the updates; `median`: the median norm of the buffer."""

    def mix(self, updates: Vector, shares: Floats, random: np.random.Generator | None) -> Floats:
        return np.diag(clipping_factors(norms(updates), self.bound))

    def share_out(self, mixing: Floats, shares: Floats) -> Floats:
        return shares


class AdaptiveClipping(PreAggregation, AttackerCount):
    """Clips the k = floor(2 (f / n) (n - f)) longest of n updates to the norm of the next longest (ARC).

    Use it before any robust rule if attackers send long updates, and no bound is known. With f 0 nothing is clipped.
    Source: Allouah et al. 2025, algorithm 2.
    """

    kind: Literal["adaptive_clipping"] = "adaptive_clipping"

    by_theory: ClassVar[tuple[int, int]] = (2, 1)
    computable: ClassVar[tuple[int, int]] = (1, 1)

    def faults(self, collected: int) -> Iterator[Fault]:
        return self.count_faults(collected)

    def lowered(self, collected: int) -> tuple[str, ...]:
        return self.count_lowered(collected)

    def mix(self, updates: Vector, shares: Floats, random: np.random.Generator | None) -> Floats:
        n, lengths = len(updates), norms(updates)
        attackers = self.attackers(n)
        # In whole numbers: rounding of f / n must not lower k.
        clipped = min(2 * attackers * (n - attackers) // n, n - 1)
        bound = float(np.sort(lengths)[n - 1 - clipped])
        return np.diag(clipping_factors(lengths, bound) if bound else (lengths == 0).astype(np.float64))

    def share_out(self, mixing: Floats, shares: Floats) -> Floats:
        return shares
