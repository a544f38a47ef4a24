"""What runs came to: the numbers of their last versions by seed, their means, and paired differences between runs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from asyncfl.experiments.columns import unit_of
from asyncfl.experiments.evidence.samples import Sample, pair
from asyncfl.experiments.intervals import half_width

SHOWN = (
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
    for column in [*SHOWN, *(name for name in rounds.columns if name.startswith(OWN))]:
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
