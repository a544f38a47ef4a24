"""A grid of values over axes: what claims are judged on and tables are filled from."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from typing import Annotated, Any, NamedTuple

import numpy as np
import pandas as pd
from pydantic import Field

from asyncfl.base.component import Described
from asyncfl.base.quantities import is_number
from asyncfl.experiments.csv_files import as_written, plain
from asyncfl.experiments.evidence.p_values import Floats, Sample
from asyncfl.experiments.labels import axis_label, value_label

AxisValues = dict[str, tuple[Any, ...]]
"""Axis (a dotted field, a variant, an argument of a bound) -> its values, in order."""
Where = dict[str, Any]
"""Axis -> value, or a list of values."""
Tables = Mapping[str, pd.DataFrame]
"""`rounds`, `curves`, `ends`, `final`, `cells` and `bounds` of an experiment."""

VALUE = re.compile(
    r"^(?:best (?P<axis>\S+) of )?"
    r"(?:(?P<when>final|mean|lowest|highest|fluctuation|rise)(?: from round (?P<first>\d+))?|round (?P<round>\d+)) "
    r"(?P<column>\w+)$"
)
"""`final train_loss`, `mean test_accuracy` (over rounds), `lowest train_loss`, `fluctuation test_accuracy` (see
`fluctuation`), `rise sigma_d` (last round minus first), `highest from round 3 test_accuracy`, `round 14 train_loss` (of
a run that ended before, that of its last round), or `best protocol.rounds of final train_loss`: the axis value at which
the rest is best."""


class MissingError(Exception):
    """A value that a claim needs and the runs do not have."""


class NotRunError(MissingError):
    """A part of the experiment that this scale leaves out."""


class UnpublishedError(MissingError):
    """A value over the rounds of runs of which only the last round is published."""


class Reference(NamedTuple):
    """Annotation of a field that names an axis, values of axes, or a measured column."""

    what: str
    """`axis` | `where`: axis -> value or values | `value`: of the axis `along` | `rounds`, `ends`: column there."""


AxisName = Annotated[str, Reference("axis")]


class ExperimentPart(Described):
    """A part of an experiment that names axes and columns by fields annotated with `Reference`."""

    where: Annotated[Where, Reference("where")] = Field(default_factory=dict)
    """Axis -> value (or list of values): only this part of the grid."""

    def _references(self, *what: str) -> list[tuple[str, str, Any]]:
        return [
            (field, about.what, value)
            for field, info in type(self).model_fields.items()
            for about in info.metadata
            if isinstance(about, Reference) and about.what in what and (value := getattr(self, field)) is not None
        ]

    @property
    def axes_named(self) -> list[tuple[str, str]]:
        """(field, axis) of each axis that it names."""
        return [
            (field, axis)
            for field, what, named in self._references("axis", "where")
            for axis in (named if what == "where" else [named])
        ]

    @property
    def values_named(self) -> list[tuple[str, str, Any]]:
        """(field, axis, value) of each axis value that it names."""
        fixed = [
            (field, axis, v) for field, _, of in self._references("where") for axis in of for v in several(of[axis])
        ]
        return fixed + [(field, getattr(self, "along", ""), value) for field, _, value in self._references("value")]

    @property
    def columns_named(self) -> list[tuple[str, str, str]]:
        """(field, table: rounds or ends, column) of each measured column that it names."""
        return self._references("rounds", "ends")


@dataclass(frozen=True)
class Grid:
    """Values of an experiment at one scale, by axis values, round and seed."""

    axes: AxisValues
    rounds: pd.DataFrame | None
    """None: they are not published, and values over the rounds are not known; so are those of cells that it lacks."""
    ends: pd.DataFrame
    exact: bool = False
    """Whether the values are those of a formula: one seed, no error."""
    sources: frozenset[str] = frozenset()
    """Origins of the training data: real, embedded, or remade (files that are not the whole original)."""

    def __post_init__(self) -> None:
        # Lists, such as those of hidden units, as in tables: in a `where` a list stands for several values.
        listed = {
            axis: tuple(plain(v) if isinstance(v, list | tuple | dict) else v for v in self.axes[axis])
            for axis in self.axes
        }
        object.__setattr__(self, "axes", listed)

    def points(self, where: Where, free: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
        """Yield every combination of axis values that satisfies `where`, the `free` axes left out.

        Raises NotRunError where none of the values that `where` allows is run at this scale.
        """
        choices: AxisValues = {}
        for axis, values in self.axes.items():
            if axis not in free:
                listed = several(where.get(axis, values))
                choices[axis] = tuple(value for value in listed if value in values)
                if not choices[axis]:
                    raise NotRunError(f"{axis} = {', '.join(map(str, listed))} is not run at this scale")
        yield from points(choices)

    def seeds_of(self, value: str, at: Where, low_is_good: bool) -> Sample:
        """Return a value (see `VALUE`) at a point by seed; a diverged seed has the worst value: +-inf."""
        match = VALUE.match(value)
        assert match is not None
        if match["axis"]:
            return self._best(match["axis"], value.partition(" of ")[2], at, low_is_good)
        column = match["column"]
        if match["when"] == "final":
            ends = self._rows(self.ends, at, column)
            return self._sample(at, ends.set_index("seed")[column], low_is_good)
        if match["round"]:
            number, ends = int(match["round"]), self._rows(self.ends, at, "round")
            if number > (last := self.ends["round"].max()):
                raise NotRunError(f"no round {number}, runs end at round {last}")
            if not self._has_rounds(at, column) and column in ends and (ends["round"] <= number).all():
                return self._sample(at, ends.set_index("seed")[column], low_is_good)
        curves = self._over_rounds(at, column)
        if match["round"]:
            by_seed = self._carried(
                curves[curves["round"] == number].groupby("seed")[column].mean(), at, column, number
            )
        else:
            of = (
                curves[curves["round"] >= int(match["first"] or 1)]
                .sort_values("round", kind="stable")
                .groupby("seed")[column]
            )
            reduced: dict[str, Callable[[], pd.Series]] = {
                "mean": of.mean,
                "lowest": of.min,
                "highest": of.max,
                "fluctuation": lambda: of.apply(fluctuation),
                "rise": lambda: of.last() - of.first(),  # rounds in which it was not measured are left out
            }
            by_seed = reduced[match["when"]]()
        return self._sample(at, by_seed, low_is_good)

    def window(self, column: str, at: Where, first: int, last: int, low_is_good: bool) -> Sample:
        """Return means of a column over rounds first..last by seed; a diverged seed has the worst value: +-inf."""
        rounds = self._over_rounds(at, column)
        curves = rounds[rounds["round"].between(first, last)]
        if len(curves) == 0:
            raise NotRunError(f"no rounds {first}..{last} at {describe(at)}")
        means = self._rows(curves, {}, column).groupby("seed")[column].mean()
        return self._sample(at, self._carried(means, at, column, first), low_is_good)

    def curve(self, column: str, at: Where) -> pd.Series:
        """Return the mean over seeds by round (index: round, from 1)."""
        rounds = self._over_rounds(at, column)
        return rounds[rounds["round"] > 0].groupby("round")[column].mean()

    def _has_rounds(self, at: Where, column: str) -> bool:
        """Tell whether the table of rounds has all runs at a point, and a column of them that ends have a value of."""
        if self.rounds is None:
            return False
        ends, rows = (frame[select(frame, at)] for frame in (self.ends, self.rounds))
        measured, known = (column in frame and bool(frame[column].notna().any()) for frame in (ends, rows))
        return set(ends["seed"]) <= set(rows["seed"]) and (known or not measured)

    def _over_rounds(self, at: Where, column: str) -> pd.DataFrame:
        """Return the rows of the table of rounds at a point. Raises UnpublishedError where it lacks one of the runs."""
        self._rows(self.ends, at, "seed")
        if self.rounds is None or not self._has_rounds(at, column):
            raise UnpublishedError("its values over the rounds are not published")
        return self._rows(self.rounds, at, column)

    def _rows(self, frame: pd.DataFrame, at: Where, column: str) -> pd.DataFrame:
        rows = frame[select(frame, at)]
        if len(rows) == 0:
            raise NotRunError(f"no run at {describe(at)}")
        if column not in frame:
            raise MissingError(f"the runs have no column {column}")
        return rows

    def _carried(self, by_seed: pd.Series, at: Where, column: str, number: int) -> pd.Series:
        """Add the last values of seeds that ended before round `number`, by their seeds: a server that makes no more
        versions keeps its last one."""
        rows = self._over_rounds(at, column)
        of_seed = rows.sort_values("round", kind="stable").groupby("seed")
        ended = of_seed["round"].last() < number
        carried: pd.Series = pd.concat([by_seed, of_seed[column].last()[ended]])
        return carried

    def _sample(self, at: Where, by_seed: pd.Series, low_is_good: bool) -> Sample:
        ends = self._rows(self.ends, at, "seed").sort_values("seed", kind="stable")
        values = by_seed.reindex(ends["seed"]).to_numpy(np.float64)
        worst = np.inf if low_is_good else -np.inf
        return Sample(ends["seed"].to_numpy(np.int64), np.where(ends["diverged"].to_numpy(bool), worst, values))

    def _best(self, axis: str, value: str, at: Where, low_is_good: bool) -> Sample:
        samples = [self.seeds_of(value, {**at, axis: v}, low_is_good) for v in self.axes[axis]]
        seeds = reduce(np.intersect1d, [sample.seeds for sample in samples])
        options = np.stack([sample.among(seeds).values for sample in samples])
        options = np.where(np.isnan(options), np.inf if low_is_good else -np.inf, options)
        points: Floats = np.asarray(self.axes[axis], dtype=np.float64)
        best = points[options.argmin(axis=0) if low_is_good else options.argmax(axis=0)]
        # a seed that diverged everywhere has no best value
        return Sample(seeds, np.where(np.isinf(options).all(axis=0), np.nan, best))


def bound_grid(axes: AxisValues, values: pd.DataFrame) -> Grid:
    """Return the grid of a bound over `axes`: its value as column `bound`, one seed, without error."""
    ends = values.assign(seed=0, round=0, diverged=False)
    return Grid(axes, ends, ends, exact=True)


def fluctuation(curve: pd.Series) -> float:
    """Return the root mean square of the distances of values from the middle of their two neighbours.

    Values that were not measured are left out; NaN for fewer than three. A straight line has 0, however steep.
    """
    known = curve.dropna().to_numpy(dtype=np.float64)
    return float(np.sqrt(np.mean((np.diff(known, 2) / 2) ** 2))) if len(known) > 2 else float("nan")


def points(axes: AxisValues) -> Iterator[dict[str, Any]]:
    """Yield every combination of axis values, the last axis running fastest."""
    for combination in product(*axes.values()):
        yield dict(zip(axes, combination, strict=True))


def several(wanted: Any) -> tuple[Any, ...]:
    """Return the values that an entry of `where` names: one, or a list of them."""
    return tuple(wanted) if isinstance(wanted, list | tuple) else (wanted,)


def restricted(grid: AxisValues, where: Where) -> AxisValues:
    """Return the axes with the values that `where` leaves of them."""
    return grid | {axis: tuple(v for v in grid[axis] if v in several(wanted)) for axis, wanted in where.items()}


def select(frame: pd.DataFrame, at: Where) -> pd.Series:
    """Return which rows of a table lie at the given axis values (a list: at any of them)."""
    keep = pd.Series(True, index=frame.index)
    for axis, value in at.items():
        keep &= np.logical_or.reduce([same(frame[axis], plain(one)) for one in several(value)])
    return keep


def same(column: pd.Series, value: Any) -> pd.Series:
    """Return which entries of a table column are this axis value, whatever CSV made of the type."""
    if isinstance(value, int | float) and not pd.api.types.is_numeric_dtype(column):
        column = pd.to_numeric(column, errors="coerce")
    elif isinstance(value, str) and pd.api.types.is_bool_dtype(column):
        value = value == "true"
    elif isinstance(value, str) and pd.api.types.is_numeric_dtype(column) and is_number(value):
        value = float(value)
    hits: pd.Series = column == value
    if isinstance(value, int | float):
        hits |= column == as_written(value)
    return hits


def describe(at: Mapping[str, Any]) -> str:
    """Return a point in words: `epsilon = 50, K = 20`. An axis that is younger than the point, NaN, is left out."""
    parts = []
    for axis, value in at.items():
        if isinstance(value, float) and math.isnan(value):
            continue
        name, text = axis_label(axis, plain_text=True), value_label(value, axis)
        # labels of variants often contain the axis: "L = 1" among the variants of L
        parts.append(text if isinstance(value, str) and name in value.split() else f"{name} = {text}")
    return ", ".join(parts)
