"""Costs of reaching a target, per run: new columns of the table `ends`."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from asyncfl.errors import RunError
from asyncfl.experiment.target import Target


def add_targets(targets: Mapping[str, Target], rounds: pd.DataFrame, ends: pd.DataFrame) -> pd.DataFrame:
    """`ends` of one cell with a column for each target.

    rounds: rows of the cell's runs by seed and round. Infinite where a run never reaches the value, or did so only
    before it diverged at its end. Raises RunError for a column that the runs do not have.
    """
    ends = ends.copy()
    for name, target in targets.items():
        reached = rounds[_reached(target, rounds)].groupby("seed")["round"].min()
        costs = _costs(target, rounds).groupby([rounds["seed"], rounds["round"]]).first()
        at = [(seed, reached.get(seed, -1)) for seed in ends["seed"]]
        found = costs.reindex(pd.MultiIndex.from_tuples(at)).to_numpy(dtype=np.float64)
        lost = np.isnan(found) | ends["diverged"].to_numpy(dtype=bool)
        ends[name] = np.where(lost, np.inf, found)
    return ends


def _reached(target: Target, rounds: pd.DataFrame) -> pd.Series:
    if target.column not in rounds:
        raise RunError(f"the runs have no column {target.column}, which a target of the experiment names")
    # versions that were not evaluated are NaN, which reaches nothing
    values = rounds[target.column]
    hit: pd.Series = values >= target.reaches if target.direction == "rises" else values <= target.reaches
    return hit


def _costs(target: Target, rounds: pd.DataFrame) -> pd.Series:
    both: pd.Series = rounds["bytes_up"] + rounds["bytes_down"] if target.cost == "bytes" else rounds[target.cost]
    return both
