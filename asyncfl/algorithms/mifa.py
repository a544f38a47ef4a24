"""The latest update of every client, also of those that are away (MIFA)."""

from __future__ import annotations

from typing import Literal

import numpy as np

from asyncfl.algorithms.algorithm import AcceptedUpdates, Algorithm, ServerState
from asyncfl.base.arrays import Vector


class Mifa(Algorithm):
    """Each version adds the mean of the latest update of every client: w <- w + rate / N sum_i G_i.

    The server keeps G_i of all clients, one vector of n_parameters each. Clients that were never heard are left out of
    the mean (N: those that were): the paper has all of them in the first round. With all clients in each round it is
    FedAvg with equal factors. Source: Gu et al. 2021, algorithm 1.
    """

    kind: Literal["mifa"] = "mifa"
    reads_updates = True

    def server_vectors(self, clients: int) -> float:
        return clients + 1

    def start(self, n_parameters: int, clients: int) -> ServerState:
        return {"latest": {}, "sum": np.zeros(n_parameters, dtype=np.float64)}

    def apply(self, state: ServerState, step: Vector, accepted: AcceptedUpdates) -> tuple[Vector, ServerState]:
        assert accepted.updates is not None
        latest, summed = dict(state["latest"]), state["sum"].copy()
        for client, update in zip(accepted.clients.tolist(), accepted.updates, strict=True):
            summed += update
            if client in latest:
                summed -= latest[client]
            latest[client] = update.copy()
        made = np.asarray(accepted.rate / len(latest) * summed, dtype=np.float32)
        return made, {"latest": latest, "sum": summed}
