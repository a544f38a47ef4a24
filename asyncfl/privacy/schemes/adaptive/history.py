"""What the clients' losses were: all that an adaptive scheme remembers over a run."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from asyncfl.privacy.context import Contribution, PrivacyContext
from asyncfl.privacy.scheme import State


@dataclass
class LossHistory(State):
    """First and latest loss of each client."""

    context: PrivacyContext
    first: NDArray[np.float64]
    """(clients,) first loss that was finite; NaN: none yet."""
    last: NDArray[np.float64]
    """(clients,) latest loss, infinite where it was not finite; NaN: none yet."""

    @classmethod
    def empty(cls, context: PrivacyContext) -> LossHistory:
        """No losses yet."""
        return cls(context, np.full(context.clients, np.nan), np.full(context.clients, np.nan))

    def trained(self, contribution: Contribution, loss: float, norm: float) -> None:
        """Remember the loss."""
        client = contribution.client
        if math.isnan(self.first[client]) and math.isfinite(loss):
            self.first[client] = loss
        self.last[client] = loss if math.isfinite(loss) else math.inf
