"""What a comparison could have seen, and how many seeds an answer would take (noncentral t)."""

from __future__ import annotations

import numpy as np

POWER = 0.8
MOST_SEEDS = 1000
"""Beyond, a number of seeds is no advice any more."""


def visible(sd: float, seeds: int, alpha: float, power: float = POWER) -> float:
    """Smallest distance from the threshold that `seeds` seeds would show with `power`, at a one-sided level `alpha`.

    sd: between seeds, in the effect's unit. NaN where it is not known.
    """
    if seeds < 2 or not np.isfinite(sd):
        return float("nan")
    from scipy.special import nctdtrinc, stdtrit

    needed = nctdtrinc(seeds - 1, 1 - power, -stdtrit(seeds - 1, alpha))
    return float(needed * sd / np.sqrt(seeds))


def seeds_needed(effect: float, sd: float, alpha: float, power: float = POWER) -> int | None:
    """Fewest seeds with which an effect so far from the threshold would be shown with `power`; None: over 1,000.

    effect: distance from the threshold.
    """
    if not (np.isfinite(effect) and np.isfinite(sd)) or effect == 0:
        return None
    from scipy.special import nctdtr, stdtrit

    n = np.arange(2, MOST_SEEDS + 1)
    shown = 1 - nctdtr(n - 1, abs(effect) / sd * np.sqrt(n), -stdtrit(n - 1, alpha))
    # so clear that the tail is beyond what a double holds
    enough = np.flatnonzero(np.nan_to_num(shown, nan=1.0) >= power)
    return int(n[enough[0]]) if len(enough) else None


def clean_runs_needed(tolerated: float, alpha: float) -> int:
    """Fewest runs that show, without one that breaks the claim, that at most a share `tolerated` does."""
    return int(np.ceil(np.log(alpha) / np.log1p(-tolerated)))


def chance(effect: float, sd: float, seeds: int, alpha: float) -> float:
    """Probability that `seeds` seeds show an effect of this size, at a one-sided level `alpha`."""
    from scipy.special import nctdtr, stdtrit

    shown = 1 - float(nctdtr(seeds - 1, abs(effect) / sd * np.sqrt(seeds), -stdtrit(seeds - 1, alpha)))
    return 1.0 if np.isnan(shown) else shown
