"""A grid of values over axes: what claims are judged on and tables are filled from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from asyncfl.experiments.evidence.samples import Floats, Sample
from asyncfl.experiments.labels import axis_label, value_label
from asyncfl.experiments.run_tables import plain

AxisValues = dict[str, tuple[Any, ...]]
"""Axis (a dotted field, a variant, an argument of a bound) -> its values, in order."""
Where = dict[str, Any]
"""Axis -> value, or a list of values."""
Tables = Mapping[str, pd.DataFrame]
"""`rounds`, `curves`, `ends`, `final`, `cells` and `bounds` of an experiment."""


VALUE = re.compile(
    r"^(?:best (?P<axis>\S+) of )?"
    r"(?:(?P<when>final|mean|lowest|highest|fluctuation|rise)|round (?P<round>\d+)) (?P<column>\w+)$"
)
"""`final train_loss`, `mean test_accuracy` (over rounds), `lowest train_loss`, `fluctuation test_accuracy` (see
`fluctuation`), `rise sigma_d` (last round minus first), `round 14 train_loss`, or `best protocol.rounds of final
train_loss`: the axis value at which the rest is best."""


class MissingError(Exception):
    """A value that a claim needs and the runs do not have; the message says which."""


class NotRunError(MissingError):
    """A part of the experiment that a claim is about and this scale leaves out."""


@dataclass(frozen=True)
class Grid:
    """Values of an experiment at one scale, by axis values, round and seed."""

    axes: AxisValues
    """Axis -> its values at this scale, in order."""
    rounds: pd.DataFrame
    ends: pd.DataFrame
    exact: bool = False
    """The values are those of a formula: one seed, no error."""
    sources: frozenset[str] = field(default_factory=frozenset)
    """Where the training data came from: real, embedded, or remade (files that are not the whole original)."""

    def points(self, where: dict[str, Any], free: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
        """Every combination of axis values that satisfies `where`, the `free` axes left out.

        Of several values that `where` allows, those count that are run at this scale. Raises NotRunError where
        none is.
        """
        choices: dict[str, tuple[Any, ...]] = {}
        for axis, values in self.axes.items():
            if axis in free:
                continue
            wanted = where.get(axis, values)
            listed = several(wanted)
            choices[axis] = tuple(value for value in listed if value in values)
            if not choices[axis]:
                raise NotRunError(f"{axis} = {', '.join(map(str, listed))} is not run at this scale")
        for combination in product(*choices.values()):
            yield dict(zip(choices, combination, strict=True))

    def seeds_of(self, value: str, at: dict[str, Any], low_is_good: bool) -> Sample:
        """A value at a point, by seed; a diverged seed has the worst there is: +-inf."""
        match = VALUE.match(value)
        assert match is not None
        if match["axis"]:
            return self._best(match["axis"], value.partition(" of ")[2], at, low_is_good)
        ends = self._ends(at)
        if match["when"] == "final":
            values = self._column(ends, match["column"])
        else:
            values = self._over_rounds(match, at, list(ends["seed"]))
        return _sample(ends, values, low_is_good)

    def _ends(self, at: dict[str, Any]) -> pd.DataFrame:
        ends = self.ends[select(self.ends, at)].sort_values("seed", kind="stable")
        if len(ends) == 0:
            raise NotRunError(f"no run at {describe(at)}")
        return ends

    def _over_rounds(self, match: Any, at: dict[str, Any], seeds: list[int]) -> Floats:
        column = match["column"]
        curves = self.rounds[select(self.rounds, at)]
        curves = curves[curves["round"] == int(match["round"])] if match["round"] else curves[curves["round"] > 0]
        if match["round"] and int(match["round"]) > (last := self.rounds["round"].max()):
            raise NotRunError(f"no round {match['round']}, runs end at round {last}")
        self._column(curves, column)
        by_seed = curves.sort_values("round", kind="stable").groupby("seed")[column]
        reduced = {
            "mean": by_seed.mean,
            "lowest": by_seed.min,
            "highest": by_seed.max,
            "fluctuation": lambda: by_seed.apply(fluctuation),
            "rise": lambda: by_seed.last() - by_seed.first(),  # rounds in which it was not measured are left out
            None: by_seed.mean,
        }
        return np.asarray(reduced[match["when"]]().reindex(seeds).to_numpy(dtype=np.float64))

    def _best(self, axis: str, value: str, at: dict[str, Any], low_is_good: bool) -> Sample:
        samples = [self.seeds_of(value, {**at, axis: v}, low_is_good) for v in self.axes[axis]]
        seeds = reduce(np.intersect1d, [sample.seeds for sample in samples])
        options = np.stack([sample.among(seeds).values for sample in samples])
        options = np.where(np.isnan(options), np.inf if low_is_good else -np.inf, options)
        best = options.argmin(axis=0) if low_is_good else options.argmax(axis=0)
        points: Floats = np.asarray(self.axes[axis], dtype=np.float64)
        return Sample(seeds, np.asarray(points[best]))

    def window(self, column: str, at: dict[str, Any], first: int, last: int, low_is_good: bool) -> Sample:
        """Means of a column over rounds first..last, by seed; a diverged seed has the worst there is: +-inf."""
        curves = self.rounds[select(self.rounds, at)]
        curves = curves[curves["round"].between(first, last)]
        if len(curves) == 0:
            raise NotRunError(f"no rounds {first}..{last} at {describe(at)}")
        self._column(curves, column)
        ends = self._ends(at)
        means = curves.groupby("seed")[column].mean().reindex(list(ends["seed"]))
        return _sample(ends, means.to_numpy(dtype=np.float64), low_is_good)

    def curve(self, column: str, at: dict[str, Any]) -> pd.Series:
        """Mean over seeds by round (index: round, from 1)."""
        curves = self.rounds[select(self.rounds, at)]
        return curves[curves["round"] > 0].groupby("round")[column].mean()

    def _column(self, frame: pd.DataFrame, column: str) -> Floats:
        if column not in frame:
            raise MissingError(f"the runs have no column {column}")
        return frame[column].to_numpy(dtype=np.float64)


def _sample(ends: pd.DataFrame, values: Floats, low_is_good: bool) -> Sample:
    worst = np.inf if low_is_good else -np.inf
    seeds = ends["seed"].to_numpy(dtype=np.int64)
    return Sample(seeds, np.where(ends["diverged"].to_numpy(dtype=bool), worst, values))


def fluctuation(curve: pd.Series) -> float:
    """How restless a curve is: root mean square of how far each value lies off the middle of its two neighbours.

    Values that were not measured are left out; NaN for fewer than three. A straight line has 0, however steep.
    """
    known = curve.dropna().to_numpy(dtype=np.float64)
    return float(np.sqrt(np.mean((np.diff(known, 2) / 2) ** 2))) if len(known) > 2 else float("nan")


def several(wanted: Any) -> tuple[Any, ...]:
    """The values that an entry of `where` names: one, or a list of them."""
    return tuple(wanted) if isinstance(wanted, list | tuple) else (wanted,)


def values_of(where: dict[str, Any]) -> list[tuple[str, str, Any]]:
    """("where", axis, value) of every value that a `where` names."""
    return [("where", axis, value) for axis, wanted in where.items() for value in several(wanted)]


def restricted(grid: AxisValues, where: dict[str, Any]) -> AxisValues:
    """The axes with the values that `where` leaves of them: one value, or a list of several."""
    kept = dict(grid)
    for axis, wanted in where.items():
        kept[axis] = tuple(value for value in grid[axis] if value in several(wanted))
    return kept


def select(frame: pd.DataFrame, at: dict[str, Any]) -> pd.Series:
    """Which rows of a table lie at the given axis values (a list: at any of them)."""
    keep = pd.Series(True, index=frame.index)
    for axis, value in at.items():
        hit = pd.Series(False, index=frame.index)
        for one in several(value):
            hit |= same(frame[axis], plain(one))
        keep &= hit
    return keep


def same(column: pd.Series, value: Any) -> pd.Series:
    """Which entries of a table column are this axis value, whatever CSV made of the type."""
    if isinstance(value, int | float) and not pd.api.types.is_numeric_dtype(column):
        return pd.to_numeric(column, errors="coerce") == value
    if isinstance(value, str) and pd.api.types.is_bool_dtype(column):
        return column == (value == "true")
    hits: pd.Series = column == value
    return hits


def describe(at: dict[str, Any]) -> str:
    """`epsilon = 50, K = 20`: a point in words."""
    said = []
    for axis, value in at.items():
        name = axis_label(axis, plain_text=True)
        # labels of variants often say what they are: "L = 1" among the variants of L
        named = isinstance(value, str) and name in value.split()
        said.append(value_label(value, axis) if named else f"{name} = {value_label(value, axis)}")
    return ", ".join(said)


def bound_grid(axes: AxisValues, values: pd.DataFrame) -> Grid:
    """The grid of a bound over `axes`: its value as column `bound`, one seed, without error."""
    ends = values.assign(seed=0, round=0, diverged=False)
    return Grid(axes, ends, ends, exact=True)
