"""What it costs a run to get somewhere: virtual time, rounds or traffic until a measured column reaches a value, or
until it has settled."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from asyncfl.component import Described

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
