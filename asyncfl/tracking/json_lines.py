"""JSON lines: each version as a line for programs that read along."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import IO, Any

from asyncfl.tracking.base import Tracker


class JsonLines(Tracker):
    """Writes `{"begin": ...}`, a `{"row": ...}` for each version, and `{"end": ...}`, a line each; what JSON lacks
    (infinities, NaN) becomes null."""

    def __init__(self, to: IO[str], folder: str) -> None:
        self._to, self._folder = to, folder

    def begin(self, name: str, scenario: Mapping[str, Any]) -> None:
        """The name of the run and its scenario."""
        self._write({"begin": {"run": name, "scenario": scenario}})

    def row(self, row: Mapping[str, Any]) -> None:
        """A row of the table of rounds."""
        self._write({"row": row})

    def end(self, summary: Mapping[str, Any]) -> None:
        """The folder of the run and its summary."""
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
