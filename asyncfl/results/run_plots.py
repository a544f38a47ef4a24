"""Plots of one run: a column over versions, virtual time or epsilon, and measurements by client."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from asyncfl.base.errors import RunError, hint
from asyncfl.base.tables import FAMILIES, FairnessColumns, PerClientTable, RegressionColumns, RoundsTable, columns_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

EPSILON = "epsilon_exact_max"
"""Column meant by `x="epsilon"`: exact epsilon of the most exposed client, against the server."""
WORST = 0.1
"""Share of clients outside the band of a plot by client, on either side."""


def plot_rounds(rounds: pd.DataFrame, y: str | None, x: str) -> Figure:
    """Plot one line per seed, and the mean over seeds; return the figure.

    The mean is drawn at the values of x that all seeds have, if there are several seeds and at least two such values.

    `y`: None for R^2 of a regression, else accuracy. Versions without a measurement, or with an infinite one, are left
    out. Raises RunError where a column is missing, both are the same, or no finite values remain.
    """
    y = y or ("test_r2" if "test_r2" in rounds else "test_accuracy")
    x = EPSILON if x == "epsilon" else x
    known = _finite(rounds, y, x)
    known = known[np.isfinite(known[y])]
    figure, axes = _empty()
    seeds = sorted(known["seed"].unique().tolist())
    for seed in seeds:
        own = known[known["seed"] == seed]
        axes.plot(own[x], own[y], marker="o", markersize=3, alpha=1 if len(seeds) == 1 else 0.5, label=f"seed {seed}")
    by_place = known.groupby(x)[y]
    everywhere = by_place.mean()[by_place.size() == len(seeds)]
    if len(seeds) > 1 and len(everywhere) > 1:
        axes.plot(everywhere.index, everywhere, color="black", linewidth=2, label="mean")
    if len(seeds) > 1:
        axes.legend()
    axes.set_xlabel(_label(x))
    axes.set_ylabel(_label(y))
    return figure


def plot_clients(clients: pd.DataFrame, y: str, x: str) -> Figure:
    """Plot the median over clients and seeds, a band from the first to the last decile, and the worst decile's mean.

    `clients`: the table `per_client`. Infinite values are included, and leave a gap in the line of the worst decile.
    Raises RunError where a column is missing, both are the same, or no finite values remain.
    """
    known = _finite(clients, y, x)
    by_place = known.groupby(x)[y]
    low, middle, high = (by_place.quantile(share) for share in (WORST, 0.5, 1 - WORST))
    # The lowest accuracies, or the highest losses.
    worst = by_place.apply(
        lambda values: values.sort_values(ascending=y == "accuracy").head(-(-len(values) // 10)).mean()
    )
    figure, axes = _empty()
    axes.fill_between(low.index, low, high, alpha=0.25, label="8 of 10 clients")
    axes.plot(middle.index, middle, marker="o", markersize=3, label="median client")
    axes.plot(worst.index, worst, marker="v", markersize=3, linestyle="--", color="black", label="mean of worst decile")
    axes.legend()
    axes.set_xlabel(_label(x))
    axes.set_ylabel(f"{_label(y)} on a client's own data")
    return figure


def _empty() -> tuple[Figure, Axes]:
    """Return a new figure in the user's matplotlib style, not registered with pyplot, and its axes."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(layout="constrained")
    plt.close(figure)  # otherwise a notebook would show it twice
    return figure, axes


def _finite(frame: pd.DataFrame, y: str, x: str) -> pd.DataFrame:
    """Return the rows with a measured `y` and a finite `x`. Raises RunError where none remain."""
    numbers = [str(column) for column in frame if frame[column].dtype.kind in "iuf" and column != "seed"]
    for axis, name in (("y", y), ("x", x)):
        if name not in numbers:
            raise RunError(f"{axis} must be a column of numbers, got {name!r}; {hint(name, numbers, 'there are')}")
    if x == y:
        raise RunError(f"y must be another column than x, both are {y}")
    known = frame.dropna(subset=[x, y])
    if not len(known):
        raise RunError(f"y must be a column that was measured, {y} is empty in this run")
    trained = known[known["version"] > 0]  # epsilon is always 0 before training
    if len(trained) and not np.isfinite(trained[x]).any():
        why = " (no noise)" if x.startswith("epsilon") else ""
        raise RunError(f"x must be a column of finite numbers, {x} is infinite throughout{why}")
    drawn: pd.DataFrame = known[np.isfinite(known[x])]
    if not np.isfinite(drawn[y]).any():
        raise RunError(f"y must be a column of finite numbers, {y} has none where {x} is finite")
    return drawn


def _label(name: str) -> str:
    known = columns_of(RoundsTable, RegressionColumns, FairnessColumns, PerClientTable)
    about = known.get(name) or next((one for start, one in FAMILIES.items() if name.startswith(start)), None)
    names = {"time_s": "virtual time", "test_r2": "test R²", EPSILON: "ε of the most exposed client, exact"}
    unit = f" ({about.unit})" if about is not None and about.unit not in ("", "share", "versions") else ""
    return f"{names.get(name, name.replace('_', ' '))}{unit}"
