"""Values of the convergence bounds over a grid of their arguments, as a frame with a column `bound`.

This is the only place where the analysis asks a formula instead of a run.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import pandas as pd

from asyncfl.experiment import Bound, Experiment, Scale
from asyncfl.experiment.figure import Final
from asyncfl.privacy.bounds import BoundSettings, FullParticipation, LossConstants, PartialParticipation

ARGUMENTS = {
    "protocol.rounds": "rounds",
    "protocol.participants": "participants",
    "data.clients": "clients",
    "privacy.epsilon": "epsilon",
    "privacy.clip_norm": "clip_norm",
}
"""Field of a scenario -> argument of the bounds."""


def bound_value(theorem: int, arguments: dict[str, Any]) -> float:
    """The bound of theorem 2 or 3; NaN where it says nothing (an infinite budget included).

    arguments: `rounds`, for theorem 3 also `participants`, `lambda1` (theorem 2), and any field of LossConstants and
    BoundSettings. Raises pydantic's ValidationError for values out of range.
    """
    given = dict(arguments)
    rounds, participants = given.pop("rounds"), given.pop("participants", None)
    variant = {"lambda1": given.pop("lambda1")} if "lambda1" in given else {}
    if given.get("epsilon") == float("inf"):
        return float("nan")
    loss = LossConstants(**{k: v for k, v in given.items() if k in LossConstants.model_fields})
    noise = BoundSettings(**{k: v for k, v in given.items() if k not in LossConstants.model_fields})
    if theorem == 2:
        return float(FullParticipation(loss, noise, **variant)(rounds))
    return float(PartialParticipation(loss, noise)(rounds, participants))


def bound_frame(bound: Bound, grid: dict[str, tuple[Any, ...]]) -> pd.DataFrame:
    """One row per point of `grid` (argument, or field of a scenario that stands for one -> values)."""
    rows = []
    for combination in product(*grid.values()):
        point = dict(zip(grid, combination, strict=True))
        arguments = {ARGUMENTS.get(name, name): value for name, value in point.items()}
        rows.append({**point, "bound": bound_value(bound.theorem, {**bound.settings, **arguments})})
    return pd.DataFrame(rows)


def all_bounds(experiment: Experiment, scale: Scale) -> pd.DataFrame:
    """The bounds of an experiment: its entries of `bounds`, and those drawn beside measured values; column `name`."""
    frames = [bound_frame(spec, spec.grid()).assign(name=name) for name, spec in experiment.bounds.items()]
    grid = experiment.grid(scale)
    for figure in experiment.all_figures:
        if isinstance(figure, Final) and figure.bound is not None:
            drawn = {axis: grid[axis] for axis in (figure.x, figure.hue) if axis in ARGUMENTS and axis is not None}
            frames.append(bound_frame(figure.bound, drawn).assign(name=f"figure {figure.name}"))
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def of(bounds: pd.DataFrame, name: str) -> pd.DataFrame:
    """The rows of one entry, without the columns that only others have."""
    rows = bounds[bounds["name"] == name]
    return rows[[column for column in rows if column == "bound" or (column != "name" and rows[column].notna().any())]]
