"""The losses that budgets follow: of each client the first and the latest, all that the scheme remembers over a run."""

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
    """First and latest loss of each client, and the budget that it has by them."""

    budgets: Sequence[float]
    """Those that clients begin with."""
    budget_after: Callable[[int, float, float], float] | None
    """(client, first loss, latest loss) -> its budget then; None: budgets stay what they were."""
    floor: float
    """Budget of a client of which no loss was finite."""
    norm: float | None
    """L2 norm that updates are clipped to; None: no clipping."""
    first: NDArray[np.float64] = field(init=False)
    """(clients,) first loss that was finite; NaN: none yet."""
    last: NDArray[np.float64] = field(init=False)
    """(clients,) latest loss, infinite where it was not finite; NaN: none yet."""

    def __post_init__(self) -> None:
        self.first, self.last = (np.full(len(self.budgets), np.nan) for _ in range(2))

    def clip_norm(self, norms: NDArray[np.floating]) -> float | None:
        """M, of `gradient` lr M; None where nothing is clipped."""
        return self.norm

    def epsilon(self, client: int, turn: int) -> float | None:
        """The client's budget after the losses so far."""
        if self.budget_after is None or math.isnan(self.last[client]):
            return self.budgets[client]
        if math.isnan(self.first[client]):
            return self.floor
        return self.budget_after(client, float(self.first[client]), float(self.last[client]))

    def record_training(self, contribution: Contribution, loss: float, norm: float) -> None:
        """Remember the loss."""
        client = contribution.client
        if math.isnan(self.first[client]) and math.isfinite(loss):
            self.first[client] = loss
        self.last[client] = loss if math.isfinite(loss) else math.inf
