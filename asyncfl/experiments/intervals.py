"""Means over seeds with their 95 % intervals, for tables, figures and commands; claims are judged by `evidence`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from asyncfl.experiments.columns import unit_of
from asyncfl.experiments.evidence.samples import Sample, pair

LEVEL = 0.95
OF_TWO = 12.706
"""Half the 95 % t interval of two seeds over half their difference."""


def convention(seeds: int) -> str:
    """What numbers over `seeds` seeds mean in tables and texts."""
    if seeds < 2:
        return f"value of n = {seeds} seed, which tells no interval (–)"
    said = f"mean ± half of the 95 % t interval over n = {seeds} seeds"
    if seeds > 2:
        return said
    return f"{said}; with two that is {half_width(np.array([-1.0, 1.0])):.1f} times half their difference"


def drawn_convention(fewer: Sequence[int], seeds: int, own: str) -> str:
    """What figures show of `seeds` seeds, and in some cells of `fewer`.

    own: the marks that two seeds' own values have; empty: means are drawn alone.
    """
    others = f", in some cells {' or '.join(map(str, fewer))}" if fewer else ""
    if not own and seeds > 1:
        return f"mean over n = {seeds} seeds{others}"
    if not own or 2 not in (*fewer, seeds):
        return convention(seeds) + others
    wide = f"{own} their own values, as the 95 % t interval is {OF_TWO:.1f} times as wide"
    return f"mean over n = 2 seeds, {wide}" if seeds == 2 else f"{convention(seeds)}{others}, of two {wide}"


def half_width(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Half the width of the 95 % t interval of the mean over the last axis.

    x: (..., n_seeds), finite, at least two seeds.
    """
    from scipy.special import stdtrit

    n = x.shape[-1]
    return np.asarray(stdtrit(n - 1, 0.5 + LEVEL / 2) * x.std(axis=-1, ddof=1) / np.sqrt(n))


KEYS = {"seed", "round", "diverged"}


def metrics(frame: pd.DataFrame, axes: Sequence[str]) -> list[str]:
    """Measured numeric columns of a frame of rounds or ends."""
    return [
        name
        for name in frame.columns
        if name not in axes and name not in KEYS and pd.api.types.is_numeric_dtype(frame[name])
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


FINAL_COLUMNS = (
    "test_accuracy",
    "test_r2",
    "test_mae",
    "test_loss",
    "train_loss",
    "client_accuracy_worst_decile",
    "client_loss_worst_decile",
    "attack_success",
    "epsilon_exact_max",
    "epsilon_exact_overheard_max",
    "time_s",
    "bytes_up",
)
"""Columns of the table of rounds that are shown of a run's last version, where they say something."""

OWN = "metric_"
"""Beginning of the columns of metrics of a user's own."""


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds."""

    mean: float
    half: float
    """Half of the 95 % t interval; NaN of one seed, and where a value is infinite."""
    seeds: int

    @classmethod
    def of(cls, values: np.ndarray) -> Estimate:
        """Of values (n,), one per seed, none of them NaN."""
        if not len(values):
            return cls(np.nan, np.nan, 0)
        finite = bool(np.isfinite(values).all())
        half = float(half_width(values)) if len(values) > 1 and finite else np.nan
        return cls(float(values.mean()), half, len(values))

    def __str__(self) -> str:
        """The mean, ± half of its interval; an em dash where nothing is known."""
        if not self.seeds:
            return "—"
        return f"{self.mean:.4g}" if np.isnan(self.half) else f"{self.mean:.4g} ± {self.half:.2g}"


def finals(rounds: pd.DataFrame) -> dict[str, Sample]:
    """Column -> its value in the last version of each seed that did not diverge; columns that say nothing are left out.

    A number that is not measured at each version is that of the newest one where it was.
    """
    sound = rounds[~rounds["seed"].isin(rounds.loc[rounds["diverged"], "seed"])].sort_values(["seed", "version"])
    found = {}
    for column in [*FINAL_COLUMNS, *(name for name in rounds.columns if name.startswith(OWN))]:
        if column in sound and len(known := sound.dropna(subset=column)):
            last = known.groupby("seed")[column].last()
            if column.startswith("epsilon_") and not ((last > 0) & np.isfinite(last)).any():
                continue  # nothing is promised, or nothing was released
            found[column] = Sample(last.index.to_numpy(np.int64), last.to_numpy(np.float64))
    return found


def difference(a: Sample, b: Sample) -> Estimate:
    """Mean of b - a over the seeds that both have, with its interval."""
    first, second = pair(a, b)
    with np.errstate(invalid="ignore"):
        apart = second.values - first.values
    return Estimate.of(apart[~np.isnan(apart)])


def mean(sample: Sample) -> Estimate:
    """Mean over the seeds, with its interval."""
    return Estimate.of(sample.values)


def heading(column: str) -> str:
    """A column's name with its unit, where the name does not say it."""
    unit = unit_of(column)
    return f"{column} ({unit})" if unit and not column.endswith(f"_{unit}") else column
