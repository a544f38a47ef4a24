"""How far a run has come, as a bar on the terminal."""

from __future__ import annotations

import math
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from asyncfl.cli.output import console
from asyncfl.quantities import quantity
from asyncfl.scenario import Scenario


class ProgressBar:
    """Progress of a run: round, loss, virtual time, and the real time that is left."""

    def __init__(self, scenario: Scenario, quiet: bool) -> None:
        self._rounds = scenario.protocol.rounds
        self._seeds = {seed: place for place, seed in enumerate(scenario.seeds)}
        self._progress = Progress(
            TextColumn("seed {task.fields[seed]}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("loss {task.fields[loss]}  virtual {task.fields[virtual]}  left"),
            TimeRemainingColumn(),
            console=console,
            disable=quiet or not console.is_terminal,
        )
        total = self._rounds * len(self._seeds)
        self._task = self._progress.add_task("run", total=total, seed="-", loss="-", virtual="0 s")

    def __enter__(self) -> ProgressBar:
        self._progress.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._progress.stop()

    def __call__(self, row: dict[str, Any]) -> None:
        loss = row["test_loss"] if math.isnan(row["train_loss"]) else row["train_loss"]
        self._progress.update(
            self._task,
            completed=self._seeds[row["seed"]] * self._rounds + row["version"],
            seed=row["seed"],
            loss="-" if math.isnan(loss) else f"{loss:.4f}",
            virtual=quantity(row["time_s"], "s"),
        )
