"""Bright characters on black, as MNIST shows them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from asyncfl.data.embedded.glyphs import atlas
from asyncfl.data.embedded.style import Style, between, coverage
from asyncfl.data.embedded.warp import Distortion, Floats, distances
from asyncfl.data.npz import Split


@dataclass(frozen=True)
class Strokes(Style):
    """Grey images of `characters`, one class each, in one of the `fonts`."""

    characters: str
    fonts: tuple[str, ...]
    distortion: Distortion
    side: int = 28
    softness: float = 1.2
    """Width of the edge between stroke and ground, in pixels."""
    ink: tuple[float, float] = (0.85, 1.0)
    """Darkest and brightest stroke, 0..1."""

    @property
    def draws(self) -> int:
        return 2 + self.distortion.draws

    def render(self, labels: NDArray[np.int64], draws: Floats, split: Split) -> NDArray[np.uint8]:
        glyphs = atlas(self.characters, self.fonts)
        chosen = labels * glyphs.variants + (draws[:, 0] * glyphs.variants).astype(np.int64)
        covered = coverage(distances(glyphs.maps, chosen, self.side, self.distortion, draws[:, 2:]), self.softness)
        covered *= 255 * between(*self.ink, draws[:, 1, None])
        return covered.astype(np.uint8).reshape(-1, self.side, self.side)
