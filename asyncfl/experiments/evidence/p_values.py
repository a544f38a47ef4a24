"""Tests of one comparison at one look: how well the numbers fit a false claim, and a true one.

Everywhere `excess` is oriented so that the claim says "above 0". Which test is made follows from the numbers:

`student`  a mean of finite numbers that vary: Student's t
`signs`    infinite numbers (a diverged seed has no size), or numbers that are all the same, so that nothing is known
           of their variance: how many are on the claim's side (the test is one of the median). With n seeds its
           p-value is 2**-n at best: six decide at 2.5 %, seven at the level of three looks
`runs`     counts: how many runs break the claim, against the share that may (exact binomial)
`exact`    values without randomness: a formula, accounting that is the same in every seed

Where a smallest difference of interest is declared, a mean or a median is also tested against both of its ends: an
effect that is shown to lie between them does not matter, whatever its sign.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Seeds = NDArray[np.int64]

RESOLUTION = 1e-6
"""Relative difference up to which two values are the same: the last digits of sums of float32 mean nothing."""


@dataclass(frozen=True)
class Sample:
    """One number per seed."""

    seeds: Seeds
    """(n,) numbers of the seeds, ascending, each once."""
    values: Floats
    """(n,) values; +-inf where the seed diverged or never got there, NaN where it says nothing."""

    def __len__(self) -> int:
        return len(self.seeds)

    @property
    def is_constant(self) -> bool:
        """Whether at least two seeds have the same value, and all of them."""
        x = self.values
        if len(x) < 2 or np.isnan(x).any():
            return False
        return bool((x == x[0]).all() or (np.isfinite(x).all() and np.ptp(x) <= RESOLUTION * np.abs(x).max()))

    def among(self, seeds: Seeds) -> Sample:
        """Return the values of these seeds only."""
        kept = np.isin(self.seeds, seeds)
        return Sample(self.seeds[kept], self.values[kept])


def pair(a: Sample, b: Sample) -> tuple[Sample, Sample]:
    """Return both samples at the seeds at which both have a value."""
    both, of_a, of_b = np.intersect1d(a.seeds, b.seeds, return_indices=True)
    x, y = a.values[of_a], b.values[of_b]
    known = ~(np.isnan(x) | np.isnan(y))
    return Sample(both[known], x[known]), Sample(both[known], y[known])


def excess(larger: Floats, smaller: Floats, by: float, log: bool = False) -> Floats:
    """Return by how much `larger` exceeds `smaller` by more than `by`; exactly 0 where the two are the same.

    larger, smaller: (n,), paired. Two infinite values of one sign tie: neither is better. log: the values are
    logarithms, whose differences are relative already.
    """
    with np.errstate(invalid="ignore"):
        over = np.asarray(larger - smaller - by, dtype=np.float64)
        size = np.ones_like(over) if log else np.maximum(np.maximum(np.abs(larger), np.abs(smaller)), abs(by))
        # where both are infinite nothing is known of their difference but that neither is ahead
        same = larger == smaller
        over[same], size[same] = -by, 1.0 if log else abs(by)
        over[np.isfinite(over) & (np.abs(over) <= RESOLUTION * size)] = 0.0
    return over


Test = Literal["student", "signs", "runs", "exact", "none"]


def fewest_signs(alpha: float) -> int:
    """Return the fewest seeds with which signs alone may decide at a one-sided level `alpha`: 2**-n <= alpha."""
    return math.ceil(-math.log2(alpha))


@dataclass(frozen=True)
class Reading:
    """Result of the test of one comparison at one look."""

    test: Test
    """`none`: too few seeds for any test."""
    seeds: int
    p_holds: float
    """Probability of at least so much for the claim where it is false."""
    p_fails: float
    """Probability of at least so much against the claim where it is true."""
    effect: float
    """Mean excess (signs: median; runs: share of the runs that break the claim)."""
    low: float
    high: float
    """Interval of `effect` that a look's two levels leave."""
    sd: float = np.nan
    """Between seeds; NaN where not known."""
    t: float = np.nan
    """Effect over its standard error; of signs the normal deviate that is as rare."""
    p_above: float = 1.0
    """Probability of at least so much for an effect above `-smallest` where it is at or below; 1 where no smallest
    difference is declared."""
    p_below: float = 1.0
    """Probability of at least so much for an effect below `smallest` where it is at or above."""


