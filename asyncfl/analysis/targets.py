"""Costs of reaching a target, per run: new columns of the table `ends`."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from asyncfl.errors import RunError
from asyncfl.experiment.target import Settling, Target


def add_targets(targets: Mapping[str, Target], rounds: pd.DataFrame, ends: pd.DataFrame) -> pd.DataFrame:
    """`ends` of one cell with a column for each target.

    rounds: rows of the cell's runs by seed and round. Infinite where a run never reaches the value, or did so only
    before it diverged at its end. Raises RunError for a column that the runs do not have.
    """
    ends = ends.copy()
    for name, target in targets.items():
        reached = _first(target, rounds)
        costs = _costs(target, rounds).groupby([rounds["seed"], rounds["round"]]).first()
        at = [(seed, reached.get(seed, -1)) for seed in ends["seed"]]
        found = costs.reindex(pd.MultiIndex.from_tuples(at)).to_numpy(dtype=np.float64)
        lost = np.isnan(found) | ends["diverged"].to_numpy(dtype=bool)
        ends[name] = np.where(lost, np.inf, found)
    return ends


def _first(target: Target, rounds: pd.DataFrame) -> pd.Series:
    """Seed -> the round at which it got there; seeds that never did are left out."""
    if target.column not in rounds:
        raise RunError(f"the runs have no column {target.column}, which a target of the experiment names")
    # versions that were not evaluated are NaN, which reaches nothing
    values = rounds[target.column] if target.direction == "rises" else -rounds[target.column]
    if target.settles is None:
        assert target.reaches is not None
        wanted = target.reaches if target.direction == "rises" else -target.reaches
        return rounds[values >= wanted].groupby("seed")["round"].min()
    settled = {
        seed: settled_round(pd.Series(own.to_numpy(), index=rounds.loc[own.index, "round"]), target.settles)
        for seed, own in values.groupby(rounds["seed"])
    }
    return pd.Series({seed: at for seed, at in settled.items() if at is not None}, dtype=np.int64)


def settled_round(curve: pd.Series, settling: Settling) -> int | None:
    """First round from which on a curve that rises has settled; None where it has not.

    curve: values by round (index), NaN where not measured. Round 0, the initial model, belongs to no window.
    """
    last = int(curve.index.max())
    known = curve[curve.index > 0].dropna().sort_index()
    window, watched = settling.window * last, settling.watched * last
    smooth = pd.Series({at: known[(known.index > at - window) & (known.index <= at)].mean() for at in known.index})
    to_come = smooth[::-1].cummax()[::-1]
    learnt = smooth > curve.dropna().sort_index().iloc[:1].max() + settling.within
    settled = smooth.index[learnt & (to_come - smooth <= settling.within) & (smooth.index <= last - watched)]
    return int(settled[0]) if len(settled) else None


def _costs(target: Target, rounds: pd.DataFrame) -> pd.Series:
    both: pd.Series = rounds["bytes_up"] + rounds["bytes_down"] if target.cost == "bytes" else rounds[target.cost]
    return both
