"""Exact confidence bounds on a probability from a count of successes (Clopper, Pearson 1934)."""

from __future__ import annotations


def upper_bound(successes: int, trials: int, level: float) -> float:
    """Return a one-sided upper confidence bound, 0..1, that fails with probability at most `level`."""
    from scipy.stats import beta

    return 1.0 if successes >= trials else float(beta.ppf(1 - level, successes + 1, trials - successes))


def lower_bound(successes: int, trials: int, level: float) -> float:
    """Return a one-sided lower confidence bound, 0..1, that fails with probability at most `level`."""
    return 1.0 - upper_bound(trials - successes, trials, level)
