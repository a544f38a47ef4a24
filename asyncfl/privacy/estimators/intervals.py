"""Exact confidence bounds on a probability from a count of successes (Clopper, Pearson 1934)."""

from __future__ import annotations


def upper_bound(successes: int, trials: int, level: float) -> float:
    """Return a one-sided upper confidence bound, 0..1, that fails with probability at most `level`."""
    from scipy.stats import beta

    return 1.0 if successes >= trials else float(beta.ppf(1 - level, successes + 1, trials - successes))


def lower_bound(successes: int, trials: int, level: float) -> float:
    """Return a one-sided lower confidence bound, 0..1, that fails with probability at most `level`."""
    return 1.0 - upper_bound(trials - successes, trials, level)


def interval(successes: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return the two-sided exact confidence interval, with half of the error on each side."""
    level = (1 - confidence) / 2
    return lower_bound(successes, trials, level), upper_bound(successes, trials, level)
