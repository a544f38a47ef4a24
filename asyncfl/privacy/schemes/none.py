"""No privacy: nothing is clipped and no noise is added."""

from __future__ import annotations

import math
from typing import Literal

from asyncfl.privacy.accounting.gaussian import analytic_multiplier
from asyncfl.privacy.scheme import Scheme
from asyncfl.privacy.schemes.dp_fedavg import DpFedAvg

DELTA = 1e-5
LEAST_NORM = 1e-30
"""Clip norm for an update of zeros, because a clip norm must be positive."""


class NoPrivacy(Scheme):
    """Uploads and published models without clipping and noise."""

    kind: Literal["none"] = "none"

    @property
    def off(self) -> bool:
        return True

    def with_epsilon(self, epsilon: float, epochs: int, length: float) -> tuple[Scheme, dict[str, float]]:
        """Return DP-FedAvg on the client with a clip norm equal to the length of the update, and delta 1e-5."""
        if math.isinf(epsilon):
            return self, {}
        multiplier = 2 * analytic_multiplier(epsilon, DELTA)
        norm = max(length, LEAST_NORM)
        return DpFedAvg(clip_norm=norm, noise_multiplier=multiplier, neighbours="replace", delta=DELTA), {}
