"""How updates lie to the descent direction of the server's own samples, which decides whose majority counts.

Without a root set the majority of updates is taken for honest, which needs fewer than half of the clients to attack.
With one, the majority is that of the updates that go downhill on it; single ones are not scored by it, because a
hundred samples are too few to tell good from better. Under label skew, where there is no majority direction, it may
tell good from bad: who goes clearly uphill on data of all labels is no honest client of any mixture of them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from asyncfl.messages import Vector


def projections(deltas: Vector, gradient: Vector) -> NDArray[np.float64]:
    """(n,) length of each update along the descent direction of the root set, <delta, -g> / |g|.

    `deltas`: (n, d). `gradient`: (d,) g; all 0 where it vanishes.
    """
    direction = gradient.astype(np.float64)
    length = float(np.linalg.norm(direction))
    if length == 0:
        return np.zeros(len(deltas))
    return np.asarray(-(deltas @ direction) / length)


def downhill(
    along: NDArray[np.float64],
    arrived: NDArray[np.int64],
    *,
    newest: int = 40,
    quantile: float = 0.8,
    share: float = 0.5,
) -> NDArray[np.bool_]:
    """Which updates go downhill on the root set: at least `share` of the `quantile` of the `newest` ones.

    `along`: (n,) from `projections`. `arrived`: (n,) running numbers. Returns (n,) bool; nobody where the quantile is
    not positive, since then nobody goes downhill.
    """
    latest = along[np.argsort(-arrived, kind="stable")[:newest]]
    bar = share * float(np.quantile(latest, quantile))
    return (along >= bar) & (bar > 0)


def uphill(
    along: NDArray[np.float64],
    arrived: NDArray[np.int64],
    *,
    newest: int = 40,
    quantile: float = 0.8,
    strike: float = 1.0,
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which updates go uphill on the root set, and which of them so far that it is no accident.

    Arguments as for `downhill`. Left out is whoever goes uphill at all; struck whoever goes up `strike` times as far as
    the `quantile` of the `newest` goes down. Measured on MNIST under Dirichlet 0.5 with 100 root samples: one in twenty
    honest updates goes uphill, hardly any that far; of label-flipped ones three quarters go uphill, of sign-flipped
    ones nearly all, half of them that far. Nobody is judged where the quantile is not positive.
    """
    latest = along[np.argsort(-arrived, kind="stable")[:newest]]
    usual = float(np.quantile(latest, quantile))
    if usual <= 0:
        nobody = np.zeros(len(along), dtype=bool)
        return nobody, nobody
    return along < 0, along < -strike * usual
