"""Adam at the server of an asynchronous federation (FADAS)."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from asyncfl.algorithms.adaptive_server import AdamSquares
from asyncfl.algorithms.algorithm import AcceptedUpdates, ServerState
from asyncfl.base.arrays import Vector
from asyncfl.base.quantities import MeasuredIn


class Fadas(AdamSquares):
    """Adam at an asynchronous server, with its learning rate lowered by stale updates.

    v enters as the largest so far (AMSGrad), and v is 0 at first. With T the largest staleness of the buffer, the
    learning rate is server_lr if T <= delay, else min(server_lr, 1 / T). Source: Wang et al. 2024 (FADAS), algorithm 1
    with its delay-adaptive learning rate.
    """

    kind: Literal["fadas"] = "fadas"
    delay: Annotated[int, Field(ge=0), MeasuredIn("versions")] = 1
    """Largest staleness of a buffer up to which the learning rate is `server_lr`."""
    tau: Annotated[float, Field(gt=0, allow_inf_nan=False), MeasuredIn("1")] = 1e-8
    """epsilon of the paper: smallest divisor of a step, above 0."""

    def server_vectors(self, clients: int) -> float:
        return 3

    def start(self, n_parameters: int, clients: int) -> ServerState:
        return {name: np.zeros(n_parameters, dtype=np.float32) for name in ("mean", "squares", "largest")}

    def divisor(self, before: ServerState, after: dict[str, Vector]) -> tuple[Vector, dict[str, Vector]]:
        largest = np.maximum(before["largest"], after["squares"])
        return largest, {**after, "largest": largest}

    def rate(self, accepted: AcceptedUpdates) -> float:
        oldest = int(accepted.staleness.max())
        return self.server_lr if oldest <= self.delay else min(self.server_lr, 1 / oldest)
