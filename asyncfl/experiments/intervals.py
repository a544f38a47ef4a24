"""Means over seeds with their 95 % intervals, for tables, figures and commands; claims are judged by `evidence`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from asyncfl.experiments.evidence.p_values import Sample, pair
from asyncfl.experiments.experiment_columns import unit_of
from asyncfl.experiments.experiment_tables import FATES

LEVEL = 0.95
OF_TWO = 12.706
"""Half the 95 % t interval of two seeds over half their difference."""


def convention(seeds: int) -> str:
    """Return in words what numbers over `seeds` seeds mean in tables and texts."""
    if seeds < 2:
        return f"value of n = {seeds} seed, which tells no interval (–)"
    wide = f"; with two that is {OF_TWO:.1f} times half their difference" if seeds == 2 else ""
    return f"mean ± half of the 95 % t interval over n = {seeds} seeds{wide}"


def drawn_convention(fewer: Sequence[int], seeds: int, own: str) -> str:
    """Return in words what figures show of `seeds` seeds, and in some cells of `fewer`.

    own: the shapes of two seeds' own values; empty: means are drawn alone.
    """
    others = f", in some cells {' or '.join(map(str, fewer))}" if fewer else ""
    if not own and seeds > 1:
        return f"mean over n = {seeds} seeds{others}"
    others += " (one seed tells no interval)" if 1 in fewer else ""
    if not own or 2 not in (*fewer, seeds):
        return convention(seeds) + others
    wide = f"{own} their own values, as the 95 % t interval is {OF_TWO:.1f} times as wide"
    return f"mean over n = 2 seeds, {wide}" if seeds == 2 else f"{convention(seeds)}{others}, of two {wide}"


def over_seeds(frame: pd.DataFrame, axes: Sequence[str], by_round: bool) -> pd.DataFrame:
    """Return a long frame with mean and 95 % interval over the seeds that did not diverge, and how many did.

    Values that no seed evaluated are left out. One seed has no interval, nor has a target that not every seed reached.
    Intervals may reach beyond what a column can be, such as below 0: figures end them there.
    """
    from scipy.special import stdtrit

    columns = [*axes, "round"] if by_round else list(axes)
    measured = frame.drop(columns=[*columns, "seed", "diverged", "round"], errors="ignore").select_dtypes("number")
    group = frame.groupby(columns, sort=False, dropna=False).ngroup() if columns else pd.Series(0, index=frame.index)
    lost = frame["diverged"].astype(bool)
    diverged = lost.groupby(group).sum()
    by_group = measured[~lost].astype(np.float64).groupby(group[~lost])
    seeds = by_group.count().reindex(diverged.index, fill_value=0)
    with np.errstate(invalid="ignore"):  # infinities of both signs have no mean
        mean, sd = (of.reindex(diverged.index) for of in (by_group.mean(), by_group.std()))
    half = stdtrit(seeds - 1, 0.5 + LEVEL / 2) * sd / np.sqrt(seeds)
    parts = {"mean": mean, "low": mean - half, "high": mean + half, "seeds": seeds}
    long = pd.DataFrame({name: of.to_numpy().ravel() for name, of in parts.items()})
    place = np.repeat(np.arange(len(diverged)), measured.shape[1])
    long.insert(0, "metric", np.tile(measured.columns, len(diverged)))
    long["diverged"] = diverged.to_numpy()[place]
    kept = ((long["seeds"] > 0) | (long["diverged"] > 0)).to_numpy()
    keys = frame.loc[~group.duplicated(), columns].iloc[place[kept]]
    return pd.concat([keys.reset_index(drop=True), long[kept].reset_index(drop=True)], axis=1)


FINAL_COLUMNS = (
    *("test_accuracy", "test_r2", "test_mae", "test_loss", "train_loss", "client_accuracy_worst_decile"),
    *("client_loss_worst_decile", "attack_success", "epsilon_exact_max", "epsilon_exact_overheard_max"),
    *("time_s", "bytes_up"),
)
"""Columns of the table of rounds that are shown of a run's last version."""


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds."""

    mean: float
    half: float
    """Half of the 95 % t interval; NaN of one seed, and where a value is infinite."""
    seeds: int

    @classmethod
    def of(cls, values: np.ndarray) -> Estimate:
        """Estimate the mean of values (n,), one per seed, none of them NaN."""
        if not len(values):
            return cls(np.nan, np.nan, 0)
        from scipy.special import stdtrit

        n = len(values)
        known = n > 1 and bool(np.isfinite(values).all())
        half = float(stdtrit(n - 1, 0.5 + LEVEL / 2) * values.std(ddof=1) / np.sqrt(n)) if known else np.nan
        return cls(float(values.mean()), half, n)

    def __str__(self) -> str:
        if not self.seeds:
            return "—"
        return f"{self.mean:.4g}" if np.isnan(self.half) else f"{self.mean:.4g} ± {self.half:.2g}"


def finals(rounds: pd.DataFrame) -> dict[str, Sample]:
    """Return column -> its newest measured value of each seed that did not diverge, where there is one."""
    sound = rounds[~rounds["seed"].isin(rounds.loc[rounds["diverged"], "seed"])].sort_values(["seed", "version"])
    found = {}
    for column in [*FINAL_COLUMNS, *(name for name in rounds.columns if name.startswith("metric_"))]:
        if column in sound and len(known := sound.dropna(subset=column)):
            last = known.groupby("seed")[column].last()
            if column.startswith("epsilon_") and not ((last > 0) & np.isfinite(last)).any():
                continue  # nothing is promised, or nothing was released
            found[column] = Sample(last.index.to_numpy(np.int64), last.to_numpy(np.float64))
    return found


def outcomes(rounds: pd.DataFrame, summary: Mapping[str, Any]) -> dict[str, Sample]:
    """Return `updates_per_version`, the mean over the versions, and `interrupted_share` of the tasks (see
    `WholeRunColumns`), of each seed that did not diverge."""
    diverged = set(rounds.loc[rounds["diverged"], "seed"])
    made = rounds[(rounds["version"] > 0) & ~rounds["seed"].isin(diverged)].groupby("seed")["participants"].mean()
    shares = {}
    for seed, of_seed in summary["seeds"].items():
        fates = of_seed["fates"]
        if int(seed) not in diverged and (tasks := sum(fates.values())):
            shares[int(seed)] = sum(fates.get(fate, 0) for fate in FATES["interrupted_share"]) / tasks
    found = {"updates_per_version": made, "interrupted_share": pd.Series(shares, dtype=np.float64).sort_index()}
    return {name: Sample(of.index.to_numpy(np.int64), of.to_numpy(np.float64)) for name, of in found.items() if len(of)}


def run_notes(summary: Mapping[str, Any]) -> list[str]:
    """Return the notes of a run, and of each seed that ended before its last version why it did."""
    ended = {seed: one for seed, one in summary["seeds"].items() if one["stopped"] != "all versions published"}
    early = [f"seed {seed} ended at version {one['versions']}: {one['stopped']}" for seed, one in ended.items()]
    return [*summary.get("notes", []), *early]


def notes_of(runs: Mapping[str, Sequence[str]]) -> list[str]:
    """Return each note of some runs once, with the names of its runs where others lack it. runs: name -> notes."""
    found: dict[str, list[str]] = {}
    for name, notes in runs.items():
        for note in dict.fromkeys(notes):
            found.setdefault(note, []).append(name)
    return [f"note{'' if len(of) == len(runs) else ' of ' + '; '.join(of)}: {note}" for note, of in found.items()]


def difference(a: Sample, b: Sample) -> Estimate:
    """Return the mean of b - a over the seeds that both have, with its interval."""
    first, second = pair(a, b)
    with np.errstate(invalid="ignore"):
        apart = second.values - first.values
    return Estimate.of(apart[~np.isnan(apart)])


def mean(sample: Sample) -> Estimate:
    return Estimate.of(sample.values)


def heading(column: str) -> str:
    """Return a column's name with its unit, unless the name contains it."""
    unit = unit_of(column)
    return f"{column} ({unit})" if unit and not column.endswith(f"_{unit}") else column
