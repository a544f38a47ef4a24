"""What all claims have: their fields, how a value is read from the grid, and how numbers are put into words.

A claim names a `value` (see `asyncfl.analysis.grid.VALUE`), the axis it speaks about, and what the source states in
words (`says`). Where the experiment has further axes, the claim must be true at each of their combinations, unless
`where` fixes them.

It is judged by comparisons, each an interval over seeds, oriented so that the claim says "above 0". The claim holds if
every interval that it rests on lies above 0, does not hold if one reaches no further than 0 (or, of several ways to be
true, all do), and is not decided otherwise. What ties in every seed is therefore not better.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from pydantic import Field, field_validator

from asyncfl.analysis.columns import TARGETS, unit_of
from asyncfl.analysis.grid import VALUE, Floats, Grid, MissingError, describe, values_of
from asyncfl.analysis.labels import axis_label, value_label
from asyncfl.analysis.statistics import Interval, paired, t_interval
from asyncfl.component import Described
from asyncfl.quantities import SCALES, quantity

LISTED = 8
"""Points of an axis up to which all measured values are written out."""

Answer = Literal["holds", "does not hold", "not decided"]


@dataclass(frozen=True)
class PointVerdict:
    """The answer to a claim at one combination of the axes that it leaves open."""

    at: dict[str, Any]
    """Axis -> value."""
    answer: Answer
    measured: str
    """The numbers, in a few words."""
    reason: str
    """What decided, in one line."""
    seeds: int

    @property
    def place(self) -> str:
        """The combination in words; empty where the claim leaves no axis open."""
        return describe(self.at)


def answer_of(intervals: Sequence[Interval]) -> Answer:
    """`holds` where all intervals lie above 0, `does not hold` where one does not reach above it."""
    if all(interval.above_zero for interval in intervals):
        return "holds"
    return "does not hold" if any(interval.high <= 0 for interval in intervals) else "not decided"


class ClaimBase(Described):
    """What all claims have."""

    check: str
    """Which kind of claim it is."""
    says: str
    """What the source states, in our words."""
    value: str = "final train_loss"
    """Which number is judged: `final train_loss`, `mean ...`, `round 14 ...`, `best <axis> of final ...`."""
    where: dict[str, Any] = Field(default_factory=dict)
    """Axis -> value (or list of values) that the claim is restricted to."""
    goal: Literal["low", "high"] | None = None
    """Whether low or high values are good; None: high for accuracies and shares, else low."""
    log: bool = False
    """Judged on the logarithm of the value, for losses that range over decades: differences are ratios then, and a
    margin is a logarithm."""
    bound: str | None = None
    """Judged on this entry of `bounds` instead of runs."""
    absolute: bool = False
    """The claim is about absolute numbers, so it is judged on the original data sets only."""
    expected: Literal["holds", "fails"] = "holds"
    """What we expect of it before running; shown beside the verdict, never an input to it."""
    why: str = ""
    """Why a claim that does not hold does not hold: shown in the table of claims."""

    @field_validator("value")
    @classmethod
    def _is_value(cls, value: str) -> str:
        if not VALUE.match(value):
            raise ValueError(
                "must be 'final|mean|lowest|highest|fluctuation <column>', 'round <n> <column>' or "
                "'best <axis> of final <column>'"
            )
        return value

    @property
    def column(self) -> str:
        """Measured column that the value is made of."""
        match = VALUE.match(self.value)
        assert match is not None
        return match["column"]

    @property
    def low_is_good(self) -> bool:
        """Whether smaller is better."""
        if self.goal is not None:
            return self.goal == "low"
        return not any(word in self.column for word in ("accuracy", "share", "precision", "recall"))

    @property
    def title(self) -> str:
        """Name of the check and what it is applied to."""
        return f"{self.check}: {self.value}" + (" (logarithm)" if self.log else "")

    @property
    def axes_named(self) -> list[tuple[str, str]]:
        """(field of the claim, axis it names), for checking them against the experiment."""
        named = [("where", axis) for axis in self.where]
        match = VALUE.match(self.value)
        return [*named, ("value", match["axis"])] if match is not None and match["axis"] else named

    @property
    def values_named(self) -> list[tuple[str, str, Any]]:
        """(field of the claim, axis, value of it that the claim needs)."""
        return values_of(self.where)

    @property
    def columns_named(self) -> list[tuple[str, str, str]]:
        """(field of the claim, table that has the column, column that it needs)."""
        match = VALUE.match(self.value)
        assert match is not None
        return [("value", "ends" if match["when"] == "final" else "rounds", self.column)]

    @property
    def rounds_named(self) -> list[tuple[str, int]]:
        """(field of the claim, round that it needs)."""
        match = VALUE.match(self.value)
        return [("value", int(match["round"]))] if match is not None and match["round"] else []

    def judge(self, grid: Grid) -> list[PointVerdict]:
        """One verdict per combination of the axes that the claim leaves open.

        Raises MissingError where the grid lacks what the claim needs.
        """
        # an axis that the value itself runs over ("best T of ...") is not left open
        taken = [axis for place, axis in self.axes_named if place != "where"]
        return [self.judge_at(grid, at) for at in grid.points(self.where, taken)]

    @abstractmethod
    def judge_at(self, grid: Grid, at: dict[str, Any]) -> PointVerdict:
        """The verdict at one combination of the open axes. Raises MissingError as `judge`."""

    def read(self, grid: Grid, at: dict[str, Any]) -> Floats:
        """(n_seeds,) of the claim's value at a point, on the scale that the claim is judged on."""
        return self.on_scale(grid.seeds_of(self.value, at, self.low_is_good))

    def on_scale(self, x: Floats) -> Floats:
        """`x`, or its logarithm where the claim is judged on that."""
        return np.log(x) if self.log else x

    def better(self, grid: Grid, a: Floats, b: Floats) -> Interval:
        """By how much `a` is better than `b`. Raises MissingError where they were not run with as many seeds."""
        if len(a) != len(b):
            raise MissingError(f"{len(a)} and {len(b)} seeds were run; only equal seeds can be paired")
        return paired(b, a, grid.exact) if self.low_is_good else paired(a, b, grid.exact)

    def mean(self, x: Floats) -> float:
        """Mean over seeds; the geometric one where the claim is judged on logarithms."""
        with np.errstate(invalid="ignore"):
            mean = t_interval(x).mean
            return float(np.exp(mean)) if self.log else mean

    def mean_in_words(self, mean: float) -> str:
        """A mean in words; what it costs to reach a target is infinite for seeds that did not."""
        if np.isinf(mean):
            return "not by all seeds" if self.column.startswith(tuple(TARGETS)) else "diverged"
        return self.amount(mean)

    def amount(self, value: float) -> str:
        """A number of the claim's value, with its unit; that of an axis has none."""
        match = VALUE.match(self.value)
        assert match is not None
        return quantity(value, "" if match["axis"] else unit_of(self.column))

    def in_words(self, interval: Interval) -> str:
        """An interval of differences in words; of a claim that is judged on logarithms, one of factors."""

        def side(value: float) -> str:
            if np.isinf(value):
                return "−∞" if value < 0 else "∞"
            unit = "" if self.log else unit_of(self.column)
            return quantity(value + 0.0, unit) if unit in SCALES else f"{value + 0.0:.3g}"

        low, high = interval.low, interval.high
        if self.log:
            return f"a factor in [{side(np.exp(low))}, {side(np.exp(high))}]"
        return side(low) if low == high else f"[{side(low)}, {side(high)}]"


