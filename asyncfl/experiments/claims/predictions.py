"""Claims about many cells at once, each beside a number that others measured of the same settings."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from functools import reduce
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, field_validator

from asyncfl.experiments.claims.base import ClaimBase
from asyncfl.experiments.evidence.decision import ClaimEvidence, Comparison
from asyncfl.experiments.evidence.p_values import Floats, Sample, Seeds
from asyncfl.experiments.grid import AxisName, Grid, NotRunError, Where

Window = tuple[Annotated[int, Field(ge=1)], Annotated[int, Field(ge=1)]]
LISTED = 3
"""Cells that are named: those that are furthest off."""


class PredictionClaim(ClaimBase):
    """A claim that reads one value at several points of an axis, beside numbers of others."""

    along: AxisName
    """The axis; its points that are not in `numbers` are not read."""
    rounds: Window | None = None
    """First and last round over which the column of `value` is averaged, or for `time_s` divided: the seconds of a
    round; null: `value` itself."""

    @property
    @abstractmethod
    def labels(self) -> tuple[Any, ...]:
        """Points of the axis that the claim speaks about."""

    @field_validator("rounds")
    @classmethod
    def _ascending(cls, value: Window | None) -> Window | None:
        if value is not None and value[0] > value[1]:
            raise ValueError(f"must be the first round and a later one, got {list(value)}")
        return value

    @property
    def values_named(self) -> list[tuple[str, str, Any]]:
        return [*super().values_named, *(("numbers", self.along, label) for label in self.labels)]

    @property
    def columns_named(self) -> list[tuple[str, str, str]]:
        return super().columns_named if self.rounds is None else [("value", "rounds", self.column)]

    @property
    def rounds_named(self) -> list[tuple[str, int]]:
        return super().rounds_named if self.rounds is None else [("rounds", self.rounds[1])]

    def compares(self, values: Mapping[str, Any]) -> bool:
        return super().compares(values) and values.get(self.along) in self.labels

    def read_all(self, grid: Grid, at: Where) -> tuple[Seeds, Floats]:
        """Return the seeds that all points have, (seeds,), and the values, (points, seeds), in the order of `labels`.

        Raises NotRunError where a point is not run at this scale.
        """
        missing = sum(label not in grid.axes[self.along] for label in self.labels)
        if missing:
            raise NotRunError(f"{missing} of {len(self.labels)} points of {self.along} are not run at this scale")
        samples = [self._read(grid, {**at, self.along: label}) for label in self.labels]
        seeds = reduce(np.intersect1d, [sample.seeds for sample in samples])
        return seeds, np.stack([sample.among(seeds).values for sample in samples])

    def _read(self, grid: Grid, at: Where) -> Sample:
        if self.rounds is None:
            return self.read(grid, at)
        first, last = self.rounds
        if self.column != "time_s":
            return grid.window(self.column, at, first, last, self.low_is_good)
        ends, begins = (grid.seeds_of(f"round {of} time_s", at, True) for of in (last, first - 1))
        return Sample(ends.seeds, (ends.values - begins.among(ends.seeds).values) / (last - first + 1))

    def furthest(self, apart: Floats, in_words: str) -> str:
        """Return the points that are furthest off, in words. `apart`: (points,) with sign."""
        order = np.argsort(-np.abs(apart))[:LISTED]
        return "; furthest " + ", ".join(f"{self.labels[place]}: {format(apart[place], in_words)}" for place in order)


class Predicts(PredictionClaim):
    """The median over the points of the relative error of ours against theirs is at most `median_error`."""

    check: Literal["predicts"] = "predicts"
    numbers: Annotated[dict[Any, Annotated[float, Field(gt=0)]], Field(min_length=1)]
    """Point of the axis -> number of others, in the unit of the value."""
    median_error: Annotated[float, Field(gt=0)]
    """Largest median error, as a part of theirs."""

    @property
    def labels(self) -> tuple[Any, ...]:
        return tuple(self.numbers)

    @property
    def margin_asked(self) -> float:
        return self.median_error

    def amount(self, value: float) -> str:
        return f"{value:.1%}"

    def interval(self, low: float, high: float) -> str:
        return f"{low:.1%}" if low == high else f"[{low:.1%}, {high:.1%}]"

    def point(self, grid: Grid, at: Where) -> tuple[ClaimEvidence, str]:
        seeds, values = self.read_all(grid, at)
        theirs = np.array([*self.numbers.values()])
        errors = values / theirs[:, None] - 1
        medians = Sample(seeds, np.median(np.abs(errors), axis=0))
        about = f"wanted at most {self.median_error:.1%}, the median error is"
        mean_error = errors.mean(axis=1)
        told = f"{len(theirs)} points, median error {np.median(np.abs(mean_error)):.1%} of the means of our seeds"
        if len(seeds) > 1:
            told += f", {medians.values.mean():.1%} of a single one, which is judged"
        told += self.furthest(mean_error, "+.1%")
        return self.above(grid, medians, self.median_error, about, at, sign=-1.0, room=self.median_error), told


class Covers(PredictionClaim):
    """Ours lies within some standard deviations of the mean of their runs, at a share of the points."""

    check: Literal["covers"] = "covers"
    numbers: Annotated[dict[Any, tuple[float, Annotated[float, Field(ge=0)]]], Field(min_length=1)]
    """Point of the axis -> mean and standard deviation of the runs of others."""
    deviations: Annotated[float, Field(gt=0)] = 2.0
    """Largest distance, in standard deviations."""
    share: Annotated[float, Field(gt=0, le=1)]
    """Least share of the points."""

    @property
    def labels(self) -> tuple[Any, ...]:
        return tuple(self.numbers)

    @property
    def margin_asked(self) -> float:
        return self.deviations

    def interval(self, low: float, high: float) -> str:
        return f"{low:.1%}" if low == high else f"[{low:.1%}, {high:.1%}]"

    def point(self, grid: Grid, at: Where) -> tuple[ClaimEvidence, str]:
        seeds, values = self.read_all(grid, at)
        theirs = np.array([*self.numbers.values()])
        apart = (values - theirs[:, :1]) / np.maximum(theirs[:, 1:], np.finfo(np.float64).tiny)
        inside = float((np.abs(apart) <= self.deviations).mean())
        # One number for all seeds: the points are the sample, not the seeds.
        excess = np.full(len(seeds), inside - self.share)
        about = f"wanted at least {self.share:.0%} of {len(theirs)} points within {self.deviations:g} deviations, got"
        found = Comparison(seeds, excess, about, strict=False, kind="deterministic", threshold=self.share, cells=(at,))
        return found, f"{inside:.1%} of {len(theirs)} points" + self.furthest(apart.mean(axis=1), "+.1f")
