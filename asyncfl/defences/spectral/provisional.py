"""Provisional verdicts, and corrections of the model if later verdicts reverse them.

With few rows in the bank attackers may be the majority by chance, and while updates are mostly noise clients cannot be
distinguished. Until the gate opens, verdicts leave updates out but strike no client, and each update is stored with its
verdict. At each buffer all clients are judged again with the whole bank, and the next model is corrected.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from asyncfl.base.messages import Bools, Floats, Ints, Vector
from asyncfl.defences.buffer import Buffer
from asyncfl.defences.detector import DefenceContext, Factors

CorrectionKind = Literal["rebuild", "subtract"]


@dataclass(frozen=True)
class ProvisionalBuffer:
    """A buffer with provisional verdicts. Rows are its updates except those that broke a certificate."""

    clients: Ints
    """(n,) senders."""
    samples: Ints
    """(n,) training samples of the senders."""
    staleness: Ints
    """(n,) versions."""
    applied: Bools
    """(n,) whether the update was aggregated."""
    factors: Floats
    """(n,) factor in the aggregate; for an update that was left out, its factor if all had been aggregated."""
    deltas: Vector
    """(n, n_parameters) updates."""
    work: Floats | None = None
    """(n,) share of a task's epochs; None: all are complete."""

    @classmethod
    def of(cls, context: DefenceContext, buffer: Buffer, out: Bools, certified: Bools) -> ProvisionalBuffer:
        """Return the rows of a buffer that are not `certified` (n,) forgeries; `out`: (n,) whether each is left out."""
        factors = context.factors_of(buffer, np.arange(len(buffer))).copy()
        applied = np.flatnonzero(~out)
        factors[applied] = context.factors_of(buffer, applied)
        rows = np.flatnonzero(~certified)
        work = None if buffer.work is None else buffer.work[rows]
        samples, staleness = buffer.samples[rows], buffer.staleness[rows]
        return cls(buffer.clients[rows], samples, staleness, ~out[rows], factors[rows], buffer.deltas[rows], work)


def revise(
    buffers: Iterable[ProvisionalBuffer], left_out: Bools, how: CorrectionKind, factors: Factors
) -> tuple[Vector | None, tuple[ProvisionalBuffer, ...]]:
    """Return the vector to add to the next model so that earlier `buffers` count as if the clients that are now left
    out had been left out then, (n_parameters,) float32 or None if no verdict changed; and the buffers as after that.

    `left_out`: (clients,). `how`: `rebuild` computes the factors of the other updates anew by the server's function
    `factors`, so that their weights rise. `subtract` removes the contributions of updates that are now left out and
    adds those that no longer are, each with its stored factor; a buffer with many attackers then moves the model less.
    """
    total: Vector | None = None
    revised = []
    for buffer in buffers:
        kept = ~left_out[buffer.clients]
        if not np.array_equal(kept, buffer.applied):
            settled = buffer.factors.copy()
            if how == "rebuild" and kept.any():
                work = None if buffer.work is None else buffer.work[kept]
                settled[kept] = factors(buffer.samples[kept], buffer.staleness[kept], work)
            change = np.where(kept, settled, 0.0)
            change[buffer.applied] -= buffer.factors[buffer.applied]
            moved = np.asarray(change.astype(np.float32) @ buffer.deltas)
            total = moved if total is None else total + moved
            buffer = replace(buffer, applied=kept, factors=settled)
        revised.append(buffer)
    return total, tuple(revised)
