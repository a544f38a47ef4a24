"""Costs of reaching a target: virtual time, rounds or traffic until a measured column reaches a value, or until it has
settled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import Field, model_validator

from asyncfl.base.component import Described
from asyncfl.base.errors import RunError

Share = Annotated[float, Field(gt=0, lt=1)]


class Settling(Described):
    """Convergence of a run: the first version after which a column gets better no more.

    The column is smoothed (mean over `window`). From the version on, the smoothed column never lies more than `within`
    above (for one that falls: below) what it is there, and that has been watched for `watched` at least: a run that
    was still getting better shortly before its end has not converged. Nor has one that learnt nothing: there the
    smoothed column must lie more than `within` above where the run began.
    """

    within: Annotated[float, Field(ge=0)]
    """Improvement that is allowed afterwards, in units of the column."""
    window: Share = 0.1
    """Versions that are averaged, up to the one in question, as a share of those of the run; 0..1, exclusive."""
    watched: Share = 0.2
    """Versions that must follow, as a share of those of the run; 0..1, exclusive."""

    def settled_round(self, curve: pd.Series) -> int | None:
        """Return the first round from which on a rising curve has settled; None where it has not.

        curve: values by round (index), NaN where not measured. Round 0, the initial model, belongs to no window.
        """
        last, known = int(curve.index.max()), curve.dropna().sort_index()
        smooth = pd.Series(
            {at: known[known.index > max(0, at - self.window * last)].loc[:at].mean() for at in known.index}
        )
        smooth = smooth[smooth.index > 0]
        to_come = smooth[::-1].cummax()[::-1]
        learnt = smooth > known.iloc[:1].max() + self.within
        watched = smooth.index <= last - self.watched * last
        settled = smooth.index[learnt & (to_come - smooth <= self.within) & watched]
        return int(settled[0]) if len(settled) else None


class Target(Described):
    """A column of the ends of runs: the cost at the first version that reaches a value, or from which on a column has
    settled; infinite where none does."""

    cost: Literal["time_s", "round", "bytes_up", "bytes_down", "bytes"] = "time_s"
    """The cost: virtual seconds, versions, or bytes on the links (`bytes`: both ways)."""
    column: str = "test_accuracy"
    """Column of the run's rounds that has to get there."""
    reaches: float | None = None
    """The value: at least this for a column that rises, at most this for one that falls."""
    settles: Settling | None = None
    """Instead of a value: when the column has settled."""
    direction: Literal["rises", "falls"] = "rises"
    """Direction of the column as training succeeds."""

    @model_validator(mode="after")
    def _check_one(self) -> Target:
        if (self.reaches is None) == (self.settles is None):
            got = "neither" if self.reaches is None else "both"
            raise ValueError(f"needs either reaches, a value, or settles, when the column has converged, got {got}")
        return self

    @property
    def unit(self) -> str:
        """Unit of the cost."""
        return {"time_s": "s", "round": "versions"}.get(self.cost, "bytes")

    def costs(self, rounds: pd.DataFrame, ends: pd.DataFrame) -> NDArray[np.float64]:
        """Return the cost (n_seeds,) of each run of `ends`.

        rounds: rows of the runs by seed and round. Infinite where a run never reaches the value, or did so only before
        it diverged at its end. Raises RunError for a column that the runs do not have.
        """
        return self.intervals(rounds, ends)[:, 1]

    def intervals(self, rounds: pd.DataFrame, ends: pd.DataFrame) -> NDArray[np.float64]:
        """Return the interval (n_seeds, 2) in which the cost of each run lies, if not all versions were evaluated.

        Its upper end is the cost at the first evaluated version that reaches the target, see `costs`, and its lower end
        the cost at the evaluated version before. Both are equal where no version lies between the two.
        """
        if self.column not in rounds:
            raise RunError(f"the runs have no column {self.column}, which a target of the experiment names")
        # versions that were not evaluated are NaN, which reaches nothing
        sign = 1.0 if self.direction == "rises" else -1.0
        values = sign * rounds[self.column]
        reached: Mapping[Any, int | None]
        if self.settles is None:
            reached = rounds[values >= sign * (self.reaches or 0.0)].groupby("seed")["round"].min().to_dict()
        else:
            curves = values.set_axis(rounds["round"]).groupby(rounds["seed"].to_numpy())
            reached = {seed: self.settles.settled_round(curve) for seed, curve in curves}
        evaluated = rounds.loc[values.notna()].sort_values(["seed", "round"])
        before = {
            seed: _lower(of["round"].to_numpy(), at)
            for seed, of in evaluated.groupby("seed")
            if (at := reached.get(seed)) is not None
        }
        counted = rounds["bytes_up"] + rounds["bytes_down"] if self.cost == "bytes" else rounds[self.cost]
        costs = counted.groupby([rounds["seed"], rounds["round"]]).first()
        never = ends["diverged"].to_numpy(dtype=bool)
        found = []
        for versions in (before, reached):
            at = pd.MultiIndex.from_arrays([ends["seed"], ends["seed"].map(versions).fillna(-1)])
            cost = costs.reindex(at).to_numpy(dtype=np.float64)
            found.append(np.where(np.isnan(cost) | never, np.inf, cost))
        return np.stack(found, axis=1)


def _lower(evaluated: NDArray[np.integer], reached: int) -> int:
    """Return the evaluated version before `reached`, or `reached` itself if no version lies between them.

    evaluated: versions (n,), ascending.
    """
    before = int(evaluated[evaluated < reached].max(initial=-1))
    return reached if before in (-1, reached - 1) else before
