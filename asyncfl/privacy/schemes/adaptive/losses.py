"""First and latest loss of each client, which adaptive budgets follow."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from asyncfl.privacy.context import Contribution
from asyncfl.privacy.scheme import State


@dataclass
class LossHistory(State):
    """First and latest loss of each client, and the budget that follows from them."""

    budgets: Sequence[float]
    """Initial budgets of the clients."""
    budget_after: Callable[[int, float, float], float] | None
    """(client, first loss, latest loss) -> current budget; None: budgets are constant."""
    floor: float
    """Budget of a client whose losses were never finite."""
    norm: float | None
    """L2 norm that updates are clipped to; None: no clipping."""
    first: NDArray[np.float64] = field(init=False)
    """(clients,) first finite loss; NaN: none yet."""
    last: NDArray[np.float64] = field(init=False)
    """(clients,) latest loss, infinite if it was not finite; NaN: none yet."""

    def __post_init__(self) -> None:
        self.first, self.last = (np.full(len(self.budgets), np.nan) for _ in range(2))

    def clip_norm(self, norms: NDArray[np.floating]) -> float | None:
        """Return M (lr M for `upload: gradient`); None without clipping."""
        return self.norm

    def epsilon(self, client: int, turn: int) -> float | None:
        """Return the client's budget after the losses so far."""
        if self.budget_after is None or math.isnan(self.last[client]):
            return self.budgets[client]
        if math.isnan(self.first[client]):
            return self.floor
        return self.budget_after(client, float(self.first[client]), float(self.last[client]))

    def record_training(self, contribution: Contribution, loss: float, norm: float) -> None:
        """Record the loss."""
        client = contribution.client
        if math.isnan(self.first[client]) and math.isfinite(loss):
            self.first[client] = loss
        self.last[client] = loss if math.isfinite(loss) else math.inf
