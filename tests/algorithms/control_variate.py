"""A control variate like SCAFFOLD's (Karimireddy et al. 2020, option II), for tests of payloads."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from asyncfl.algorithms import AcceptedUpdates, Algorithm, Payload, Payloads
from asyncfl.base.arrays import Vector
from asyncfl.base.client_state import ClientState
from asyncfl.base.disclosure import PAYLOADS, Leak, Public

CONTROL = "control"
"""Name of the control at a client, and of the one that clients are sent."""


class ControlVariate(Algorithm):
    kind: str = "tests.algorithms.control_variate:ControlVariate"
    carries = ("control",)
    clients: int = 4

    def payloads(self, n_parameters: int) -> Payloads:
        leak = Leak(PAYLOADS, Public("not sent"))
        return Payloads((Payload("change", n_parameters, leak),), (Payload("control", n_parameters, leak),))

    def correction(self, state: ClientState, download: Mapping[str, Vector]) -> Vector:
        own = state.arrays.get("control")
        return download["control"] if own is None else download["control"] - own

    def after_training(
        self, state: ClientState, download: Mapping[str, Vector], base: Vector, trained: Vector, steps: int, lr: float
    ) -> tuple[dict[str, Vector], ClientState]:
        own = state.arrays.get("control", np.zeros_like(base))
        new = own - download["control"] + (base - trained) / np.float32(steps * lr)
        return {"change": new - own}, ClientState({"control": new})

    def start(self, n_parameters: int, clients: int) -> Mapping[str, Any]:
        return {CONTROL: np.zeros(n_parameters, dtype=np.float32)}

    def apply(
        self, state: Mapping[str, Any], step: Vector, accepted: AcceptedUpdates
    ) -> tuple[Vector, Mapping[str, Any]]:
        change = accepted.payloads["change"].sum(0) / np.float32(self.clients)
        return step, {CONTROL: state[CONTROL] + change}

    def download(self, state: Mapping[str, Any]) -> Mapping[str, Vector]:
        return {"control": state["control"]}
