"""What it costs a run to get somewhere: virtual time, rounds or traffic until a measured column reaches a value, or
until it has settled."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import Field, model_validator

from asyncfl.base.component import Described
from asyncfl.base.errors import RunError

Share = Annotated[float, Field(gt=0, lt=1)]


class Settling(Described):
    """When a run has converged: at the first version after which a column gets better no more.

    The column is smoothed (mean over `window`). From the version on, the smoothed column never lies more than `within`
    above (for one that falls: below) what it is there, and that has been watched for `watched` at least: a run that
    was still getting better shortly before its end has not converged. Nor has one that learnt nothing: there the
    smoothed column must lie more than `within` above where the run began.
    """

    within: Annotated[float, Field(ge=0)]
    """By how much it may get better afterwards, in units of the column."""
    window: Share = 0.1
    """Versions that are averaged, up to the one in question, as a share of those of the run; 0..1, exclusive."""
    watched: Share = 0.2
    """Versions that must follow, as a share of those of the run; 0..1, exclusive."""

    def settled_round(self, curve: pd.Series) -> int | None:
        """First round from which on a curve that rises has settled; None where it has not.

        curve: values by round (index), NaN where not measured. Round 0, the initial model, belongs to no window.
        """
        last = int(curve.index.max())
        known = curve[curve.index > 0].dropna().sort_index()
        window, watched = self.window * last, self.watched * last
        smooth = pd.Series({at: known[(known.index > at - window) & (known.index <= at)].mean() for at in known.index})
        to_come = smooth[::-1].cummax()[::-1]
        learnt = smooth > curve.dropna().sort_index().iloc[:1].max() + self.within
        settled = smooth.index[learnt & (to_come - smooth <= self.within) & (smooth.index <= last - watched)]
        return int(settled[0]) if len(settled) else None


class Target(Described):
    """A column of the ends of runs: the cost at the first version that reaches a value, or from which on a column has
    settled; infinite where none does."""

    cost: Literal["time_s", "round", "bytes_up", "bytes_down", "bytes"] = "time_s"
    """What is counted: virtual seconds, versions, or bytes on the links (`bytes`: both ways)."""
    column: str = "test_accuracy"
    """Column of the run's rounds that has to get there."""
    reaches: float | None = None
    """The value: at least this for a column that rises, at most this for one that falls."""
    settles: Settling | None = None
    """Instead of a value: when the column has settled."""
    direction: Literal["rises", "falls"] = "rises"
    """Which way the column goes as training succeeds."""

    @model_validator(mode="after")
    def _check_one(self) -> Target:
        if (self.reaches is None) == (self.settles is None):
            got = "neither" if self.reaches is None else "both"
            raise ValueError(f"needs either reaches, a value, or settles, when the column has converged, got {got}")
        return self

    @property
    def unit(self) -> str:
        """What the cost is measured in."""
        return {"time_s": "s", "round": "versions"}.get(self.cost, "bytes")

    def costs(self, rounds: pd.DataFrame, ends: pd.DataFrame) -> NDArray[np.float64]:
        """(n_seeds,) what it cost each run of `ends` to get there.

        rounds: rows of the runs by seed and round. Infinite where a run never reaches the value, or did so only before
        it diverged at its end. Raises RunError for a column that the runs do not have.
        """
        reached = self._first(rounds)
        counted = rounds["bytes_up"] + rounds["bytes_down"] if self.cost == "bytes" else rounds[self.cost]
        costs = counted.groupby([rounds["seed"], rounds["round"]]).first()
        at = [(seed, reached.get(seed, -1)) for seed in ends["seed"]]
        found = costs.reindex(pd.MultiIndex.from_tuples(at)).to_numpy(dtype=np.float64)
        lost = np.isnan(found) | ends["diverged"].to_numpy(dtype=bool)
        return np.where(lost, np.inf, found)

    def _first(self, rounds: pd.DataFrame) -> pd.Series:
        """Seed -> the round at which it got there; seeds that never did are left out."""
        if self.column not in rounds:
            raise RunError(f"the runs have no column {self.column}, which a target of the experiment names")
        # versions that were not evaluated are NaN, which reaches nothing
        values = rounds[self.column] if self.direction == "rises" else -rounds[self.column]
        if self.settles is None:
            assert self.reaches is not None
            wanted = self.reaches if self.direction == "rises" else -self.reaches
            return rounds[values >= wanted].groupby("seed")["round"].min()
        settled = {
            seed: self.settles.settled_round(pd.Series(own.to_numpy(), index=rounds.loc[own.index, "round"]))
            for seed, own in values.groupby(rounds["seed"])
        }
        return pd.Series({seed: at for seed, at in settled.items() if at is not None}, dtype=np.int64)
