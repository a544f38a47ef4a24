"""Intervals over seeds.

A cell is repeated over seeds, and two cells with the same seed share data and streams, so differences are taken seed by
seed (paired) before their mean is judged by Student's t at 95 %. A diverged seed counts as infinitely bad: then no t
interval exists and only the signs of the differences speak.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

LEVEL = 0.95
DECISIVE_SEEDS = 5
"""With fewer seeds a verdict is provisional."""


@dataclass(frozen=True)
class Interval:
    """A mean over seeds and its 95 % interval; `low` and `high` are infinite where one seed cannot tell."""

    mean: float
    low: float
    high: float
    seeds: int

    @property
    def above_zero(self) -> bool:
        """Whether the interval lies above 0."""
        return self.low > 0

    @property
    def below_zero(self) -> bool:
        """Whether the interval lies below 0."""
        return self.high < 0

    def scaled(self, factor: float) -> Interval:
        """The interval times -1 or +1."""
        low, high = sorted((self.low * factor, self.high * factor))
        return Interval(self.mean * factor, low, high, self.seeds)


def t_interval(values: ArrayLike, exact: bool = False) -> Interval:
    """Mean of `values` with its 95 % t interval.

    values: (n_seeds,). NaN entries (both sides diverged) are left out. `exact`: a single value is known without error,
    as that of a formula is. With infinite values the interval is one-sided where all signs agree, else everything.
    """
    x: NDArray[np.float64] = np.asarray(values, dtype=np.float64)
    x = x[~np.isnan(x)]
    n = len(x)
    if n == 0:
        return Interval(np.nan, -np.inf, np.inf, 0)
    if np.isinf(x).any():
        return _by_sign(x)
    mean = float(x.mean())
    if n == 1:
        return Interval(mean, mean, mean, 1) if exact else Interval(mean, -np.inf, np.inf, 1)
    half = float(half_width(x))
    return Interval(mean, mean - half, mean + half, n)


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


def _by_sign(x: NDArray[np.float64]) -> Interval:
    n = len(x)
    if n > 1 and (x > 0).all():
        return Interval(np.inf, float(x.min()), np.inf, n)
    if n > 1 and (x < 0).all():
        return Interval(-np.inf, -np.inf, float(x.max()), n)
    mean = np.nan if (x == np.inf).any() and (x == -np.inf).any() else float(np.sum(x))
    return Interval(mean, -np.inf, np.inf, n)


def paired(a: ArrayLike, b: ArrayLike, exact: bool = False) -> Interval:
    """Interval of the mean of `a - b`, seed by seed; pairs in which both diverged are left out.

    a, b: (n_seeds,), the same seeds in the same order, +-inf where diverged.
    """
    with np.errstate(invalid="ignore"):
        return t_interval(np.subtract(a, b, dtype=np.float64), exact)
