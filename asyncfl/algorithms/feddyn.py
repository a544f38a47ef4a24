"""Dynamic regularisation of clients with different data (FedDyn)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from asyncfl.algorithms.algorithm import AcceptedUpdates, Algorithm, ServerState
from asyncfl.base.arrays import Vector
from asyncfl.base.client_state import ClientState
from asyncfl.base.quantities import MeasuredIn

GRADIENT = "gradient"
"""Name of a client's linear term g_i, the gradient at the end of its last task."""


class FedDyn(Algorithm):
    """Clients minimise their loss - <g_i, w> + alpha / 2 |w - base|^2, so that their optima agree with the common one.

        g_i <- g_i - alpha (w_i - base)
        h   <- h - alpha / N sum over the updates of (w_i - base);   w <- w + step - h / alpha

    Nothing but updates is sent; g_i stays at its client. With a buffer, w + step takes the place of the mean of models,
    and base is the model that was sent. Source: Acar et al. 2021, algorithm 1.
    """

    kind: Literal["feddyn"] = "feddyn"
    carries = (GRADIENT,)
    reads_updates = True
    alpha: Annotated[float, Field(gt=0, allow_inf_nan=False), MeasuredIn("1")] = 0.01
    """Strength of the regularisation, above 0; the paper uses .01 and .1 mostly."""

    @property
    def proximal(self) -> float:
        return self.alpha

    def server_vectors(self, clients: int) -> float:
        return 1

    def correction(self, state: ClientState, download: Mapping[str, Vector]) -> Vector | None:
        own = state.arrays.get(GRADIENT)
        return None if own is None else -own

    def after_training(
        self, state: ClientState, download: Mapping[str, Vector], base: Vector, trained: Vector, steps: int, lr: float
    ) -> tuple[dict[str, Vector], ClientState]:
        pulled = np.float32(self.alpha) * (base - trained)
        own = state.arrays.get(GRADIENT)
        return {}, ClientState({GRADIENT: pulled if own is None else own + pulled})

    def start(self, n_parameters: int, clients: int) -> ServerState:
        return {"h": np.zeros(n_parameters, dtype=np.float32), "clients": clients}

    def apply(self, state: ServerState, step: Vector, accepted: AcceptedUpdates) -> tuple[Vector, ServerState]:
        assert accepted.updates is not None
        alpha = np.float32(self.alpha)
        h = state["h"] - alpha / np.float32(state["clients"]) * accepted.updates.sum(0)
        return step - h / alpha, {**state, "h": h}
