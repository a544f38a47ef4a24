"""Base class of trackers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Tracker:
    """Base class of trackers. Its methods do nothing; an exception in an override does not end the run."""

    def begin(self, name: str, scenario: Mapping[str, Any]) -> None:
        """Begin a run, or the reading of a finished one. `name`: 16 hexadecimal digits; `scenario`: plain values."""

    def row(self, row: Mapping[str, Any]) -> None:
        """Receive a published version as a row of `rounds`, see `docs/columns.md`. NaN: not measured.

        Rows come seed after seed, in order of `version`.
        """

    def end(self, summary: Mapping[str, Any]) -> None:
        """Receive the summary of the complete run, the content of `summary.json`."""

    def close(self) -> None:
        """Release resources. Called last, also after an interrupted run."""
