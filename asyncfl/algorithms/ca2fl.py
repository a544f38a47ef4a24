"""Cached updates that calibrate a buffer by the clients that are not in it (CA2FL)."""

from __future__ import annotations

from typing import Literal

import numpy as np

from asyncfl.algorithms.algorithm import AcceptedUpdates, Algorithm, ServerState
from asyncfl.base.arrays import Vector


class Ca2fl(Algorithm):
    """A buffer's updates count as differences from their clients' cached ones, and all cached ones are added.

        w <- w + rate (h + sum over the buffer of f_i (u_i - h_i));   h = 1/N sum_i h_i;   then h_i <- u_i

    u_i: the update; f_i: its factor; h_i: the cached update of its client, 0 at first; N: all clients. The server keeps
    one vector of n_parameters for each client. With all clients in each buffer it is FedAvg with equal factors. Source:
    Wang et al. 2024 (CA2FL), algorithm 2.
    """

    kind: Literal["ca2fl"] = "ca2fl"
    reads_updates = True

    def server_vectors(self, clients: int) -> float:
        return clients + 1

    def start(self, n_parameters: int, clients: int) -> ServerState:
        return {"cached": {}, "sum": np.zeros(n_parameters, dtype=np.float64), "clients": clients}

    def apply(self, state: ServerState, step: Vector, accepted: AcceptedUpdates) -> tuple[Vector, ServerState]:
        assert accepted.updates is not None
        before, after, summed = state["cached"], dict(state["cached"]), state["sum"].copy()
        made = summed / state["clients"]
        rows = zip(accepted.clients.tolist(), accepted.weights.tolist(), accepted.updates, strict=True)
        for client, factor, update in rows:
            # Two updates of one client in a buffer are both calibrated by what was cached before it.
            made += factor * (update - before.get(client, 0.0))
            summed += update - after.get(client, 0.0)
            after[client] = update.copy()
        return np.asarray(accepted.rate * made, dtype=np.float32), {**state, "cached": after, "sum": summed}
