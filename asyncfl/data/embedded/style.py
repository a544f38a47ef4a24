"""What a style of stand-ins is: from labels and uniform draws to images.

A style takes a fixed number of draws per sample, so a sample depends on nothing but its label and its own draws.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from asyncfl.data.embedded.warp import Floats
from asyncfl.data.sample_source import Split


class Style(ABC):
    """How samples are drawn: from `draws` uniform numbers each, in `classes` classes."""

    @property
    def classes(self) -> int:
        """How many classes it draws."""
        return 10

    draws: int
    """Uniform draws per sample."""

    @abstractmethod
    def render(self, labels: NDArray[np.int64], draws: Floats, split: Split) -> NDArray[np.uint8]:
        """(n, height, width[, 3]) images of the `labels`, from `draws` (n, self.draws) in 0..1."""


def between(low: float, high: float, draws: Floats) -> Floats:
    """Uniform draws 0..1 stretched to low..high."""
    return low + (high - low) * draws


def coverage(distances: Floats, softness: float | Floats) -> Floats:
    """Share of each pixel that a stroke covers, 0..1: a ramp `softness` pixels wide over the outline. Works in place.

    distances: (n, pixels) from `warp.distances`. softness: a number, or (n, 1).
    """
    distances /= softness
    distances += 0.5
    return np.clip(distances, 0.0, 1.0, out=distances)
