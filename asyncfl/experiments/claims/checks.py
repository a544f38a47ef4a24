"""The kinds of claims: about the points of an axis, about two points of it, about a value itself."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from asyncfl.experiments.claims.base import Cells, ClaimBase
from asyncfl.experiments.evidence.decision import ALPHA, AllOf, AnyOf, ClaimEvidence, Comparison, Kind
from asyncfl.experiments.evidence.p_values import Sample
from asyncfl.experiments.experiment_columns import unit_of
from asyncfl.experiments.grid import AxisName, Grid, MissingError, NotRunError, Reference, Where
from asyncfl.experiments.labels import axis_label, value_label

LISTED = 8
"""Points of an axis up to which all measured values are written out."""

AxisValue = Annotated[Any, Reference("value")]
"""A value of the axis `along`."""


class AlongClaim(ClaimBase):
    """A claim that compares points of an axis."""

    along: AxisName
    """The axis, in the order of its list."""

    def values(self, grid: Grid, at: Where) -> dict[Any, Sample]:
        """Return the value by seed at each point of the axis that the claim speaks about, in order.

        Raises NotRunError where fewer than two points have one.
        """
        points = grid.axes[self.along]
        if self.along in self.where:
            others = [axis for axis in grid.axes if axis != self.along]
            points = tuple(point[self.along] for point in grid.points(self.where, others))
        values = {point: self.read(grid, {**at, self.along: point}) for point in points}
        # a formula says nothing where it is not defined
        values = {point: x for point, x in values.items() if not np.isnan(x.values).all()}
        if len(values) < 2:
            raise NotRunError(f"{self.along} has fewer than two values with results at this scale")
        return values

    def listing(self, values: dict[Any, Sample]) -> str:
        """Return the means at the points of the axis; of many points the ends, the lowest and the highest."""
        means = {v: self.mean(x) for v, x in values.items()}
        shown = list(means)
        if len(shown) > LISTED:
            ranked = sorted(shown, key=lambda v: means[v])
            shown = [v for v in shown if v in (shown[0], ranked[0], ranked[-1], shown[-1])]
        listed = ", ".join(f"{self.named(v)}: {self.mean_in_words(means[v])}" for v in shown)
        listed += self.kind_of_mean([*values.values()]).replace("mean", "means")
        left_out = "" if len(shown) == len(means) else f" (ends, lowest and highest of {len(means)})"
        return f"{axis_label(self.along, plain_text=True)} {listed}{left_out}"

    def named(self, value: Any) -> str:
        return value_label(value, self.along)

    def cells(self, at: Where, *points: Any) -> Cells:
        return tuple({**at, self.along: point} for point in points)


class Order(AlongClaim):
    """The value falls (or rises) from each point of an axis to the next."""

    is_directional = True

    check: Literal["order"] = "order"
    direction: Literal["falls", "rises"] = "falls"
    strict: bool = True
    """False: neighbours may tie within `margin`, only the two ends must differ."""
    margin: float = Field(default=0.0, ge=0)
    """With `strict: false`: by how much a step may go the wrong way, in units of the value."""

    @property
    def margin_asked(self) -> float:
        return 0.0 if self.strict else self.margin

    def point(self, grid: Grid, at: Where) -> tuple[ClaimEvidence, str]:
        values = self.values(grid, at)
        loose: dict[str, Any] = {"by": -self.margin, "asked": f", margin {self.margin:g}", "room": self.margin}

        def step(a: Any, b: Any, strict: bool) -> Comparison:
            larger, smaller = (a, b) if self.direction == "falls" else (b, a)
            about = f"least clear step: from {self.named(a)} to {self.named(b)} it {self.direction} by"
            of = {"by": -0.0} if strict else loose
            return self.larger(grid, values[larger], values[smaller], about, self.cells(at, a, b), strict=strict, **of)

        steps = [step(a, b, self.strict) for a, b in pairwise(values)]
        if not self.strict:
            first, *_, last = values
            steps.append(step(first, last, True))
        return AllOf(steps), self.listing(values)


class BestAt(AlongClaim):
    """The value is best at one point of an axis."""

    is_directional = True

    check: Literal["best_at"] = "best_at"
    at: AxisValue
    """The point that beats every other."""

    def point(self, grid: Grid, at: Where) -> tuple[ClaimEvidence, str]:
        values = self.values(grid, at)
        if self.at not in values:
            raise NotRunError(f"{self.along} = {self.at} is not run at this scale")
        ahead = []
        for rival, x in values.items():
            if rival != self.at:
                about = f"{self.named(self.at)} is better than {self.named(rival)} by"
                ahead.append(self.better(grid, values[self.at], x, about, self.cells(at, self.at, rival)))
        return AllOf(ahead), self.listing(values)


class InteriorBest(AlongClaim):
    """Some point inside an axis beats both of its ends."""

    is_directional = True

    check: Literal["interior_best"] = "interior_best"
    last_counts: bool = False
    """Whether the last point may be the best too, as where all clients participate."""

    def point(self, grid: Grid, at: Where) -> tuple[ClaimEvidence, str]:
        values = self.values(grid, at)
        first, *inside, last = values
        if not inside:
            raise NotRunError(f"{self.along} has no interior point at this scale")

        def beats(best: Any, end: Any) -> Comparison:
            about = f"{self.named(best)} is better than the end {self.named(end)} by"
            return self.better(grid, values[best], values[end], about, self.cells(at, best, end))

        # Which point inside is best is found on the same seeds: each of them has a part of the level.
        found: list[ClaimEvidence] = [AllOf([beats(best, first), beats(best, last)]) for best in inside]
        return AnyOf([*found, beats(last, first)] if self.last_counts else found), self.listing(values)


class Crossover(AlongClaim):
    """The curve of `early` is better before the given rounds, that of `late` after them."""

    is_directional = True

    check: Literal["crossover"] = "crossover"
    early: AxisValue
    """Axis value that is ahead at first."""
    late: AxisValue
    """Axis value that is ahead afterwards."""
    rounds: tuple[int, int]
    """Two rounds between which the curves cross."""

    def compares(self, values: Mapping[str, Any]) -> bool:
        return super().compares(values) and values[self.along] in (self.early, self.late)

    @property
    def columns_named(self) -> list[tuple[str, str, str]]:
        return [*super().columns_named, ("value", "rounds", self.column)]

    @property
    def rounds_named(self) -> list[tuple[str, int]]:
        return [*super().rounds_named, *(("rounds", number) for number in self.rounds)]

    def point(self, grid: Grid, at: Where) -> tuple[ClaimEvidence, str]:
        first, then = self.cells(at, self.early, self.late)
        ends = {self.early: self.read(grid, first), self.late: self.read(grid, then)}
        before, after = self.rounds
        last = int(grid.curve(self.column, first).index.max())
        if last <= after:
            raise NotRunError(f"the runs end at round {last}, the crossing is expected at {before}..{after}")

        def lead(a: Where, b: Where, start: int, end: int, about: str) -> Comparison:
            found = [grid.window(self.column, cell, start, end, self.low_is_good) for cell in (a, b)]
            one, other = (Sample(x.seeds, self.on_scale(x.values)) for x in found)
            return self.better(grid, one, other, about, (a, b))

        ahead = lead(first, then, 1, before, f"until round {before} {self.named(self.early)} is ahead by")
        behind = lead(then, first, after, last, f"from round {after} {self.named(self.late)} is ahead by")
        gap = (grid.curve(self.column, first) - grid.curve(self.column, then)).dropna()
        signs = np.sign(gap.to_numpy())
        crossings = [str(gap.index[int(i) + 1]) for i in np.flatnonzero(signs[1:] * signs[:-1] < 0)]
        told = f"cross at round {', '.join(crossings)}" if crossings else "never cross"
        return AllOf((ahead, behind)), f"{self.listing(ends)}; mean curves {told}"


class PairClaim(AlongClaim):
    """A claim that compares two points of an axis."""

    at: AxisValue
    """The point that the claim is about."""
    than: AxisValue
    """The point it is compared with."""

    def compares(self, values: Mapping[str, Any]) -> bool:
        return super().compares(values) and values[self.along] in (self.at, self.than)

    @abstractmethod
    def evidence(self, grid: Grid, a: Sample, b: Sample, about: str, cells: Cells) -> ClaimEvidence:
        """Compare `a`, the value of `at`, with `b`, that of `than`."""

    def point(self, grid: Grid, at: Where) -> tuple[ClaimEvidence, str]:
        cells = self.cells(at, self.at, self.than)
        a, b = (self.read(grid, cell) for cell in cells)
        about = f"{self.named(self.at)} is better than {self.named(self.than)} by"
        return self.evidence(grid, a, b, about, cells), self.listing({self.at: a, self.than: b})


class NoWorse(PairClaim):
    """`at` is not worse than `than` by more than a margin."""

    is_directional = True

    check: Literal["no_worse"] = "no_worse"
    margin: float = Field(default=0.0, ge=0)
    """Loss of quality that is still accepted, in units of the value."""

    def evidence(self, grid: Grid, a: Sample, b: Sample, about: str, cells: Cells) -> ClaimEvidence:
        asked = f", margin {self.margin:g}"
        return self.better(grid, a, b, about, cells, by=-self.margin, asked=asked, strict=False, room=self.margin)


class Alike(PairClaim):
    """`at` and `than` differ by no more than a margin, either way."""

    check: Literal["alike"] = "alike"
    margin: float = Field(gt=0)
    """Difference that still counts as alike, in units of the value."""

    def evidence(self, grid: Grid, a: Sample, b: Sample, about: str, cells: Cells) -> ClaimEvidence:
        asked = f", alike within {self.margin:g}"
        of: dict[str, Any] = {"by": -self.margin, "asked": asked, "strict": False, "room": self.margin}
        down = self.better(grid, a, b, about, cells, **of)
        return AllOf((down, self.better(grid, b, a, about, cells, **of, sign=-1.0)))


class Times(PairClaim):
    """`at` is better than `than` by a factor."""

    check: Literal["times"] = "times"
    factor: float = Field(gt=0)
    """Factor by which it is better: a value to be low is divided by it, one to be high multiplied. 1 asks for any gain,
    which a tie is not."""
    share: float = Field(default=1.0, gt=0, le=1)
    """Part of the gain that must be there. Where `factor` is what the source measured itself, a true claim would fall
    short of the whole as often as not; half of the gain tells whether it is there."""
    log: Literal[True] = True
    """Ratios are differences of logarithms."""

    def evidence(self, grid: Grid, a: Sample, b: Sample, about: str, cells: Cells) -> ClaimEvidence:
        wanted = 1 + self.share * (self.factor - 1)
        by = float(np.log(wanted))
        # a claim that says what the source measured is true to the letter where the whole gain is there
        room = None if self.factor == 1 else float(np.log(self.factor)) - by
        asked = f", wanted {self.factor:g}"
        if self.share < 1:
            asked = f", wanted {wanted:.4g}: {self.share:.0%} of the gain of {self.factor:g}"
        return self.better(grid, a, b, about, cells, by=by, asked=asked, strict=self.factor == 1, room=room)


class AtLeast(ClaimBase):
    """The value reaches a threshold (with `goal: low`: stays at or below it)."""

    is_directional = True

    check: Literal["at_least"] = "at_least"
    threshold: float

    tolerated: float = Field(default=0.1, gt=0, lt=1)
    """Share of runs that may break a claim on counts. No number of clean runs shows that it never happens."""
    besides: dict[str, float] = Field(default_factory=dict)
    """Value -> what it must not exceed, so that the claim is not true for nothing: that all attackers are banned tells
    nothing where everybody is. Numbers of clients are counted by runs, as those of the claim itself."""

    @property
    def columns_named(self) -> list[tuple[str, str, str]]:
        others = [("besides", "ends", value.removeprefix("final ")) for value in self.besides]
        return [*super().columns_named, *others]

    def kind_of(self, grid: Grid, *samples: Sample) -> Kind:
        kind = super().kind_of(grid, *samples)
        counted = self.judged_as is None and kind == "statistical" and unit_of(self.column) == "clients"
        return "count" if counted else kind

    def in_words(self, low: float, high: float) -> str:
        return self.range_in_words(low, high)

    def point(self, grid: Grid, at: Where) -> tuple[ClaimEvidence, str]:
        self.check_rounds(grid, self.threshold)
        x = self.read(grid, at)
        threshold = float(self.on_scale(np.array(self.threshold)))
        side, sign = ("at most", -1.0) if self.low_is_good else ("at least", 1.0)
        about = f"wanted {side} {self.amount(self.threshold)}, got"
        evidence: ClaimEvidence = self.above(grid, x, threshold, about, at, sign, tolerated=self.tolerated)
        told = f"{self.value} {self.value_in_words(x)}"
        for value, limit in self.besides.items():
            other = grid.seeds_of(value, at, low_is_good=True)
            if not (known := ~np.isnan(other.values)).any():
                raise MissingError(f"no seed has a value of {value}")
            words = f"wanted {value} at most {limit:g}, got"
            kind: Kind = "count" if unit_of(value.split()[-1]) == "clients" else "statistical"
            of: dict[str, Any] = {"strict": False, "threshold": limit, "sign": -1.0, "cells": (at,), "kind": kind}
            of["tolerated"] = self.tolerated
            evidence = AllOf([evidence, Comparison(other.seeds[known], limit - other.values[known], words, **of)])
            told = f"{told}, {value} {self.mean(other):.4g}"
        return evidence, told


class Agrees(ClaimBase):
    """The mean lies in the interval that the source states, widened by the 95 % interval of our own mean.

    One seed has no interval: outside the source's it is not decided.
    """

    check: Literal["agrees"] = "agrees"
    target: float
    """The source's number."""
    spread: float = Field(ge=0)
    """Half-width of the source's interval, as the source states it, in units of the value."""
    worst_along: Annotated[str | None, Reference("axis")] = None
    """Axis at whose worst point the value is read: the accuracy under the strongest of several attacks. null: none."""

    def point(self, grid: Grid, at: Where) -> tuple[ClaimEvidence, str]:
        x = self._worst(grid, at) if self.worst_along else self.read(grid, at)
        mean, n = self.mean(x), int((~np.isnan(x.values)).sum())
        if n == 0:
            raise MissingError(f"no seed has a value of {self.column}")
        own = 0.0
        if n > 1 and np.isfinite(mean):
            from scipy.special import stdtrit  # scipy is slow to import, and reading an experiment needs none of it

            own = float(stdtrit(n - 1, 1 - ALPHA) * np.nanstd(x.values, ddof=1) / np.sqrt(n))
        allowed = self.spread + own
        told = f"{self.amount(self.target)} ± {self.spread:g}" + (f" ± {own:.2g} (ours)" if own else "")
        # One number for all seeds: the seeds' variance is in our interval already.
        excess = np.full(len(x), allowed - abs(mean - self.target))
        about = f"wanted {told}; the distance is"
        kind: Kind = "statistical" if n == 1 and excess[0] < 0 else "deterministic"
        found = Comparison(x.seeds, excess, about, strict=False, kind=kind, threshold=allowed, sign=-1.0, cells=(at,))
        return found, f"{self.value} {self.value_in_words(x)}"

    def _worst(self, grid: Grid, at: Where) -> Sample:
        """Return the values at the point of `worst_along` whose mean is the worst."""
        assert self.worst_along is not None
        samples = [self.read(grid, {**at, self.worst_along: one}) for one in grid.axes[self.worst_along]]
        return (max if self.low_is_good else min)(samples, key=self.mean)


class Near(ClaimBase):
    """The value is what the source measured, within a tolerance."""

    check: Literal["near"] = "near"
    target: float
    """The source's number."""
    tolerance: float = Field(gt=0)
    """Largest distance of the mean from it, in units of the value."""

    def in_words(self, low: float, high: float) -> str:
        return self.range_in_words(low, high)

    @property
    def margin_asked(self) -> float:
        return self.tolerance

    def point(self, grid: Grid, at: Where) -> tuple[ClaimEvidence, str]:
        self.check_rounds(grid, self.target + self.tolerance)
        x = self.read(grid, at)
        target = float(self.on_scale(np.array(self.target)))
        about = f"wanted {self.amount(self.target)} ± {self.tolerance:g}, got"
        low = self.above(grid, x, target - self.tolerance, about, at, room=self.tolerance)
        high = self.above(grid, x, target + self.tolerance, about, at, sign=-1.0, room=self.tolerance)
        return AllOf((low, high)), f"{self.value} {self.value_in_words(x)}"
