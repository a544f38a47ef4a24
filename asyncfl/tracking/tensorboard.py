"""TensorBoard: the numbers of each version as scalars, a folder for each run and seed."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from asyncfl.errors import OutputError
from asyncfl.tracking.base import Tracker

_KEYS = ("seed", "version", "diverged")


class TensorBoard(Tracker):
    """Writes `<folder>/<run>/seed-<seed>`, which `tensorboard --logdir <folder>` shows."""

    def __init__(self, folder: Path) -> None:
        """Raises OutputError where TensorBoard is not installed."""
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise OutputError("--track tensorboard needs TensorBoard: pip install 'asyncfl[tensorboard]'") from None
        self._make: Any = SummaryWriter
        self._folder = folder
        self._writers: dict[int, Any] = {}

    def begin(self, name: str, scenario: Mapping[str, Any]) -> None:
        """Scalars go to a folder of the run's name; the scenario is a text in it."""
        self._folder = self._folder / name
        self._scenario = json.dumps(scenario, indent=2)

    def row(self, row: Mapping[str, Any]) -> None:
        """Every number of the row that was measured is a scalar at the step of its version."""
        seed = int(row["seed"])
        if seed not in self._writers:
            # What an earlier call told of this run is hidden, so that no curve is drawn twice.
            self._writers[seed] = self._make(str(self._folder / f"seed-{seed}"), purge_step=0)
            self._writers[seed].add_text("scenario", f"```json\n{self._scenario}\n```")
        for name, value in row.items():
            if name not in _KEYS and isinstance(value, int | float) and math.isfinite(value):
                self._writers[seed].add_scalar(name, value, int(row["version"]))

    def close(self) -> None:
        """Everything is written out."""
        for writer in self._writers.values():
            writer.close()
