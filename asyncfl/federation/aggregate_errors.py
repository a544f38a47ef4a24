"""How far an aggregate is from the mean of the honest updates of its buffer, and how far it may have to be.

With f_i > 0 the weights of the updates x_i of a buffer, h the mean of the honest ones and s their mean squared
distance to it, by these weights, and a the attackers' share of the weight, a rule F is robust with kappa if

    |F(x) - h|^2 <= kappa s

whoever the attackers of that share are ((f, kappa)-robustness, Allouah et al. 2023). No rule that does not know who is
who has kappa < a / (1 - 2 a), where some of the updates weigh a together without being all of the attackers, as they do
with equal weights.

Let updates of weight a be at 1 and all others at 0. If those at 1 are the attackers the honest agree, s = 0, and F must
be 0. But they may be honest, and attackers of weight a among those at 0: then h = a / (1 - a), s = a (1 - 2 a) /
(1 - a)^2, and 0 is a / (1 - 2 a) times s away from h. Where attackers have half of the weight, no kappa is finite. With
equal weights that is f / (n - 2 f). Nearest-neighbour mixing comes within a constant factor of it.

The bound is on the worst buffer, not on each: a rule may well do better against some attack. Who remembers what clients
sent before, or has samples of its own, is not bound by it. The simulation knows who attacks; the server does not.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from asyncfl.columns import AggregateColumns
from asyncfl.defences import Buffer, Verdict
from asyncfl.server import Protocol
from asyncfl.server.defence_state import Outcome

NOT_MEASURED = dict.fromkeys(AggregateColumns.model_fields, math.nan)
"""The columns of a version that no buffer was aggregated into."""


class AggregateErrors:
    """Looks on while buffers are aggregated, and measures each."""

    def __init__(self, protocol: Protocol, malicious: Callable[[int, int], bool]) -> None:
        """`malicious`: (task, client) -> whether its update is an attacker's."""
        self.protocol = protocol
        self.malicious = malicious
        self._found: dict[int, dict[str, float]] = {}
        """Version that is made -> its columns."""

    def __call__(self, buffer: Buffer, tasks: tuple[int, ...], verdict: Verdict, outcome: Outcome) -> None:
        """Measure what was made of the buffer of these tasks."""
        attackers = [self.malicious(task, client) for task, client in zip(tasks, buffer.clients.tolist(), strict=True)]
        weights, kept = self._factors(buffer, np.arange(len(buffer))), np.flatnonzero(~verdict.flagged)
        factors = self._factors(buffer, kept)
        if verdict.weights is not None:
            factors *= verdict.weights[kept]
        # What moves the model less, as it is older or fewer, is no other mean.
        mass = self.protocol.rate * float(factors.sum())
        step = outcome.model.astype(np.float64) - buffer.current
        if verdict.correction is not None:
            # What earlier versions are repaired by is not of this buffer.
            step -= verdict.correction
        step /= mass or 1.0
        self._found[buffer.version + 1] = aggregate_error(buffer.deltas, weights, np.array(attackers, dtype=bool), step)

    def columns(self, version: int) -> dict[str, float]:
        """The columns of the table of rounds for that version, told once."""
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
    """Columns of `AggregateColumns`: squared error, spread of the honest, attackers' share of the weight.

    `updates`: (n, d); `weights`: (n,) >= 0; `attackers`: (n,); `aggregate`: (d,). NaN without honest weight.
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
