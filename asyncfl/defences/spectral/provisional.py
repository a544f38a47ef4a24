"""Corrections of the model for early verdicts that later ones reverse.

With a few rows in the bank attackers may be the majority by chance, and while updates are mostly noise nobody can be
told from anybody. Until the gate opens, verdicts keep updates out but strike nobody, and what was let in or kept out is
remembered, in memory of one update each: at each buffer everybody is judged again by the whole bank, and the next model
is corrected.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from asyncfl.defences.buffer import Buffer
from asyncfl.defences.detector import Factors
from asyncfl.messages import Vector

CorrectionKind = Literal["rebuild", "subtract"]
"""How a model is corrected, see `amends`."""


@dataclass(frozen=True)
class ProvisionalBuffer:
    """A buffer whose verdicts may still be reversed. Rows are its updates without those that broke a certificate."""

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
    work: NDArray[np.float64] | None = None
    """(n,) share of a task's epochs that each comes of; None: all are whole."""

    @classmethod
    def of(
        cls, buffer: Buffer, rows: NDArray[np.int64], applied: NDArray[np.bool_], factors: NDArray[np.float64]
    ) -> ProvisionalBuffer:
        """The `rows` of a buffer; `applied` and `factors`: (rows,) of these."""
        work = None if buffer.work is None else buffer.work[rows]
        samples, staleness = buffer.samples[rows], buffer.staleness[rows]
        return cls(buffer.clients[rows], samples, staleness, applied, factors, buffer.deltas[rows], work)

    def factors_if_kept(self, kept: NDArray[np.bool_], factors: Factors) -> NDArray[np.float64]:
        """Factors of those that are `kept` (n,) if exactly they are aggregated."""
        work = None if self.work is None else self.work[kept]
        return factors(self.samples[kept], self.staleness[kept], work)

    def with_verdicts(self, left_out: NDArray[np.bool_], factors: Factors) -> ProvisionalBuffer:
        """The buffer once the model has been corrected for the clients that are `left_out` (clients,) now."""
        kept = ~left_out[self.clients]
        if np.array_equal(kept, self.applied):
            return self
        changed = self.factors.copy()
        if kept.any():
            changed[kept] = self.factors_if_kept(kept, factors)
        return replace(self, applied=kept, factors=changed)


def covers(seen: int, clients: int, coverage: float) -> bool:
    """Whether `seen` of `clients` that are not banned are enough to open the gate."""
    # The slack keeps 0.8 * 5 = 4 from failing in the last digit.
    return seen >= coverage * clients - 1e-9


def correction_of(
    buffers: Iterable[ProvisionalBuffer], left_out: NDArray[np.bool_], how: CorrectionKind, factors: Factors
) -> Vector | None:
    """Change of the next model that corrects earlier aggregates for the clients that are `left_out` (clients,) now.

    `rebuild`: to what the buffers' aggregates had been without these clients; those that remain count for more, by
    `factors`. `subtract`: less what these gave, plus what the others had been kept from giving, each with its factor: a
    buffer of many attackers moves the model less far. Returns (n_parameters,) float32, None where every verdict stands.
    """
    total: Vector | None = None
    for buffer in buffers:
        kept = ~left_out[buffer.clients]
        if np.array_equal(kept, buffer.applied):
            continue
        change = np.where(kept, buffer.factors, 0.0)
        if how == "rebuild" and kept.any():
            change[kept] = buffer.factors_if_kept(kept, factors)
        change[buffer.applied] -= buffer.factors[buffer.applied]
        moved = np.asarray(change.astype(np.float32) @ buffer.deltas)
        total = moved if total is None else total + moved
    return total
