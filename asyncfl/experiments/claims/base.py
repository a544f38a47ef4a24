"""The fields that all claims share, and how a claim reads values, compares them and words the result.

A claim names a `value` (see `asyncfl.experiments.grid.VALUE`), the axis it speaks about, and what the source states in
words (`says`). Where the experiment has further axes, the claim must be true at each of their combinations, unless
`where` fixes them. It is judged by comparisons, seed by seed, oriented so that the claim says "above 0"; `evidence`
tests them. A diverged seed counts as the worst value.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, PrivateAttr, field_validator

from asyncfl.base.component import Described
from asyncfl.base.quantities import SCALES, quantity
from asyncfl.experiments.evidence.decision import ONE_LOOK, Answer, ClaimEvidence, Comparison, Decision, Kind, Looks
from asyncfl.experiments.evidence.p_values import Floats, Sample, excess, pair
from asyncfl.experiments.experiment_columns import TARGETS, unit_of
from asyncfl.experiments.grid import VALUE, ExperimentPart, Grid, MissingError, NotRunError, Where, several

ACCOUNTING = ("epsilon_", "budget_", "sigma_", "exposures_assumed")
"""Prefixes of columns that are computed from what was released: deterministic where all seeds agree."""

Cells = tuple[dict[str, Any], ...]
"""Axis values of the cells that a comparison reads."""


@dataclass(frozen=True)
class PointVerdict:
    """The answer to a claim at one combination of the axes that it leaves open."""

    at: Where
    decision: Decision
    measured: str
    """The measured numbers, in a few words."""
    reason: str
    """The comparison that decided, in one line."""

    @property
    def answer(self) -> Answer:
        return self.decision.answer


class SmallestDifference(Described):
    """Smallest difference of a value that matters: the half-width of its region of practical equivalence."""

    difference: Annotated[float, Field(gt=0)]
    """In units of the value."""
    why: Annotated[str, Field(min_length=1)]
    """Reason of its size, and who chose it."""


class ClaimBase(ExperimentPart):
    """A claim, judged on the runs of an experiment or on one of its bounds."""

    is_directional: ClassVar[bool] = False
    """Whether it asks which of two values is larger, or on which side of a threshold one is."""

    check: str
    """Kind of the claim."""
    says: str
    """The statement, in our words."""
    printed: str = ""
    """Where a paper prints the statement: its figure, table, theorem, equation or section; empty: it is our own."""
    sentence: str = ""
    """Name of the sentence of the paper that it checks, such as `4.2-steady`: claims of one sentence are counted once;
    empty: the place where it is printed."""
    paper: str = ""
    """Short name of the paper that prints it; empty: that of the experiment's source."""
    value: str = "final train_loss"
    """The number that is judged: `final train_loss`, `mean ...`, `round 14 ...`, `best <axis> of final ...`."""
    goal: Literal["low", "high"] | None = None
    """Whether low or high values are good; None: high for accuracies, shares and R^2, else low."""
    log: bool = False
    """Whether it is judged on the logarithm of the value, for losses that range over decades: differences are ratios
    then, and a margin is a logarithm."""
    bound: str | None = None
    """Entry of `bounds` that is judged instead of runs."""
    judged_as: Kind | None = None
    """`statistical`: by a mean over seeds; `count`: by how many runs break it (`at_least` only); `deterministic`:
    without error, its value being the same in all seeds. None: counts of clients as counts; formulas, and accounting
    that is the same in all seeds (two or more), or infinite against finite, as deterministic; else as statistical."""
    absolute: bool = False
    """Whether the claim is about absolute numbers, so that it is judged on the original data sets only."""
    margin_why: str = ""
    """Reason of its margin or tolerance; empty: that of the number in `margins` of the experiment."""
    expected: Literal["holds", "fails"] = "holds"
    """Our expectation before running; shown beside the verdict, never an input to it."""
    why: str = ""
    """Explanation of a claim that does not hold, shown in the table of claims."""
    _smallest: SmallestDifference | None = PrivateAttr(default=None)
    """Smallest difference of the value that matters; set by the experiment, which declares it for all its claims."""

    @field_validator("value")
    @classmethod
    def _is_value(cls, value: str) -> str:
        if not VALUE.match(value):
            raise ValueError(
                "must be 'final|mean|lowest|highest|fluctuation|rise [from round <n>] <column>', "
                "'round <n> <column>' or 'best <axis> of final <column>'"
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
        along = f" along {self.along}" if hasattr(self, "along") else ""
        return f"{self.check}: {self.value}{' (logarithm)' if self.log else ''}{along}"

    @property
    def margin_asked(self) -> float:
        """Its margin or tolerance, in units of the value; 0 where it has none."""
        return float(getattr(self, "margin", 0.0))

    @property
    def smallest(self) -> SmallestDifference | None:
        """Smallest difference of the value that matters, as its experiment declares; None: none is declared."""
        return self._smallest

    def declare_smallest(self, differences: Mapping[str, SmallestDifference]) -> None:
        """Take the smallest difference of the column from those of an experiment, see `Experiment.smallest`.

        Claims that ask for no direction, or grant a margin of their own, have none. Those declared are of the column
        itself: not of its logarithm, of how much it fluctuates or rises, or of an axis.
        """
        own_scale = not self.log and not self._parts["axis"] and self._parts["when"] not in ("fluctuation", "rise")
        fitting = [name for name in differences if self.column.startswith(name)]
        applies = fitting and own_scale and self.is_directional and not self.margin_asked and self.bound is None
        self._smallest = differences[max(fitting, key=len)] if applies else None

    @property
    def axes_named(self) -> list[tuple[str, str]]:
        return [*super().axes_named, *([("value", self._parts["axis"])] if self._parts["axis"] else [])]

    @property
    def columns_named(self) -> list[tuple[str, str, str]]:
        return [("value", "ends" if self._parts["when"] == "final" else "rounds", self.column)]

    @property
    def rounds_named(self) -> list[tuple[str, int]]:
        """(field of the claim, round that it needs)."""
        return [("value", int(self._parts["round"]))] if self._parts["round"] else []

    def compares(self, values: Mapping[str, Any]) -> bool:
        """Return whether the claim compares the cell at these axis values with others or with a threshold."""
        return self.bound is None and all(values.get(axis) in several(wanted) for axis, wanted in self.where.items())

    def judge(self, grid: Grid, looks: Looks = ONE_LOOK) -> list[PointVerdict]:
        """Judge the claim at each combination of the axes that it leaves open.

        The claim does not hold where it fails at any of them, so each has its part of the level for that. Raises
        MissingError where the grid lacks what the claim needs.
        """
        # an axis that the value itself runs over ("best T of ...") is not left open
        taken = [axis for field, axis in self.axes_named if field != "where"]
        points = [(at, *self.point(grid, at)) for at in grid.points(self.where, taken)]
        found = [(at, evidence.decide(looks, fails_part=1 / len(points)), told) for at, evidence, told in points]
        return [PointVerdict(at, decision, told, self.reason(decision)) for at, decision, told in found]

    @abstractmethod
    def point(self, grid: Grid, at: Where) -> tuple[ClaimEvidence, str]:
        """Return the evidence at one combination of the open axes, and the measured numbers in words.

        Raises MissingError as `judge`.
        """

    def reason(self, decision: Decision) -> str:
        """Return in one line what decided."""
        comparison, reading = decision.by.comparison, decision.by.reading
        if comparison.kind == "count":
            broken = round(reading.effect * reading.seeds)
            text = f"{comparison.about} {reading.seeds - broken} of {reading.seeds} runs keep it"
            return f"{text}; at most {reading.high:.1%} of runs break it, {comparison.tolerated:.0%} may"
        low, high = sorted(comparison.shown(side) for side in (reading.low, reading.high))
        return f"{comparison.about} {self.in_words(low, high)}{comparison.asked}"

    def read(self, grid: Grid, at: Where) -> Sample:
        found = grid.seeds_of(self.value, at, self.low_is_good)
        return Sample(found.seeds, self.on_scale(found.values))

    def check_rounds(self, grid: Grid, wanted: float) -> None:
        """Raise NotRunError if the value counts rounds and the runs end before round `wanted`: what takes longer than
        a short run may still take fewer rounds than the claim says."""
        if self.column.startswith("rounds_to_") and (last := grid.ends["round"].max()) < wanted:
            raise NotRunError(f"runs of {last} rounds do not tell what happens until round {wanted:g}")

    def on_scale(self, x: Floats) -> Floats:
        """Return `x`, or its logarithm where the claim is judged on that; -inf, the worst of high values, is kept.

        Raises MissingError for negative values, which have none.
        """
        if not self.log:
            return x
        if (np.isfinite(x) & (x < 0)).any():
            raise MissingError(f"{self.column} is negative somewhere, and has no logarithm there")
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(np.isneginf(x), x, np.log(x))

    def kind_of(self, grid: Grid, *samples: Sample) -> Kind:
        """Return how a comparison of these values is judged, see `judged_as`. Raises MissingError where it cannot."""
        constant = grid.exact or all(sample.is_constant for sample in samples)
        if self.judged_as == "deterministic" and not constant:
            raise MissingError("said to be deterministic, but its seeds differ, or there is only one")
        if self.judged_as is not None:
            return self.judged_as
        accounting = self.column.startswith(ACCOUNTING) and not self.value.startswith("best ")
        is_exact = grid.exact or (accounting and (constant or _is_infinite_against_finite(samples)))
        return "deterministic" if is_exact else "statistical"

    def better(self, grid: Grid, a: Sample, b: Sample, about: str, cells: Cells, **of: Any) -> Comparison:
        """Compare that `a` is better than `b`; further arguments as for `larger`."""
        return self.larger(grid, *((b, a) if self.low_is_good else (a, b)), about, cells, **of)

    def larger(
        self, grid: Grid, larger: Sample, smaller: Sample, about: str, cells: Cells, by: float = 0.0, **of: Any
    ) -> Comparison:
        """Compare, seed by seed, that one value exceeds another by more than `by`; with `strict` false: by as much.

        about: words before the effect. of: further fields of the comparison.
        """
        one, other = pair(larger, smaller)
        over, kind = excess(one.values, other.values, by, self.log), self.kind_of(grid, larger, smaller)
        of = {"threshold": of.get("sign", 1.0) * by + 0.0, **of}
        if kind == "statistical":
            of["smallest"] = None if self._smallest is None else self._smallest.difference
        return Comparison(one.seeds, over, about, kind=kind, cells=cells, **of)

    def above(
        self, grid: Grid, x: Sample, threshold: float, about: str, at: Where, sign: float = 1.0, **of: Any
    ) -> Comparison:
        """Compare that a value reaches a threshold, or with `sign` -1 stays at or below it; at it, it does both."""
        limit = Sample(x.seeds, np.full(len(x), threshold))
        of = {"threshold": threshold, "sign": sign, "strict": False, **of}
        return self.larger(grid, *((x, limit) if sign > 0 else (limit, x)), about, (at,), **of)

    def mean(self, x: Sample) -> float:
        """Return the mean over seeds, on logarithms the geometric one; NaN where there is no value."""
        values = x.values[~np.isnan(x.values)]
        if len(values) == 0:
            return float("nan")
        # an accuracy of nothing has the logarithm of a diverged seed
        worst = values[np.isinf(values)]
        mean = float(worst[0] if len(worst) else values.mean())
        return float(np.exp(mean)) if self.log and np.isfinite(mean) else mean

    def mean_in_words(self, mean: float) -> str:
        """Return a mean in words; the cost of reaching a target is infinite for seeds that did not."""
        if np.isinf(mean):
            return "not by all seeds" if self.column.startswith(tuple(TARGETS)) else "diverged"
        return self.amount(mean)

    def amount(self, value: float) -> str:
        return quantity(value, "" if self._parts["axis"] else unit_of(self.column))

    def in_words(self, low: float, high: float) -> str:
        """Return an interval of differences in words; of a claim that is judged on logarithms, one of factors."""
        if not self.log:
            return self.interval(low, high)
        with np.errstate(over="ignore"):
            return f"a factor in [{_side(np.exp(low), '')}, {_side(np.exp(high), '')}]"

    def value_in_words(self, x: Sample) -> str:
        """Return the mean of the value over its seeds in words, by its name."""
        return self.mean_in_words(self.mean(x)) + self.kind_of_mean([x])

    def kind_of_mean(self, samples: Sequence[Sample]) -> str:
        """Return a remark if means over several seeds are geometric, in brackets; tables have the arithmetic ones."""
        several = any(np.count_nonzero(~np.isnan(x.values)) > 1 for x in samples)
        return " (geometric mean)" if self.log and several else ""

    def range_in_words(self, low: float, high: float) -> str:
        """Return an interval of the value itself in words: no factor on logarithms, and a share ends at 0 and 1."""
        if self.log:
            with np.errstate(over="ignore"):
                low, high = float(np.exp(low)), float(np.exp(high))
        if unit_of(self.column) == "share" and not self._parts["axis"]:
            # Some columns with this unit are ratios that may exceed 1.
            low, high = max(low, min(high, 0.0)), min(high, max(low, 1.0))
        return self.interval(low, high)

    def interval(self, low: float, high: float) -> str:
        unit = unit_of(self.column)
        return _side(low, unit) if low == high else f"[{_side(low, unit)}, {_side(high, unit)}]"


def _is_infinite_against_finite(samples: Sequence[Sample]) -> bool:
    """Whether each sample, of two seeds or more, is infinite throughout or finite throughout, and they differ in that:
    an epsilon without noise is infinite, whatever the seed."""
    infinite = {bool(np.isinf(x.values).all()) for x in samples}
    whole = all(len(x) > 1 and (np.isinf(x.values).all() or np.isfinite(x.values).all()) for x in samples)
    return whole and len(infinite) == 2


def _side(value: float, unit: str) -> str:
    if np.isinf(value):
        return "−∞" if value < 0 else "∞"
    return quantity(value + 0.0, unit) if unit in SCALES else f"{value + 0.0:.3g}"
