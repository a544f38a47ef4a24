"""An undecided comparison: which way it leans, why it is open, and what an answer would take."""

from __future__ import annotations

import numpy as np

from asyncfl.experiments.evidence.decision import ComparisonAnswer
from asyncfl.experiments.evidence.p_values import fewest_signs
from asyncfl.experiments.evidence.power import clean_runs_needed, seeds_needed, seeds_needed_alike, visible


def leaning(by: ComparisonAnswer) -> str:
    """Return the answer that an undecided comparison leans to; empty where it is within a standard error of neither."""
    t, least = by.reading.t, 1.0 if by.reading.test == "student" else 1e-9
    return "holds" if t >= least else "does not hold" if t <= -least else ""


def why_undecided(by: ComparisonAnswer) -> str:
    """Return `no variance known`, `given up`, `bounded by its margin` or `underpowered`."""
    reading, room = by.reading, by.comparison.room
    if reading.test == "none":
        return "no variance known"
    if by.is_futile:
        return "given up"
    if room is not None and reading.test == "student" and visible(reading.sd, reading.seeds, by.alpha) > room:
        return "bounded by its margin"
    return "underpowered"


def needed(by: ComparisonAnswer) -> float:
    """Return the number of seeds that an answer would take; NaN where more seeds are no way to one."""
    reading, smallest = by.reading, by.comparison.smallest
    if reading.test == "student":
        numbers = [seeds_needed(reading.effect, reading.sd, by.alpha)]
        if smallest is not None:
            numbers.append(seeds_needed_alike(reading.effect, reading.sd, smallest, by.alpha))
        known = [one for one in numbers if one is not None]
        return max(min(known), reading.seeds + 1) if known else np.nan
    if reading.test == "runs":
        return clean_runs_needed(by.comparison.tolerated, by.alpha) if reading.effect == 0 else np.nan
    fewest = fewest_signs(by.alpha)
    return fewest if reading.seeds < fewest else np.nan
