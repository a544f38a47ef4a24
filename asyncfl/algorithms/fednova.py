"""Updates of unequal numbers of steps, normalised (FedNova)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np

from asyncfl.algorithms.algorithm import AcceptedUpdates, Algorithm, Payload, Payloads, ServerState
from asyncfl.base.arrays import Vector
from asyncfl.base.client_state import ClientState
from asyncfl.base.disclosure import Public

STEPS = "steps"
"""Name of what a client uploads: the number of its SGD steps, K_i."""


class FedNova(Algorithm):
    """Each update counts by its direction, not by how many steps its client took.

        w <- w + rate K sum_i p_i (w_i - b_i) / K_i;   K = sum_i p_i K_i / sum_i p_i      p_i: factor of the update

    For SGD without momentum. The number of steps follows from the number of samples, epochs and speed of a client,
    which count as public. With equal steps it is FedAvg. Source: Wang et al. 2020 (FedNova), section 4, with
    a_i = (1, ..., 1).
    """

    kind: Literal["fednova"] = "fednova"
    reads_updates = True
    plain_steps = True

    def payloads(self, n_parameters: int) -> Payloads:
        return Payloads((Payload(STEPS, 1, Public("the number of samples, epochs and speed decide it")),))

    def after_training(
        self, state: ClientState, download: Mapping[str, Vector], base: Vector, trained: Vector, steps: int, lr: float
    ) -> tuple[dict[str, Vector], ClientState]:
        return {STEPS: np.array([steps], dtype=np.float32)}, state

    def apply(self, state: ServerState, step: Vector, accepted: AcceptedUpdates) -> tuple[Vector, ServerState]:
        assert accepted.updates is not None
        steps, factors = accepted.payloads[STEPS][:, 0].astype(np.float64), accepted.weights
        whole = factors.sum()
        if not whole:
            return step, state
        # A liar that claims hardly any steps would have an arbitrarily long update.
        steps = np.maximum(steps, 1)
        scaled = accepted.rate * factors * (factors @ steps / whole) / steps
        return np.asarray(scaled.astype(np.float32) @ accepted.updates), state
