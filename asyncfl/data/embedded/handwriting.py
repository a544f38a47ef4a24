"""Handwritten digits of scikit-learn (8 x 8, 43 writers), enlarged and distorted, similar to USPS."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from asyncfl.data.embedded import warp
from asyncfl.data.embedded.glyphs import HEIGHT, WINDOW
from asyncfl.data.embedded.style import Style, coverage
from asyncfl.data.embedded.warp import Distortion, Floats, distances
from asyncfl.data.sample_source import Split

_RESOLUTION = 48
_STEEPNESS = 3.0
"""Width in pixels of the transition from full ink to none; the originals have grey levels, not outlines."""
_TEST_SHARE = 0.2


@dataclass(frozen=True)
class Handwriting(Style):
    """Grey images of handwritten digits. Training never uses the originals of the test split (the last fifth of each
    class)."""

    distortion: Distortion
    side: int = 16

    draws = 1 + warp.DRAWS

    def render(self, labels: NDArray[np.int64], draws: Floats, split: Split) -> NDArray[np.uint8]:
        maps, starts = _originals()
        counts = np.diff(starts)[labels]
        training = np.round(counts * (1 - _TEST_SHARE))
        first, many = (0, training) if split == "train" else (training, counts - training)
        chosen = (starts[labels] + first + np.floor(draws[:, 0] * many)).astype(np.int64)
        covered = coverage(distances(maps, chosen, self.side, self.distortion, draws[:, 1:]), _STEEPNESS)
        return (255 * covered).astype(np.uint8).reshape(-1, self.side, self.side)


@lru_cache(maxsize=1)
def _originals() -> tuple[Floats, NDArray[np.int64]]:
    """Return maps like those of fonts, sorted by class, and the start of each class (the last entry: the total)."""
    from scipy.ndimage import zoom
    from sklearn.datasets import load_digits

    digits = load_digits()
    order = np.argsort(digits.target, kind="stable")
    images = digits.images[order] / 16.0
    side = round(_RESOLUTION * 1.15 * HEIGHT / WINDOW)
    enlarged = zoom(images, (1, side / 8, side / 8), order=1, grid_mode=True, mode="nearest")
    maps = np.full((len(images), _RESOLUTION, _RESOLUTION), -_STEEPNESS, np.float32)
    edge = (_RESOLUTION - side) // 2
    maps[:, edge : edge + side, edge : edge + side] = (enlarged - 0.5) * _STEEPNESS
    starts = np.searchsorted(digits.target[order], np.arange(11)).astype(np.int64)
    return maps, starts
