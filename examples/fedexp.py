"""FedExP: the server's learning rate follows from how far the updates are apart.

    lr = max(1, sum_i |u_i|^2 / (2 M (|u|^2 + epsilon)))        u_i: M updates, u: their mean;   w <- w + lr u

Source: Jhunjhunwala, Wang, Joshi 2023 (FedExP), algorithm 1; here the last model counts, not the mean of the last two.
With `algorithm: {kind: "fedexp:FedExp"}` a scenario beside this file uses it.
"""

from typing import Annotated

import numpy as np
from pydantic import Field

from asyncfl.algorithms import AcceptedUpdates, Algorithm
from asyncfl.algorithms.algorithm import ServerState
from asyncfl.base.arrays import Vector


class FedExp(Algorithm):
    """The server's steps are the longer, the more the updates of a version differ from their mean."""

    kind: str = "fedexp:FedExp"
    reads_updates = True
    epsilon: Annotated[float, Field(ge=0)] = 1e-3
    """Number, at least 0, that keeps the learning rate small where the mean of the updates vanishes."""

    def apply(self, state: ServerState, step: Vector, accepted: AcceptedUpdates) -> tuple[Vector, ServerState]:
        assert accepted.updates is not None
        updates = accepted.updates.astype(np.float64)
        shares = accepted.weights / accepted.weights.sum()  # 1/M with equal weights
        squares, mean = np.square(updates).sum(1), shares @ updates
        lr = max(1.0, shares @ squares / (2 * (mean @ mean + self.epsilon)))
        return np.float32(lr) * step, state
