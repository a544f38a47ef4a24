"""Means over seeds and their 95 % intervals, as tables and figures show them; claims are judged by `evidence`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

LEVEL = 0.95
OF_TWO = 12.706
"""Half the 95 % t interval of two seeds over half their difference."""


def convention(seeds: int) -> str:
    """What numbers over `seeds` seeds mean in tables and texts."""
    if seeds < 2:
        return f"value of n = {seeds} seed, which tells no interval (–)"
    said = f"mean ± half of the 95 % t interval over n = {seeds} seeds"
    if seeds > 2:
        return said
    return f"{said}; with two that is {half_width(np.array([-1.0, 1.0])):.1f} times half their difference"


def drawn_convention(fewer: Sequence[int], seeds: int, own: str) -> str:
    """What figures show of `seeds` seeds, and in some cells of `fewer`.

    own: the marks that two seeds' own values have; empty: means are drawn alone.
    """
    others = f", in some cells {' or '.join(map(str, fewer))}" if fewer else ""
    if not own and seeds > 1:
        return f"mean over n = {seeds} seeds{others}"
    if not own or 2 not in (*fewer, seeds):
        return convention(seeds) + others
    wide = f"{own} their own values, as the 95 % t interval is {OF_TWO:.1f} times as wide"
    return f"mean over n = 2 seeds, {wide}" if seeds == 2 else f"{convention(seeds)}{others}, of two {wide}"


def half_width(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Half the width of the 95 % t interval of the mean over the last axis.

    x: (..., n_seeds), finite, at least two seeds.
    """
    from scipy.special import stdtrit

    n = x.shape[-1]
    return np.asarray(stdtrit(n - 1, 0.5 + LEVEL / 2) * x.std(axis=-1, ddof=1) / np.sqrt(n))
