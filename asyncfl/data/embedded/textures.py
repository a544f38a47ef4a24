"""Backgrounds: patches of the two photographs that come with scikit-learn."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from asyncfl.data.embedded.glyphs import Floats

DRAWS = 5
"""Uniform random numbers per patch."""


def patches(side: int, draws: Floats) -> Floats:
    """Cut patches (n, side * side, 3), 0..1, from the photographs, half of them mirrored, half at half the
    resolution."""
    photographs = _photographs()
    many, height, width, _ = photographs.shape
    photograph, step = (draws[:, 0] * many).astype(np.int64), 1 + (draws[:, 1] * 2).astype(np.int64)
    top, left = ((draws[:, 2 + axis] * (size - 2 * side)).astype(np.int64) for axis, size in ((0, height), (1, width)))
    run = np.arange(side)
    rows, columns = (start[:, None] + step[:, None] * run for start in (top, left))
    columns = np.where(draws[:, 4, None] < 0.5, columns, columns[:, ::-1])
    bytes_ = photographs[photograph[:, None, None], rows[:, :, None], columns[:, None, :]]
    found: Floats = bytes_.reshape(len(draws), side * side, 3) / np.float32(255)
    return found


@lru_cache(maxsize=1)
def _photographs() -> NDArray[np.uint8]:
    """Return the photographs (2, 427, 640, 3)."""
    from sklearn.datasets import load_sample_images

    return np.stack(load_sample_images().images)