class AlongClaim(ClaimBase):
    """What claims that compare points of an axis have."""

    along: str
    """The axis, in the order of its list."""

    @property
    def title(self) -> str:
        return f"{super().title} along {self.along}"

    @property
    def axes_named(self) -> list[tuple[str, str]]:
        return [*super().axes_named, ("along", self.along)]

    def values(self, grid: Grid, at: dict[str, Any]) -> dict[Any, Floats]:
        """Point of the axis -> its value by seed, of the points that the claim speaks about, in order.

        Raises MissingError where fewer than two points have one.
        """
        values = {point: self.read(grid, {**at, self.along: point}) for point in self._points(grid)}
        # a formula says nothing where it is not defined
        values = {value: x for value, x in values.items() if not np.isnan(x).all()}
        if len(values) < 2:
            raise MissingError(f"{self.along} has fewer than two values with results at this scale")
        return values

    def _points(self, grid: Grid) -> tuple[Any, ...]:
        if self.along not in self.where:
            return grid.axes[self.along]
        others = [axis for axis in grid.axes if axis != self.along]
        return tuple(point[self.along] for point in grid.points({self.along: self.where[self.along]}, others))

    def listing(self, values: dict[Any, Floats]) -> str:
        """The means at the points of the axis, in words; of many points the ends, the lowest and the highest."""
        means = {v: self.mean(x) for v, x in values.items()}
        shown = list(means)
        if len(shown) > LISTED:
            ranked = sorted(shown, key=lambda v: means[v])
            shown = [v for v in shown if v in (shown[0], ranked[0], ranked[-1], shown[-1])]
        listed = ", ".join(f"{self.named(v)}: {self.mean_in_words(means[v])}" for v in shown)
        left_out = "" if len(shown) == len(means) else f" (ends, lowest and highest of {len(means)})"
        return f"{axis_label(self.along, plain_text=True)} {listed}{left_out}"

    def named(self, value: Any) -> str:
        """A point of the axis in words."""
        return value_label(value, self.along)


def seeds_in(values: dict[Any, Floats]) -> int:
    """Number of seeds of the point that has fewest."""
    return min(len(x) for x in values.values())


def weakest_of(gains: dict[Any, Interval], answer: Answer) -> tuple[Any, Interval]:
    """The comparison that decided, and what it compares: the least clear one, or the one that is furthest from it."""
    return min(gains.items(), key=lambda item: item[1].low if answer != "does not hold" else item[1].high)
