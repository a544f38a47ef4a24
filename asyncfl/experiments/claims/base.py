"""What all claims have: their fields, how a value is read from the grid, and how numbers are put into words.

A claim names a `value` (see `asyncfl.experiments.grid.VALUE`), the axis it speaks about, and what the source states in
words (`says`). Where the experiment has further axes, the claim must be true at each of their combinations, unless
`where` fixes them.

It is judged by comparisons, seed by seed, oriented so that the claim says "above 0"; `evidence` tells what they are
worth and how they are put together. A diverged seed counts as the worst value there is.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from pydantic import Field, field_validator

from asyncfl.base.component import Described
from asyncfl.base.quantities import SCALES, quantity
from asyncfl.experiments.columns import TARGETS, unit_of
from asyncfl.experiments.evidence.decision import ONE_LOOK, Answer, ClaimEvidence, Comparison, Decision, Kind, Looks
from asyncfl.experiments.evidence.samples import Floats, Sample, excess, pair
from asyncfl.experiments.grid import VALUE, Grid, MissingError, NotRunError, describe, several, values_of

ACCOUNTING = ("epsilon_", "budget_", "sigma_", "exposures_assumed")
"""Beginnings of columns that are computed from what was released. Where they are the same in every seed, chance has no
part in them."""


Cells = tuple[dict[str, Any], ...]


@dataclass(frozen=True)
class Point:
    """What a claim rests on at one combination of the axes that it leaves open."""

    at: dict[str, Any]
    """Axis -> value."""
    evidence: ClaimEvidence
    measured: str
    """The numbers, in a few words."""


@dataclass(frozen=True)
class PointVerdict:
    """The answer to a claim at one combination of the axes that it leaves open."""

    at: dict[str, Any]
    decision: Decision
    measured: str
    reason: str
    """What decided, in one line."""

    @property
    def answer(self) -> Answer:
        return self.decision.answer

    @property
    def place(self) -> str:
        """The combination in words; empty where the claim leaves no axis open."""
        return describe(self.at)


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
    """Whether low or high values are good; None: high for accuracies, shares and R^2, else low."""
    log: bool = False
    """Judged on the logarithm of the value, for losses that range over decades: differences are ratios then, and a
    margin is a logarithm."""
    bound: str | None = None
    """Judged on this entry of `bounds` instead of runs."""
    judged_as: Kind | None = None
    """`statistical`: by a mean over seeds; `count`: by how many runs break it (`at_least` only); `deterministic`:
    without error, its value being the same in all seeds. None: counts of clients as counts, accounting that is the same
    in all seeds (two or more) and formulas as deterministic, all else as statistical."""
    absolute: bool = False
    """The claim is about absolute numbers, so it is judged on the original data sets only."""
    margin_why: str = ""
    """Why its margin or tolerance is what it is; empty: as `margins` of the experiment says of that number."""
    expected: Literal["holds", "fails"] = "holds"
    """What we expect of it before running; shown beside the verdict, never an input to it."""
    why: str = ""
    """Why a claim that does not hold does not hold: shown in the table of claims."""

    @field_validator("value")
    @classmethod
    def _is_value(cls, value: str) -> str:
        if not VALUE.match(value):
            raise ValueError(
                "must be 'final|mean|lowest|highest|fluctuation|rise <column>', 'round <n> <column>' or "
                "'best <axis> of final <column>'"
            )
        return value

    @property
    def _parts(self) -> re.Match[str]:
        match = VALUE.match(self.value)
        assert match is not None
        return match

    @property
    def column(self) -> str:
        """Measured column that the value is made of."""
        return self._parts["column"]

    @property
    def low_is_good(self) -> bool:
        """Whether smaller is better."""
        if self.goal is not None:
            return self.goal == "low"
        return not any(word in self.column for word in ("accuracy", "share", "precision", "recall", "test_r2"))

    @property
    def title(self) -> str:
        """Name of the check and what it is applied to."""
        return f"{self.check}: {self.value}" + (" (logarithm)" if self.log else "")

    @property
    def margin_asked(self) -> float:
        """Its margin or tolerance, in units of the value; 0 where it has none."""
        return 0.0

    @property
    def axes_named(self) -> list[tuple[str, str]]:
        """(field of the claim, axis it names), for checking them against the experiment."""
        named = [("where", axis) for axis in self.where]
        return [*named, ("value", self._parts["axis"])] if self._parts["axis"] else named

    @property
    def values_named(self) -> list[tuple[str, str, Any]]:
        """(field of the claim, axis, value of it that the claim needs)."""
        return values_of(self.where)

    def compares(self, values: Mapping[str, Any]) -> bool:
        """Whether the claim compares the cell at these axis values with others or with a threshold."""
        return self.bound is None and all(values.get(axis) in several(wanted) for axis, wanted in self.where.items())

    @property
    def columns_named(self) -> list[tuple[str, str, str]]:
        """(field of the claim, table that has the column, column that it needs)."""
        return [("value", "ends" if self._parts["when"] == "final" else "rounds", self.column)]

    @property
    def rounds_named(self) -> list[tuple[str, int]]:
        """(field of the claim, round that it needs)."""
        return [("value", int(self._parts["round"]))] if self._parts["round"] else []

    def judge(self, grid: Grid, looks: Looks = ONE_LOOK) -> list[PointVerdict]:
        """One verdict per combination of the axes that the claim leaves open.

        The claim does not hold where it fails at any of them, so each has its part of the level for that. Raises
        MissingError where the grid lacks what the claim needs.
        """
        # an axis that the value itself runs over ("best T of ...") is not left open
        taken = [axis for place, axis in self.axes_named if place != "where"]
        points = [self.point(grid, at) for at in grid.points(self.where, taken)]
        found = []
        for point in points:
            decision = point.evidence.decide(looks, fails_part=1 / len(points))
            found.append(PointVerdict(point.at, decision, point.measured, self.reason(decision)))
        return found

    @abstractmethod
    def point(self, grid: Grid, at: dict[str, Any]) -> Point:
        """What the claim rests on at one combination of the open axes. Raises MissingError as `judge`."""

    def reason(self, decision: Decision) -> str:
        """What decided, in one line."""
        comparison, reading = decision.by.comparison, decision.by.reading
        if comparison.kind == "count":
            broken = round(reading.effect * reading.seeds)
            text = f"{comparison.about} {reading.seeds - broken} of {reading.seeds} runs keep it"
            return f"{text}; at most {reading.high:.1%} of runs break it, {comparison.tolerated:.0%} may"
        low, high = sorted(comparison.shown(side) for side in (reading.low, reading.high))
        return f"{comparison.about} {self.in_words(low, high)}{comparison.asked}"

    def read(self, grid: Grid, at: dict[str, Any]) -> Sample:
        """The claim's value at a point, by seed, on the scale that the claim is judged on."""
        found = grid.seeds_of(self.value, at, self.low_is_good)
        return Sample(found.seeds, self.on_scale(found.values))

    def check_rounds(self, grid: Grid, wanted: float) -> None:
        """Raise NotRunError if the value counts rounds and the runs end before round `wanted`: what takes longer than
        a short run may still take fewer rounds than the claim says."""
        if self.column.startswith("rounds_to_") and (last := grid.rounds["round"].max()) < wanted:
            raise NotRunError(f"runs of {last} rounds do not tell what happens until round {wanted:g}")

    def on_scale(self, x: Floats) -> Floats:
        """`x`, or its logarithm where the claim is judged on that; the worst of high values stays that.

        Raises MissingError for negative values, which have none.
        """
        if not self.log:
            return x
        if (np.isfinite(x) & (x < 0)).any():
            raise MissingError(f"{self.column} is negative somewhere, and has no logarithm there")
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(np.isneginf(x), x, np.log(x))

    def kind_of(self, grid: Grid, *samples: Sample) -> Kind:
        """How a comparison of these values is judged, see `judged_as`. Raises MissingError where it cannot be so."""
        constant = grid.exact or all(sample.is_constant for sample in samples)
        if self.judged_as == "deterministic" and not constant:
            raise MissingError("said to be deterministic, but its seeds differ, or there is only one")
        if self.judged_as is not None:
            return self.judged_as
        accounting = self.column.startswith(ACCOUNTING) and not self.value.startswith("best ")
        return "deterministic" if grid.exact or (accounting and constant) else "statistical"

    def better(self, grid: Grid, a: Sample, b: Sample, about: str, cells: Cells, **asked: Any) -> Comparison:
        """Compare that `a` is better than `b`; `asked` as for `larger`."""
        larger, smaller = (b, a) if self.low_is_good else (a, b)
        return self.larger(grid, larger, smaller, about, cells, **asked)

    def larger(
        self,
        grid: Grid,
        larger: Sample,
        smaller: Sample,
        about: str,
        cells: Cells,
        by: float = 0.0,
        asked: str = "",
        strict: bool = True,
        sign: float = 1.0,
        room: float | None = None,
    ) -> Comparison:
        """Compare, seed by seed, that one value exceeds another by more than `by`; not `strict`: by as much.

        about, asked: words before and after the effect. sign: -1 to tell the effect as how much worse. room: see
        `Comparison`.
        """
        one, other = pair(larger, smaller)
        over, kind = excess(one.values, other.values, by, self.log), self.kind_of(grid, larger, smaller)
        threshold = sign * by + 0.0
        return Comparison(
            one.seeds, over, about, asked, strict, kind, threshold=threshold, sign=sign, room=room, cells=cells
        )

    def above(
        self,
        grid: Grid,
        x: Sample,
        threshold: float,
        about: str,
        cells: Cells,
        sign: float = 1.0,
        room: float | None = None,
        tolerated: float = 0.0,
    ) -> Comparison:
        """Compare that a value reaches a threshold, or with `sign` -1 stays at or below it; at it, it does both."""
        known = ~np.isnan(x.values)
        values, limit = x.values[known], np.full(known.sum(), threshold)
        over = excess(values, limit, 0.0, self.log) if sign > 0 else excess(limit, values, 0.0, self.log)
        return Comparison(
            x.seeds[known],
            over,
            about,
            strict=False,
            kind=self.kind_of(grid, x),
            tolerated=tolerated,
            threshold=threshold,
            sign=sign,
            room=room,
            cells=cells,
        )

    def mean(self, x: Sample) -> float:
        """Mean over seeds; the geometric one where the claim is judged on logarithms. NaN where there is no value."""
        values = x.values[~np.isnan(x.values)]
        if len(values) == 0:
            return float("nan")
        # an accuracy of nothing has the logarithm of a diverged seed
        worst = values[np.isinf(values)]
        mean = float(worst[0] if len(worst) else values.mean())
        return float(np.exp(mean)) if self.log and np.isfinite(mean) else mean

    def mean_in_words(self, mean: float) -> str:
        """A mean in words; what it costs to reach a target is infinite for seeds that did not."""
        if np.isinf(mean):
            return "not by all seeds" if self.column.startswith(tuple(TARGETS)) else "diverged"
        return self.amount(mean)

    def amount(self, value: float) -> str:
        """A number of the claim's value, with its unit; that of an axis has none."""
        return quantity(value, "" if self._parts["axis"] else unit_of(self.column))

    def in_words(self, low: float, high: float) -> str:
        """An interval of differences in words; of a claim that is judged on logarithms, one of factors."""
        if not self.log:
            return self.interval(low, high)
        with np.errstate(over="ignore"):
            return f"a factor in [{_side(np.exp(low), '')}, {_side(np.exp(high), '')}]"

    def interval(self, low: float, high: float) -> str:
        """An interval of the claim's value in words; one without width is a number."""
        unit = unit_of(self.column)
        return _side(low, unit) if low == high else f"[{_side(low, unit)}, {_side(high, unit)}]"


def _side(value: float, unit: str) -> str:
    """An end of an interval in words."""
    if np.isinf(value):
        return "−∞" if value < 0 else "∞"
    return quantity(value + 0.0, unit) if unit in SCALES else f"{value + 0.0:.3g}"
