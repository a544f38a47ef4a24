"""A little clean data on the server decides who may say what the majority is.

Without a root set the majority of updates is taken for honest, which needs fewer than half of the clients to attack.
With one, only updates that go downhill on it vote; it arbitrates and never scores, because a hundred samples are too
few to judge a single update by.
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


def voters(
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
