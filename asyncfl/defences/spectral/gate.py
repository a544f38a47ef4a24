"""Early verdicts are provisional: what they got wrong is made good once the majority is known.

With a few rows in the bank attackers may be the majority by chance, and while updates are mostly noise nobody can be
told from anybody. Until the gate opens, verdicts keep updates out but strike nobody, and what was let in or kept out is
remembered, in memory of one update each: at each buffer everybody is judged again by the whole bank, and the next model
is corrected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from asyncfl.messages import Vector

Amends = Literal["rebuild", "subtract"]
"""How a model is corrected, see `amends`."""

Factors: TypeAlias = Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.float64]]
"""(samples, staleness) -> factors of these updates if exactly they are aggregated."""


@dataclass(frozen=True)
class Provisional:
    """A buffer whose verdicts may still change. Rows are its updates without those that broke a certificate."""

    clients: NDArray[np.int64]
    """(n,)."""
    samples: NDArray[np.int64]
    """(n,) of the clients."""
    staleness: NDArray[np.int64]
    """(n,) versions."""
    applied: NDArray[np.bool_]
    """(n,) whether it was let in."""
    factors: NDArray[np.float64]
    """(n,) in the aggregate; of what was kept out, the one it would have had if all had been let in."""
    deltas: Vector
    """(n, n_parameters) what the clients changed."""

    def settled(self, guilty: NDArray[np.bool_], factors: Factors) -> Provisional:
        """The buffer once the model has been amended by `guilty` (clients,)."""
        innocent = ~guilty[self.clients]
        if np.array_equal(innocent, self.applied):
            return self
        changed = self.factors.copy()
        if innocent.any():
            changed[innocent] = factors(self.samples[innocent], self.staleness[innocent])
        return replace(self, applied=innocent, factors=changed)


def covers(seen: int, clients: int, coverage: float) -> bool:
    """Whether `seen` of `clients` that are not banned are enough to open the gate."""
    # The slack keeps 0.8 * 5 = 4 from failing in the last digit.
    return seen >= coverage * clients - 1e-9


def amends(buffers: Iterable[Provisional], guilty: NDArray[np.bool_], how: Amends, factors: Factors) -> Vector | None:
    """What the next model must be changed by, now that it is known who is `guilty` (clients,).

    `rebuild`: to what the buffers' aggregates had been without the guilty; those that remain count for more, by
    `factors`. `subtract`: less what the guilty gave, plus what the innocent had held, each with its factor, so that a
    buffer of many attackers moves the model less far. Returns (n_parameters,) float32, None where every verdict stands.
    """
    total: Vector | None = None
    for buffer in buffers:
        innocent = ~guilty[buffer.clients]
        if np.array_equal(innocent, buffer.applied):
            continue
        change = np.where(innocent, buffer.factors, 0.0)
        if how == "rebuild" and innocent.any():
            change[innocent] = factors(buffer.samples[innocent], buffer.staleness[innocent])
        change[buffer.applied] -= buffer.factors[buffer.applied]
        moved = np.asarray(change.astype(np.float32) @ buffer.deltas)
        total = moved if total is None else total + moved
    return total
