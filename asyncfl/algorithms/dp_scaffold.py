"""Control variates that privacy schemes with noise on updates cover, too (DP-SCAFFOLD)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np

from asyncfl.algorithms.algorithm import Payload, Payloads
from asyncfl.algorithms.scaffold import CHANGE, CONTROL, ControlVariates
from asyncfl.base.arrays import Vector
from asyncfl.base.client_state import ClientState
from asyncfl.base.disclosure import Released


class DpScaffold(ControlVariates):
    """SCAFFOLD whose client uploads the change of its control as a function of its update u after clipping and noise.

        c_i+ - c_i = -c - u / (K lr)      as in SCAFFOLD, where u is w_i - w

    So the change tells the server nothing but what the update tells, and needs no noise or budget of its own. The
    client's own control c_i stays exact and is never sent. The paper's algorithm 1 draws the noise at each step: that
    is this algorithm with `privacy.kind: dp_sgd`; noise on whole updates (`dp_fedavg`, ...) is ours. Without a privacy
    scheme it is SCAFFOLD. Source: Noble, Bellet, Dieuleveut 2022, algorithm 1.
    """

    kind: Literal["dp_scaffold"] = "dp_scaffold"

    def payloads(self, n_parameters: int) -> Payloads:
        change = Payload(CHANGE, n_parameters, Released("noise of the update"), of_update=True)
        return Payloads((change,), (Payload(CONTROL, n_parameters, Released("noise of the updates")),))

    def after_training(
        self, state: ClientState, download: Mapping[str, Vector], base: Vector, trained: Vector, steps: int, lr: float
    ) -> tuple[dict[str, Vector], ClientState]:
        return {}, super().after_training(state, download, base, trained, steps, lr)[1]

    def from_update(
        self, download: Mapping[str, Vector], base: Vector, sent: Vector, steps: int, lr: float
    ) -> dict[str, Vector]:
        return {CHANGE: (base - sent) / np.float32(steps * lr) - download[CONTROL]}