def student(excess: Floats, alpha: float) -> Reading:
    """Test finite values that vary by Student's t. excess: (n,), n >= 2."""
    from scipy.special import stdtr, stdtrit  # scipy is slow to import, and reading an experiment needs none of it

    n = len(excess)
    mean, sd = float(excess.mean()), float(excess.std(ddof=1))
    error = sd / np.sqrt(n)
    t, half = mean / error, float(-stdtrit(n - 1, alpha)) * error
    return Reading("student", n, float(stdtr(n - 1, -t)), float(stdtr(n - 1, t)), mean, mean - half, mean + half, sd, t)


def signs(excess: Floats, strict: bool, alpha: float) -> Reading:
    """Test the median by signs, exactly, with its interval between two of the values.

    excess: (n,), +-inf allowed. strict: a tie speaks against the claim, else for it.
    Nothing follows from fewer seeds than `fewest_signs`.
    """
    from scipy.special import bdtr

    n = len(excess)
    if n == 0:
        return Reading("none", 0, 1.0, 1.0, np.nan, -np.inf, np.inf, np.nan, 0.0)
    with np.errstate(invalid="ignore"):
        middle = float(np.median(excess))  # NaN between two infinities of different signs
    kept = int((excess > 0).sum() if strict else (excess >= 0).sum())
    t = float((2 * kept - n) / np.sqrt(n))
    if n < fewest_signs(alpha):
        return Reading("none", n, 1.0, 1.0, middle, -np.inf, np.inf, np.nan, t)
    p_holds, p_fails = (float(bdtr(n - k, n, 0.5)) for k in (kept, n - kept))
    # the largest number of values that may lie beyond each limit
    beyond = max((k for k in range(n // 2) if bdtr(k, n, 0.5) <= alpha), default=-1)
    ordered = np.sort(excess)
    low, high = (-np.inf, np.inf) if beyond < 0 else (float(ordered[beyond]), float(ordered[n - 1 - beyond]))
    return Reading("signs", n, p_holds, p_fails, middle, low, high, np.nan, t)


def runs(broken: int, n: int, tolerated: float, alpha: float) -> Reading:
    """Test exactly that at most a share `tolerated` of `n` runs breaks the claim; Clopper and Pearson's interval."""
    from scipy.special import bdtr, bdtrc, betaincinv

    p_holds, p_fails = float(bdtr(broken, n, tolerated)), 1.0 if broken == 0 else float(bdtrc(broken - 1, n, tolerated))
    low = 0.0 if broken == 0 else float(betaincinv(broken, n - broken + 1, alpha))
    high = 1.0 if broken == n else float(betaincinv(broken + 1, n - broken, 1 - alpha))
    share = broken / n
    t = (tolerated - share) / np.sqrt(tolerated * (1 - tolerated) / n)
    return Reading("runs", n, p_holds, p_fails, share, low, high, np.nan, float(t))


def exact(excess: Floats, strict: bool) -> Reading:
    """Compare values without randomness with 0. excess: (n,), n >= 1, all the same."""
    value = float(excess[0])
    holds = value > 0 if strict else value >= 0
    t = np.inf if holds else -np.inf
    return Reading("exact", len(excess), 1.0 - holds, float(holds), value, value, value, 0.0, t)


def with_region(reading: Reading, excess: Floats, smallest: float) -> Reading:
    """Add the p-values of two one-sided tests: that the effect is above `-smallest`, and that it is below `smallest`.

    Where both are small the whole interval of the effect lies within the region of practical equivalence. The tests
    are those of the reading, on the same values. excess: (n,), what the reading was made of.
    Source: Schuirmann 1987 (A comparison of the two one-sided tests procedure and the power approach).
    """
    n = reading.seeds
    if reading.test == "student":
        from scipy.special import stdtr

        error = reading.sd / np.sqrt(n)
        above, below = (float(stdtr(n - 1, -(smallest + side) / error)) for side in (reading.effect, -reading.effect))
    elif reading.test == "signs":
        from scipy.special import bdtr

        above, below = (float(bdtr(n - int((x > -smallest).sum()), n, 0.5)) for x in (excess, -excess))
    else:
        return reading
    return replace(reading, p_above=above, p_below=below)


def q_values(p: ArrayLike) -> Floats:
    """Return for each p-value (n,) the expected share of false ones among all that are as small. NaN stays NaN."""
    p = np.asarray(p, dtype=np.float64)
    q = np.full_like(p, np.nan)
    known = np.flatnonzero(~np.isnan(p))
    order = known[np.argsort(p[known], kind="stable")]
    ranked = p[order] * len(order) / np.arange(1, len(order) + 1)
    q[order] = np.minimum(1.0, np.minimum.accumulate(ranked[::-1])[::-1])
    return q
