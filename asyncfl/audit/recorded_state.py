"""Scheme state that repeats the clip norm and the budget of a recorded upload."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from asyncfl.privacy import State


@dataclass(frozen=True)
class RecordedState(State):
    """Fixed clip norm and budget of one recorded upload. Nothing is adapted."""

    norm: float | None
    budget: float | None

    def clip_norm(self, norms: NDArray[np.floating]) -> float | None:
        """Return the recorded clip norm."""
        return self.norm

    def epsilon(self, client: int, turn: int) -> float | None:
        """Return the recorded budget."""
        return self.budget
