"""Control variates against the drift of clients with different data (SCAFFOLD)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np

from asyncfl.algorithms.algorithm import AcceptedUpdates, Algorithm, Payload, Payloads, ServerState
from asyncfl.base.arrays import Vector
from asyncfl.base.client_state import ClientState
from asyncfl.base.disclosure import PAYLOADS, Leak, Released

CONTROL = "control"
"""Name of the server's control, and of a client's own."""
CHANGE = "control_change"
"""Name of what a client uploads: by how much its control changed."""


class ControlVariates(Algorithm):
    """Base class of SCAFFOLD and its variants, which differ in how the change of a client's control is sent."""

    carries = (CONTROL,)
    plain_steps = True

    def server_vectors(self, clients: int) -> float:
        return 2

    def correction(self, state: ClientState, download: Mapping[str, Vector]) -> Vector:
        own = state.arrays.get(CONTROL)
        return download[CONTROL] if own is None else download[CONTROL] - own

    def after_training(
        self, state: ClientState, download: Mapping[str, Vector], base: Vector, trained: Vector, steps: int, lr: float
    ) -> tuple[dict[str, Vector], ClientState]:
        moved = (base - trained) / np.float32(steps * lr)
        own = state.arrays.get(CONTROL)
        after = moved - download[CONTROL] if own is None else own - download[CONTROL] + moved
        return {CHANGE: after if own is None else after - own}, ClientState({CONTROL: after})

    def start(self, n_parameters: int, clients: int) -> ServerState:
        return {CONTROL: np.zeros(n_parameters, dtype=np.float32), "clients": clients}

    def apply(self, state: ServerState, step: Vector, accepted: AcceptedUpdates) -> tuple[Vector, ServerState]:
        change = accepted.payloads[CHANGE].sum(0) / np.float32(state["clients"])
        return step, {**state, CONTROL: state[CONTROL] + change}

    def download(self, state: ServerState) -> Mapping[str, Vector]:
        return {CONTROL: state[CONTROL]}


class Scaffold(ControlVariates):
    """Each step of client i goes along its gradient + c - c_i: c is the mean gradient of all, c_i the client's own.

        c_i+ = c_i - c + (w - w_i) / (K lr)      K: steps of the task (option II)
        c   <- c + sum over the updates of (c_i+ - c_i) / N      N: clients

    A client's control starts at 0, as the server's. It changes with each of its trainings, the server's with those that
    arrive and are accepted. Both controls depend on data, without noise unless it is drawn during training: with
    `privacy.kind: dp_sgd` it is DP-SCAFFOLD as printed (Noble, Bellet, Dieuleveut 2022, algorithm 1). Source:
    Karimireddy et al. 2020, algorithm 1.
    """

    kind: Literal["scaffold"] = "scaffold"

    def payloads(self, n_parameters: int) -> Payloads:
        leak = Leak(PAYLOADS, Released("noise drawn during training"))
        return Payloads((Payload(CHANGE, n_parameters, leak),), (Payload(CONTROL, n_parameters, leak),))
