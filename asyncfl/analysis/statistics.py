"""Means over seeds and their 95 % intervals, as tables and figures show them; claims are judged by `evidence`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

LEVEL = 0.95


def convention(seeds: int) -> str:
    """What numbers over `seeds` seeds mean, wherever they are shown: in figures, tables and captions alike."""
    if seeds < 2:
        return f"value of n = {seeds} seed, which tells no interval (–)"
    said = f"mean ± half of the 95 % t interval over n = {seeds} seeds"
    if seeds > 2:
        return said
    return f"{said}; with two that is {half_width(np.array([-1.0, 1.0])):.1f} times half their difference"


def half_width(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Half the width of the 95 % t interval of the mean over the last axis.

    x: (..., n_seeds), finite, at least two seeds.
    """
    from scipy.special import stdtrit

    n = x.shape[-1]
    return np.asarray(stdtrit(n - 1, 0.5 + LEVEL / 2) * x.std(axis=-1, ddof=1) / np.sqrt(n))
