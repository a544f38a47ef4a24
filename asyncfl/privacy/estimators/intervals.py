"""Exact bounds on the probability behind a count of successes (Clopper, Pearson 1934)."""

from __future__ import annotations


def upper_bound(successes: int, trials: int, level: float) -> float:
    """Probability that is exceeded at most in a share `level` of all experiments, 0..1.

    `successes` of `trials`; one-sided. Source: Clopper, Pearson 1934, as quantiles of beta distributions.
    """
    from scipy.stats import beta

    return 1.0 if successes >= trials else float(beta.ppf(1 - level, successes + 1, trials - successes))


def lower_bound(successes: int, trials: int, level: float) -> float:
    """Probability that is undercut at most in a share `level` of all experiments, 0..1; one-sided."""
    return 1.0 - upper_bound(trials - successes, trials, level)


def interval(successes: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """Two-sided exact interval of the probability behind `successes` of `trials`, each side with half of the error."""
    level = (1 - confidence) / 2
    return lower_bound(successes, trials, level), upper_bound(successes, trials, level)
