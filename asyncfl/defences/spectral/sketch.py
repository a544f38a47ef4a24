"""Random projections of updates to fewer numbers, which keep inner products on average.

Count sketch (Charikar, Chen and Farach-Colton 2004): every parameter is added, with a random sign, to one of `length`
random positions. <Sx, Sy> has mean <x, y> and variance at most (|x|^2 |y|^2 + <x, y>^2) / length. Positions and signs
are secret to the server. Since noise makes updates long, this variance soon hides the signals: use the whole bank if it
fits in memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.messages import Vector


@dataclass(frozen=True)
class Sketch:
    """A random linear map from parameters to `length` numbers."""

    places: NDArray[np.int64]
    """(n_parameters,) positions, 0..length-1."""
    signs: NDArray[np.float32]
    """(n_parameters,) 1 or -1."""
    length: int

    def __call__(self, updates: Vector) -> Vector:
        """Return the sketches (n, length) float32 of `updates` (n, n_parameters)."""
        out = np.empty((len(updates), self.length), dtype=np.float32)
        for row, update in enumerate(updates):
            sums = np.bincount(self.places, weights=update * self.signs, minlength=self.length)
            with np.errstate(over="ignore"):
                out[row] = sums
        return out


def draw_sketch(n_parameters: int, length: int, random: np.random.Generator) -> Sketch:
    """Return a sketch with positions and signs drawn from `random`; `length`: numbers per sketched update."""
    signs = random.integers(0, 2, n_parameters, dtype=np.int8) * np.float32(2) - np.float32(1)
    return Sketch(random.integers(0, length, n_parameters), signs, length)
