"""Distance of an aggregate from the mean of the honest updates of its buffer, and the spread of these updates.

Let h be the weighted mean of the honest updates, s their weighted mean squared distance to h, and a the attackers'
share of the weight. A rule F is robust with kappa if |F(x) - h|^2 <= kappa s for all attackers with that share (Allouah
et al. 2023). No rule that does not know the attackers has kappa < a / (1 - 2 a): let updates of weight a be at 1 and
all others at 0. If those at 1 are the attackers, s = 0 and F must be 0. But they may be honest, with attackers of
weight a among those at 0: then h = a / (1 - a), s = a (1 - 2 a) / (1 - a)^2, and the squared distance of 0 to h is a /
(1 - 2 a) times s. The simulation knows the attackers; the server does not.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.instrument import Instrument
from asyncfl.base.tables import AggregateColumns
from asyncfl.client import Attackers
from asyncfl.defences import Buffer, Verdict
from asyncfl.protocol import Protocol
from asyncfl.protocol.model_step import ModelStep

NOT_MEASURED = dict.fromkeys(AggregateColumns.model_fields, math.nan)
"""Columns of a version without an aggregated buffer."""


class AggregateErrors(Instrument):
    """Instrument that measures the error of each aggregation."""

    def __init__(self, protocol: Protocol, attackers: Attackers | None) -> None:
        self.protocol = protocol
        self.attackers = attackers
        self._found: dict[int, dict[str, float]] = {}  # version -> its columns

    def aggregated(self, buffer: Buffer, tasks: tuple[int, ...], verdict: Verdict, step: ModelStep) -> None:
        """Measure the error of an aggregate and store it for `columns`."""
        bad = np.zeros(len(tasks), dtype=bool)
        if self.attackers is not None:
            bad[:] = self.attackers.malicious_among(tasks, buffer.clients.tolist())
        weights, kept = self._factors(buffer, np.arange(len(buffer))), np.flatnonzero(~verdict.flagged)
        factors = self._factors(buffer, kept)
        if verdict.weights is not None:
            factors *= verdict.weights[kept]
        # Staleness or few updates shorten the step without changing the mean.
        mass = self.protocol.rate * float(factors.sum())
        moved = step.model.astype(np.float64) - buffer.current
        if verdict.correction is not None:
            # The correction of earlier versions does not belong to this buffer.
            moved -= verdict.correction
        moved /= mass or 1.0
        self._found[buffer.version + 1] = aggregate_error(buffer.deltas, weights, bad, moved)

    def columns(self, version: int) -> dict[str, float]:
        """Return the columns of the table of rounds for that version, and forget them; NaN if nothing was
        aggregated."""
        return self._found.pop(version, NOT_MEASURED)

    def _factors(self, buffer: Buffer, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        if not len(rows):
            return np.zeros(0)
        work = None if buffer.work is None else buffer.work[rows]
        return self.protocol.factors(buffer.samples[rows], buffer.staleness[rows], work)


def aggregate_error(
    updates: NDArray[np.floating],
    weights: NDArray[np.float64],
    attackers: NDArray[np.bool_],
    aggregate: NDArray[np.float64],
) -> dict[str, float]:
    """Compute the columns of `AggregateColumns`: squared error, spread of the honest updates, attackers' share of the
    weight.

    `updates`: (n, d); `weights`: (n,) >= 0; `attackers`: (n,) bool; `aggregate`: (d,). NaN without honest weight.
    """
    total, honest = float(weights.sum()), np.flatnonzero(~attackers)
    theirs = float(weights[honest].sum())
    if theirs <= 0:
        return {**NOT_MEASURED, "attackers_weight": 1.0 if total > 0 else math.nan}
    shares = weights[honest] / theirs
    mean = np.zeros(len(aggregate))
    for share, row in zip(shares, honest, strict=True):
        mean += share * updates[row]
    spread = sum(share * _squared(updates[row] - mean) for share, row in zip(shares, honest, strict=True))
    found = (_squared(aggregate - mean), float(spread), 1 - theirs / total)
    return dict(zip(AggregateColumns.model_fields, found, strict=True))


def _squared(vector: NDArray[np.float64]) -> float:
    return float(vector @ vector)
