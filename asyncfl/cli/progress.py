"""How far a command has come, as bars on the terminal of standard error."""

from __future__ import annotations

import math
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from asyncfl.cli.output import console
from asyncfl.quantities import quantity
from asyncfl.scenario import Scenario

# What a command prints may go to a file or to another program; how far it has come is for whoever waits.
stderr = Console(stderr=True, highlight=False, markup=False, emoji=False)


class ProgressBar:
    """Progress of runs: a bar of versions, with loss, virtual time and the real time that is left; and one for each
    further stage while it lasts (`asyncfl.stages`)."""

    def __init__(self, scenario: Scenario, quiet: bool) -> None:
        self._rounds = scenario.protocol.rounds
        self._seeds = {seed: place for place, seed in enumerate(scenario.seeds)}
        self._shown = stderr.is_terminal and not quiet
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}left"),
            TimeRemainingColumn(),
            console=stderr,
            # Where standard output is no terminal, what is printed meanwhile stays there.
            redirect_stdout=console.is_terminal,
            disable=not self._shown,
        )
        total = self._rounds * len(self._seeds)
        self._versions = self._progress.add_task("seed -", total=total, note="")
        self._stages: dict[str, TaskID] = {}

    def __enter__(self) -> ProgressBar:
        self._progress.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._progress.stop()

    def __call__(self, row: dict[str, Any]) -> None:
        """Is told a row of the table of rounds."""
        if not self._shown:
            return
        loss = row["test_loss"] if math.isnan(row["train_loss"]) else row["train_loss"]
        told = "" if math.isnan(loss) else f"loss {loss:.4f}  "
        self._progress.update(
            self._versions,
            completed=self._seeds[row["seed"]] * self._rounds + row["version"],
            description=f"seed {row['seed']}",
            note=f"{told}virtual {quantity(row['time_s'], 's')}  ",
        )

    def stage(self, what: str, done: int, of: int | None) -> None:
        """Is told how far a stage is, which is shown until it is done; see `asyncfl.stages.Stage`."""
        if not self._shown:
            return
        if what not in self._stages:
            self._stages[what] = self._progress.add_task(what, total=of, note="")
        self._progress.update(self._stages[what], completed=done)
        if done == of:
            # It is drawn once more, for the terminal is drawn ten times a second and a stage may be shorter.
            self._progress.refresh()
            self._progress.remove_task(self._stages.pop(what))
