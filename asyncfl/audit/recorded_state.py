"""What an imitated upload keeps of the real one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from asyncfl.privacy import State


@dataclass(frozen=True)
class RecordedState(State):
    """Clips to the norm, and draws noise for the budget, that the imitated upload had; it learns nothing."""

    norm: float | None
    budget: float | None

    def clip_norm(self, norms: NDArray[np.floating]) -> float | None:
        """That norm."""
        return self.norm

    def epsilon(self, client: int, turn: int) -> float | None:
        """That budget."""
        return self.budget
