"""What it costs a run to get somewhere: virtual time, rounds or traffic until a measured column reaches a value."""

from __future__ import annotations

from typing import Literal

from asyncfl.component import Described


class Target(Described):
    """A column of the ends of runs: the cost at the first version that reaches a value; infinite where none does."""

    cost: Literal["time_s", "round", "bytes_up", "bytes_down", "bytes"] = "time_s"
    """What is counted: virtual seconds, versions, or bytes on the links (`bytes`: both ways)."""
    column: str = "test_accuracy"
    """Column of the run's rounds that has to get there."""
    reaches: float
    """The value: at least this for a column that rises, at most this for one that falls."""
    direction: Literal["rises", "falls"] = "rises"
    """Which way the column goes as training succeeds."""
