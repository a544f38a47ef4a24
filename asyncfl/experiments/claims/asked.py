"""What is asked of a comparison, and comparisons of measured values made from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from asyncfl.experiments.evidence.decision import Comparison, Kind
from asyncfl.experiments.evidence.samples import Sample, excess, pair


@dataclass(frozen=True)
class Asked:
    """What is asked of a comparison, and how it is told."""

    about: str
    """What is compared, in words that the effect follows."""
    cells: tuple[dict[str, Any], ...] = ()
    """Axis values of the cells that are read."""
    by: float = 0.0
    """By how much one value must exceed the other."""
    words: str = ""
    """What is asked, in words that follow the effect."""
    strict: bool = True
    """Whether it must exceed it by more than that, not by as much."""
    sign: float = 1.0
    """-1: told as how much worse, or of a threshold, to stay at or below it."""
    room: float | None = None
    """See `Comparison`."""
    tolerated: float = 0.0
    """Of counts: share of runs that may break the claim."""


def exceeds(larger: Sample, smaller: Sample, asked: Asked, kind: Kind, log: bool) -> Comparison:
    """That one value is larger than another, seed by seed. log: the values are logarithms."""
    one, other = pair(larger, smaller)
    return Comparison(
        one.seeds,
        excess(one.values, other.values, asked.by, log),
        asked.about,
        asked.words,
        asked.strict,
        kind,
        threshold=asked.sign * asked.by + 0.0,
        sign=asked.sign,
        room=asked.room,
        cells=asked.cells,
    )


def reaches(x: Sample, threshold: float, asked: Asked, kind: Kind, log: bool) -> Comparison:
    """That a value reaches a threshold, or with `asked.sign` -1 stays at or below it. A value at it does both."""
    known = ~np.isnan(x.values)
    values, limit = x.values[known], np.full(known.sum(), threshold)
    over = excess(values, limit, 0.0, log) if asked.sign > 0 else excess(limit, values, 0.0, log)
    return Comparison(
        x.seeds[known],
        over,
        asked.about,
        asked.words,
        False,
        kind,
        asked.tolerated,
        threshold=threshold,
        sign=asked.sign,
        room=asked.room,
        cells=asked.cells,
    )
