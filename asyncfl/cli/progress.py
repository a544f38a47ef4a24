"""Progress bars on standard error, if it is a terminal."""

from __future__ import annotations

import math
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from asyncfl.base.quantities import quantity
from asyncfl.cli.output import console
from asyncfl.scenario import Scenario

# Standard output may go to a file or to another program, so progress goes to standard error.
stderr = Console(stderr=True, highlight=False, markup=False, emoji=False)


def bars(quiet: bool) -> Progress:
    """Return bars on standard error, which are drawn if it is a terminal."""
    left, counts = TextColumn("{task.fields[note]}left"), MofNCompleteColumn()
    return Progress(
        *(TextColumn("{task.description}"), BarColumn(), counts, left, TimeRemainingColumn()),
        console=stderr,
        # A redirected standard output must not be redirected again to the terminal.
        redirect_stdout=console.is_terminal,
        disable=quiet or not stderr.is_terminal,
    )


class ProgressBar:
    """Progress of a run: a bar of model versions with loss, virtual time and remaining real time."""

    def __init__(self, scenario: Scenario, quiet: bool) -> None:
        self._rounds = scenario.protocol.rounds
        self._seeds = {seed: place for place, seed in enumerate(scenario.seeds)}
        self._progress = bars(quiet)
        self._versions = self._progress.add_task("seed -", total=self._rounds * len(self._seeds), note="")
        self._stages: dict[str, TaskID] = {}

    def __enter__(self) -> ProgressBar:
        self._progress.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._progress.stop()

    def __call__(self, row: dict[str, Any]) -> None:
        """Advance the bar to the seed and version of `row`, a row of the table of rounds."""
        if self._progress.disable:
            return
        loss = row["test_loss"] if math.isnan(row["train_loss"]) else row["train_loss"]
        loss_text = "" if math.isnan(loss) else f"loss {loss:.4f}  "
        self._progress.update(
            self._versions,
            completed=self._seeds[row["seed"]] * self._rounds + row["version"],
            description=f"seed {row['seed']}",
            note=f"{loss_text}virtual {quantity(row['time_s'], 's')}  ",
        )

    def stage(self, what: str, done: int, of: int | None) -> None:
        """Show `done` of `of` steps of the stage `what` in a bar of its own, and remove the bar at the end."""
        if self._progress.disable:
            return
        if what not in self._stages:
            self._stages[what] = self._progress.add_task(what, total=of, note="")
        self._progress.update(self._stages[what], completed=done)
        if done == of:
            # Bars are drawn ten times a second; a shorter stage would never be seen without this.
            self._progress.refresh()
            self._progress.remove_task(self._stages.pop(what))
