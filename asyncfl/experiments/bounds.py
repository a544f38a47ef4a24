"""Convergence bounds and other formulas of an experiment, and their values over a grid of their arguments.

This is the only place where the analysis evaluates a formula instead of reading a run.
"""

from __future__ import annotations

import math
from typing import Any, Literal, Self

import pandas as pd
from pydantic import Field, ValidationError, field_validator, model_validator

from asyncfl.base.component import Described
from asyncfl.base.errors import hint
from asyncfl.experiments.formulas import FORMULAS, arguments_of, formula_value
from asyncfl.experiments.grid import AxisValues, points
from asyncfl.privacy.queries.convergence_bounds import BoundSettings, BoundsQuestion, LossConstants

ARGUMENTS = {
    "protocol.rounds": "rounds",
    "protocol.participants": "participants",
    "data.clients": "clients",
    "privacy.epsilon": "epsilon",
    "privacy.clip_norm": "clip_norm",
}
"""Field of a scenario -> argument of the bounds."""
MOST_POINTS = 10_000
"""Values of an argument in a range, and points of a grid."""


class Bound(Described):
    """A convergence bound of NbAFL (see `asyncfl.privacy`), or another formula, as a function of some arguments."""

    theorem: Literal[2, 3] | None = None
    """2: all clients participate; 3: K of N. null: `formula` says what is computed."""
    formula: str | None = None
    """Name of a formula in `asyncfl.experiments.formulas`, in place of a theorem."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """Arguments that stay fixed."""

    @model_validator(mode="after")
    def _check_what(self) -> Self:
        if (self.theorem is None) == (self.formula is None):
            raise ValueError("must have theorem (2 or 3) or formula, and not both")
        return self

    def over(self, grid: AxisValues) -> pd.DataFrame:
        """Return one row per point of `grid` (argument, or field of a scenario that stands for one -> values), its
        value in the column `bound`."""
        rows = [{**point, "bound": self._value(self._arguments(point))} for point in points(grid)]
        return pd.DataFrame(rows)

    def _value(self, arguments: dict[str, Any]) -> float:
        if self.formula is not None:
            return formula_value(self.formula, arguments)
        assert self.theorem is not None
        return bound_value(self.theorem, arguments)

    def _arguments(self, point: dict[str, Any]) -> dict[str, Any]:
        return self.settings | {ARGUMENTS.get(name, name): value for name, value in point.items()}


class Bounds(Bound):
    """A grid of bound values."""

    axes: dict[str, tuple[Any, ...] | dict[Literal["from", "to", "step"], int]]
    """Argument -> values, or `{from: 1, to: 40}` for a range with both ends in it."""
    curvature_in: str | None = None
    """Argument x whose second differences b(x - 1) - 2 b(x) + b(x + 1) stand in place of the bound b: below 0 where b
    is not convex in x."""

    @model_validator(mode="after")
    def _check_curvature(self) -> Self:
        if self.curvature_in not in (None, *self.axes):
            raise ValueError(f"curvature_in must be one of the axes ({', '.join(self.axes)}), got {self.curvature_in}")
        return self

    @field_validator("axes")
    @classmethod
    def _check_ranges(cls, axes: dict[str, Any]) -> dict[str, Any]:
        for name, values in axes.items():
            if isinstance(values, dict):
                if "to" not in values or values.get("step", 1) < 1:
                    raise ValueError(f"{name} must be a list, or a range with `to` and a `step` >= 1")
                if len(_range(values)) > MOST_POINTS:
                    raise ValueError(f"{name} must have at most {MOST_POINTS} values")
        return axes

    def over(self, grid: AxisValues) -> pd.DataFrame:
        """Return rows as `Bound.over`; with `curvature_in`, second differences in the column `bound`."""
        rows, x = super().over(grid), self.curvature_in
        if x is None:
            return rows
        before, after = (super(Bounds, self).over({**grid, x: tuple(v + s for v in grid[x])}) for s in (-1, 1))
        return rows.assign(bound=before["bound"] - 2 * rows["bound"] + after["bound"])

    def grid(self) -> AxisValues:
        """Return argument -> its values."""
        return {name: tuple(_range(of)) if isinstance(of, dict) else of for name, of in self.axes.items()}


def _range(of: Any) -> range:
    return range(of.get("from", 1), of["to"] + 1, of.get("step", 1))


def first_fault(bound: Bound, grid: AxisValues) -> str | None:
    """Return why a bound cannot be computed at all points of a grid; None: it can be."""
    known = {"rounds", "participants", "lambda1", *LossConstants.model_fields, *BoundSettings.model_fields}
    if bound.formula is not None:
        if bound.formula not in FORMULAS:
            return f"there is no formula {bound.formula}; {hint(bound.formula, sorted(FORMULAS), 'formulas')}"
        known = set(arguments_of(bound.formula))
    given = bound._arguments(dict.fromkeys(grid))
    for name in (*grid, *bound.settings):
        if ARGUMENTS.get(name, name) not in known:
            return f"there is no argument {name}; {hint(name, sorted(known), 'arguments')}"
    what = bound.formula or f"theorem {bound.theorem}"
    needed = [name for name, default in arguments_of(what).items() if default is None] if bound.formula else ["rounds"]
    for name in (*needed, *(["participants"] if bound.theorem == 3 else [])):
        if name not in given:
            return f"{what} needs {name}, among the axes or the settings"
    if math.prod(map(len, grid.values())) > MOST_POINTS:
        return f"must have at most {MOST_POINTS} points in all"
    try:
        bound.over(grid)
    except ValueError as error:
        if not isinstance(error, ValidationError):
            return str(error)
        [first, *_] = error.errors()
        return f"{first['loc'][-1]}: {first['msg'].replace('noise.', '')}"  # arguments stand side by side here
    return None


def bound_value(theorem: int, arguments: dict[str, Any]) -> float:
    """Return the bound of theorem 2 or 3; NaN where it says nothing (an infinite budget included).

    arguments: `rounds`, for theorem 3 also `participants`, `lambda1` (theorem 2), and any field of LossConstants and
    BoundSettings. Raises pydantic's ValidationError for values out of range.
    """
    if arguments.get("epsilon") == math.inf:
        return math.nan
    loss = {name: value for name, value in arguments.items() if name in LossConstants.model_fields}
    noise = {
        name: value for name, value in arguments.items() if name in BoundSettings.model_fields and name not in loss
    }
    rest = {name: value for name, value in arguments.items() if name not in loss and name not in noise}
    if theorem == 2:
        rest.pop("participants", None)
    return BoundsQuestion.model_validate({"loss": loss, "noise": noise, **rest}).value


def rows_of_bound(bounds: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return the rows of one entry, without the columns that only others have."""
    rows = bounds[bounds["name"] == name].drop(columns="name")
    return rows[[column for column in rows if column == "bound" or rows[column].notna().any()]]
