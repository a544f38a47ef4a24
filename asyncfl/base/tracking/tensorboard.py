"""Tracker that writes the measurements of each version for TensorBoard."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from asyncfl.base.errors import OutputError
from asyncfl.base.tracking.tracker import Tracker

_KEYS = ("seed", "version", "diverged")


class TensorBoard(Tracker):
    """Writer of `<folder>/<run>/seed-<seed>`, for `tensorboard --logdir <folder>`."""

    def __init__(self, folder: Path) -> None:
        """Raise OutputError where TensorBoard is not installed."""
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise OutputError("--track tensorboard needs TensorBoard: pip install 'asyncfl[tensorboard]'") from None
        self._make: Any = SummaryWriter
        self._folder = folder
        self._writers: dict[int, Any] = {}

    def begin(self, name: str, scenario: Mapping[str, Any]) -> None:
        """Choose the folder of the run, and keep the scenario to write it as text."""
        self._folder = self._folder / name
        self._scenario = json.dumps(scenario, indent=2)

    def row(self, row: Mapping[str, Any]) -> None:
        """Write each finite number of the row as a scalar, with the version as step."""
        seed = int(row["seed"])
        if seed not in self._writers:
            # Purging hides the scalars of an earlier attempt, so that no curve is drawn twice.
            self._writers[seed] = self._make(str(self._folder / f"seed-{seed}"), purge_step=0)
            self._writers[seed].add_text("scenario", f"```json\n{self._scenario}\n```")
        for name, value in row.items():
            if name not in _KEYS and isinstance(value, int | float) and math.isfinite(value):
                self._writers[seed].add_scalar(name, value, int(row["version"]))

    def close(self) -> None:
        """Flush and close all files."""
        for writer in self._writers.values():
            writer.close()
