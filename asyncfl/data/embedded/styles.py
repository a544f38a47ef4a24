"""What the stand-ins look like: one function per style, from uniform draws to images.

A style takes the labels and a fixed number of uniform draws per sample, so a sample depends on nothing but
its own draws.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from asyncfl.data.embedded.glyphs import SLANTED, UPRIGHT, atlas
from asyncfl.data.embedded.warp import Distortion, Floats, distances


class Style(ABC):
    """How samples are drawn: from `draws` uniform numbers each, in `classes` classes."""

    classes: int = 10

    @property
    @abstractmethod
    def draws(self) -> int: ...

    @abstractmethod
    def render(self, labels: NDArray[np.int64], draws: Floats) -> NDArray[np.uint8]:
        """(n, height, width[, 3]) images of the `labels`, from `draws` (n, self.draws) in 0..1."""


@dataclass(frozen=True)
class Strokes(Style):
    """Bright characters on black, grey, as MNIST."""

    characters: str
    fonts: tuple[str, ...]
    distortion: Distortion
    side: int = 28
    softness: float = 1.2
    """Width of the edge between stroke and ground, in pixels."""
    ink: tuple[float, float] = (0.85, 1.0)
    """Brightness of the stroke."""

    @property
    def draws(self) -> int:
        return 2 + self.distortion.draws

    def render(self, labels: NDArray[np.int64], draws: Floats) -> NDArray[np.uint8]:
        glyphs = atlas(self.characters, self.fonts)
        chosen = labels * glyphs.variants + (draws[:, 0] * glyphs.variants).astype(np.int64)
        ink = 255.0 * (self.ink[0] + (self.ink[1] - self.ink[0]) * draws[:, 1])
        coverage = distances(glyphs.maps, chosen, self.side, self.distortion, draws[:, 2:])
        coverage *= (ink / self.softness)[:, None]
        coverage += (ink / 2)[:, None]
        np.clip(coverage, 0, ink[:, None], out=coverage)
        return coverage.astype(np.uint8).reshape(-1, self.side, self.side)


_HANDLED = Distortion(turn=15, shear=0.25, stretch=0.2, scale=(0.8, 1.05), shift=1.5, bend=0.8, width=(-0.6, 1.2))

STYLES: dict[str, Style] = {
    "mnist": Strokes("0123456789", UPRIGHT + SLANTED, _HANDLED),
    "fashion_mnist": Strokes("ABCDEFGHIJ", UPRIGHT + SLANTED, _HANDLED),
}
"""Data set -> what stands in for it."""
