"""Tracker: what is told of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Tracker:
    """Base of all trackers. Each method does nothing unless it is overridden; what one raises ends no run."""

    def begin(self, name: str, scenario: Mapping[str, Any]) -> None:
        """A run begins, or one that is finished is read. name: 16 hexadecimal digits; scenario: nested plain values."""

    def row(self, row: Mapping[str, Any]) -> None:
        """A version was published: a row of the table of rounds, see `docs/columns.md`; NaN: not measured.

        Rows of a seed come in order of their `version`; of several seeds one after another.
        """

    def end(self, summary: Mapping[str, Any]) -> None:
        """The run is whole; `summary` is what stands in `summary.json`."""

    def close(self) -> None:
        """Nothing more comes; called last, also where the run was broken off."""
