"""Estimates of all claims on one scale.

What decides a claim is an effect against a threshold, in a unit of its own. Its distance from the threshold, counted so
that above 0 speaks for the claim, is divided by the margin that the claim grants, where it grants one, else by the
standard deviation between seeds (of counts: by the share of runs that may break the claim).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

CLIP = 10.0
"""Where pictures end; what lies beyond is drawn there."""


@dataclass(frozen=True)
class Standard:
    """An estimate and its interval, clipped to -10..10; above 0 the claim is true."""

    estimate: float
    low: float
    high: float
    clipped: bool
    """Whether the estimate itself lies beyond."""
    unit: str
    """What 1 is: `margin`, `sd`, `tolerated share`; empty for values without spread."""


def standard(row: Mapping[Hashable, Any]) -> Standard | None:
    """The estimate of a row of the table of claims; None where nothing was compared, or its spread is not known."""
    effect, threshold, direction = (_number(row[name]) for name in ("effect", "threshold", "direction"))
    if math.isnan(direction) or math.isnan(effect):
        return None
    margin, sd = _number(row["margin"]), _number(row["sd"])
    if row["kind"] == "count":
        unit, size = "tolerated share", threshold
    elif margin > 0:
        unit, size = "margin", margin
    elif sd > 0:
        unit, size = "sd", sd
    elif row["kind"] == "deterministic":
        unit, size = "", 0.0
    else:
        return None

    def scaled(value: float) -> float:
        distance = direction * (value - threshold)
        if distance == 0 or math.isnan(distance):
            return 0.0
        return distance / size if size else math.copysign(math.inf, distance)

    low, high = sorted(scaled(_number(row[name])) for name in ("low", "high"))
    at = scaled(effect)
    return Standard(_clipped(at), _clipped(low), _clipped(high), abs(at) > CLIP, unit)


def _clipped(value: float) -> float:
    return max(-CLIP, min(CLIP, value))


def _number(value: Any) -> float:
    return math.nan if value == "" or value is None else float(value)
