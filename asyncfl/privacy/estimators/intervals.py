"""Exact confidence bounds on a probability from a count of successes (Clopper, Pearson 1934)."""

from __future__ import annotations


def upper_bound(successes: int, trials: int, level: float) -> float:
    """Return an upper confidence bound, 0..1, that fails with probability at most `level`.

    `successes` of `trials`; one-sided. Source: Clopper, Pearson 1934, as quantiles of beta distributions.
    """
    from scipy.stats import beta

    return 1.0 if successes >= trials else float(beta.ppf(1 - level, successes + 1, trials - successes))


def lower_bound(successes: int, trials: int, level: float) -> float:
    """Return a lower confidence bound, 0..1, that fails with probability at most `level`. Arguments as in
    `upper_bound`."""
    return 1.0 - upper_bound(trials - successes, trials, level)


def interval(successes: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return the two-sided exact confidence interval from `successes` of `trials`, with half of the error on each
    side."""
    level = (1 - confidence) / 2
    return lower_bound(successes, trials, level), upper_bound(successes, trials, level)
