"""Momentum of the server (FedAvgM)."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from asyncfl.algorithms.algorithm import AcceptedUpdates, Algorithm, ServerState
from asyncfl.base.arrays import Vector
from asyncfl.base.quantities import MeasuredIn


class FedAvgM(Algorithm):
    """The server's steps have momentum: v <- momentum v + step; w <- w + server_lr v.

    `step` is what any rule and protocol make of the updates, after the server's noise: guarantees of published models
    hold as without momentum. With FedBuff it is that protocol's server momentum. Source: Hsu, Qi and Brown 2019
    (FedAvgM), with server_lr = 1 there.
    """

    kind: Literal["fedavgm"] = "fedavgm"
    momentum: Annotated[float, Field(ge=0, lt=1), MeasuredIn("share")] = 0.9
    """Share of the previous step that is added to the next, 0 <= momentum < 1; 0 with server_lr 1: FedAvg."""
    server_lr: Annotated[float, Field(gt=0, allow_inf_nan=False), MeasuredIn("1")] = 1.0
    """Learning rate of the server, above 0."""

    def server_vectors(self, clients: int) -> float:
        return 1

    def start(self, n_parameters: int, clients: int) -> ServerState:
        return {"velocity": np.zeros(n_parameters, dtype=np.float32)}

    def apply(self, state: ServerState, step: Vector, accepted: AcceptedUpdates) -> tuple[Vector, ServerState]:
        velocity = np.float32(self.momentum) * state["velocity"] + step
        return np.float32(self.server_lr) * velocity, {"velocity": velocity}
