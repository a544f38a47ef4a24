"""Several measured columns in one panel, told apart by colour: an axis of columns is made of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import pandas as pd

from asyncfl.analysis.labels import column_label, end_label
from asyncfl.experiment.figure import Curves, Measured

AnyMeasured = TypeVar("AnyMeasured", bound=Measured)
AXIS = "measured column"
"""The axis that the columns are the values of."""
METRIC = "overlaid"
"""What the values in the panel are called in the tables."""


def overlaid(
    figure: AnyMeasured, grid: dict[str, tuple[Any, ...]], tables: Mapping[str, pd.DataFrame]
) -> tuple[AnyMeasured, dict[str, tuple[Any, ...]], dict[str, pd.DataFrame], str]:
    """A figure of `METRIC` with hue `AXIS`, its grid and tables, and what stands at the y axis.

    Columns whose labels begin alike, up to a comma, are told apart by the rest.
    """
    name = "curves" if isinstance(figure, Curves) else "final"
    labels = [column_label(y) if name == "curves" else end_label(y) for y in figure.ys]
    heads = {label.partition(", ")[0] for label in labels}
    shared = len(heads) == 1 and all(", " in label for label in labels)
    hues = tuple(label.partition(", ")[2] if shared else label for label in labels)
    frame, parts = tables[name], []
    for y, hue in zip(figure.ys, hues, strict=True):
        parts.append(frame[frame["metric"] == y].assign(metric=METRIC, **{AXIS: hue}))
        if isinstance(figure, Curves) and figure.x != "round":
            parts.append(frame[frame["metric"] == figure.x].assign(**{AXIS: hue}))
    drawn = figure.model_copy(update={"overlay": False, "ys": (), "y": METRIC, "hue": AXIS})
    said = heads.pop() if shared else "ε" if all(y.startswith("epsilon_") for y in figure.ys) else ""
    return drawn, {**grid, AXIS: hues}, {**tables, name: pd.concat(parts, ignore_index=True)}, said
