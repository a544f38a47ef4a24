"""What a number of seeds would show of an effect."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from asyncfl.experiments.evidence.p_values import Floats, Reading

POWER = 0.8
MOST_SEEDS = 1000
"""Beyond, a number of seeds is no advice any more."""


def visible(sd: float, seeds: int, alpha: float, power: float = POWER) -> float:
    """Return the smallest distance from the threshold that `seeds` seeds would show with `power` at level `alpha`.

    sd: between seeds, in the effect's unit. NaN where it is not known.
    """
    if seeds < 2 or not np.isfinite(sd):
        return float("nan")
    from scipy.special import nctdtrinc, stdtrit

    needed = nctdtrinc(seeds - 1, 1 - power, -stdtrit(seeds - 1, alpha))
    return float(needed * sd / np.sqrt(seeds))


def seeds_needed(effect: float, sd: float, alpha: float, power: float = POWER) -> int | None:
    """Return the fewest seeds that would show an effect so far from the threshold with `power`; None: over 1,000."""
    if not (np.isfinite(effect) and np.isfinite(sd)) or effect == 0:
        return None
    n = np.arange(2, MOST_SEEDS + 1)
    enough = np.flatnonzero(chance(effect, sd, n, alpha) >= power)
    return int(n[enough[0]]) if len(enough) else None


def seeds_needed_alike(effect: float, sd: float, smallest: float, alpha: float, power: float = POWER) -> int | None:
    """Return the fewest seeds that would show with `power` that such an effect does not matter; None: over 1,000."""
    if not (np.isfinite(sd) and abs(effect) < smallest):
        return None
    n = np.arange(2, MOST_SEEDS + 1)
    both = sum(chance(distance, sd, n, alpha) for distance in (smallest - effect, smallest + effect)) - 1
    enough = np.flatnonzero(both >= power)
    return int(n[enough[0]]) if len(enough) else None


def clean_runs_needed(tolerated: float, alpha: float) -> int:
    """Return the fewest runs that show, if none breaks the claim, that at most a share `tolerated` does."""
    return int(np.ceil(np.log(alpha) / np.log1p(-tolerated)))


def chance(effect: float, sd: float, seeds: ArrayLike, alpha: float) -> Floats:
    """Return the probability that `seeds` seeds show an effect of this size, at a one-sided level `alpha`."""
    from scipy.special import nctdtr, stdtrit

    n = np.asarray(seeds)
    shown = 1 - nctdtr(n - 1, abs(effect) / sd * np.sqrt(n), -stdtrit(n - 1, alpha))
    return np.asarray(np.nan_to_num(shown, nan=1.0))  # so clear that the tail is beyond what a double holds


def may_be_alike(reading: Reading, smallest: float, seeds: int, alpha: float) -> bool:
    """Return whether `seeds` seeds would show that an effect like the measured one does not matter."""
    if reading.test != "student":
        return reading.test == "signs" and abs(reading.effect) < smallest
    from scipy.special import stdtrit

    return bool(abs(reading.effect) - stdtrit(seeds - 1, alpha) * reading.sd / np.sqrt(seeds) < smallest)
