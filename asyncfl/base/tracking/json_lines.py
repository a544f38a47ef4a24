"""Tracker that prints a JSON line for each version, for other programs to read."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import IO, Any

from asyncfl.base.tracking.tracker import Tracker


class JsonLines(Tracker):
    """Writer of the lines `{"begin": ...}`, `{"row": ...}` for each version, and `{"end": ...}`.

    Infinities and NaN, which JSON lacks, become null.
    """

    def __init__(self, to: IO[str], folder: str) -> None:
        self._to, self._folder = to, folder

    def begin(self, name: str, scenario: Mapping[str, Any]) -> None:
        """Write the name of the run and its scenario."""
        self._write({"begin": {"run": name, "scenario": scenario}})

    def row(self, row: Mapping[str, Any]) -> None:
        """Write a row of `rounds`."""
        self._write({"row": row})

    def end(self, summary: Mapping[str, Any]) -> None:
        """Write the folder of the run and its summary."""
        self._write({"end": {"folder": self._folder, "summary": summary}})

    def _write(self, value: Any) -> None:
        print(json.dumps(_plain(value), ensure_ascii=False), file=self._to, flush=True)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, bool | int | str) or value is None:
        return value
    number = float(value)
    return number if math.isfinite(number) else None
