"""Mean and 95 % interval over the seeds of each cell, of all measured columns.

An experiment has hundreds of thousands of groups of a few seeds each, so groups with equally many seeds are reduced
together and not one by one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from asyncfl.experiments.intervals import half_width

NOT_MEASURED = {"seed", "round", "diverged"}


def metrics(frame: pd.DataFrame, axes: Sequence[str]) -> list[str]:
    """Measured numeric columns of a frame of rounds or ends."""
    return [
        name
        for name in frame.columns
        if name not in axes and name not in NOT_MEASURED and pd.api.types.is_numeric_dtype(frame[name])
    ]


def over_seeds(frame: pd.DataFrame, axes: Sequence[str], by_round: bool) -> pd.DataFrame:
    """Long frame with mean and 95 % interval over the seeds that did not diverge, and how many did.

    Values that no seed evaluated are left out.
    """
    columns = [*axes, "round"] if by_round else list(axes)
    if columns:
        group = frame.groupby(columns, sort=False, dropna=False).ngroup().to_numpy(dtype=np.intp)
    else:
        group = np.zeros(len(frame), dtype=np.intp)
    first = np.unique(group, return_index=True)[1]
    lost = frame["diverged"].to_numpy(dtype=bool)
    diverged = np.bincount(group[lost], minlength=len(first))
    parts = []
    for metric in metrics(frame, axes):
        values = frame[metric].to_numpy(dtype=np.float64)
        part = _by_group(values[~lost], group[~lost], len(first)).assign(diverged=diverged)
        part.insert(0, "metric", metric)
        parts.append(part[(part["seeds"] > 0) | (part["diverged"] > 0)])
    long = pd.concat(parts).sort_index(kind="stable")
    keys = frame[columns].iloc[first[long.index]]
    return pd.concat([keys.reset_index(drop=True), long.reset_index(drop=True)], axis=1)


def _by_group(values: NDArray[np.float64], group: NDArray[np.intp], groups: int) -> pd.DataFrame:
    """Mean, interval and number of the values of each group, by its number.

    values: (n,), NaN where not evaluated. group: (n,), 0..groups-1. A target that not every seed reached is at no
    finite mean, which has no interval, nor has one seed.
    """
    known = ~np.isnan(values)
    values, group = values[known], group[known]
    values = values[np.argsort(group, kind="stable")]
    seeds = np.bincount(group, minlength=groups)
    begin = np.cumsum(seeds) - seeds
    mean, low, high = np.full((3, groups), np.nan)
    for n in np.unique(seeds[seeds > 0]):
        at = np.flatnonzero(seeds == n)
        x = values[begin[at, np.newaxis] + np.arange(n)]
        with np.errstate(invalid="ignore"):  # infinities of both signs have no mean
            mean[at] = x.mean(axis=1)
        finite = np.isfinite(x).all(axis=1)
        at, x = at[finite], x[finite]
        if n > 1:
            half = half_width(x)
            low[at], high[at] = mean[at] - half, mean[at] + half
    return pd.DataFrame({"mean": mean, "low": low, "high": high, "seeds": seeds})
