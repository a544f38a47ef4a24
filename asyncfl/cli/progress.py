"""Progress bars on standard error, if it is a terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, Task, TaskID, TextColumn, TimeRemainingColumn
from rich.text import Text

from asyncfl.base.instrument import Instrument
from asyncfl.base.quantities import quantity
from asyncfl.cli.output import console
from asyncfl.scenario import Scenario

# Standard output may go to a file or to another program, so progress goes to standard error.
stderr = Console(stderr=True, highlight=False, markup=False, emoji=False)


class TimeLeftColumn(TimeRemainingColumn):
    """Time until a bar is full, `-:--:--` where it is not known.

    A full bar, and one that is late, have none: 0:00:00 would stand there for as long as what is not counted takes.
    """

    def render(self, task: Task) -> Text:
        known = not task.finished and task.time_remaining != 0
        return Text.assemble("left ", super().render(task)) if known else Text("")


def bars(quiet: bool) -> Progress:
    """Return bars on standard error, which are drawn if it is a terminal."""
    left, counts = TextColumn("{task.fields[note]}"), MofNCompleteColumn()
    return Progress(
        *(TextColumn("{task.description}"), BarColumn(), counts, left, TimeLeftColumn()),
        console=stderr,
        # A redirected standard output must not be redirected again to the terminal.
        redirect_stdout=console.is_terminal,
        disable=quiet or not stderr.is_terminal,
    )


class ProgressBar(Instrument):
    """Progress of a run: a bar of model versions with loss, virtual time and remaining real time."""

    def __init__(self, scenario: Scenario, quiet: bool) -> None:
        self._rounds = scenario.protocol.rounds
        self._seeds = {seed: place for place, seed in enumerate(scenario.seeds)}
        self._progress = bars(quiet)
        self._versions = self._progress.add_task("seed -", total=self._rounds * len(self._seeds), note="")
        self._computations: dict[str, TaskID] = {}

    def __enter__(self) -> ProgressBar:
        self._progress.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._progress.stop()

    def row(self, row: Mapping[str, Any]) -> None:
        """Advance the bar to the seed and version of `row`, a row of the table of rounds."""
        if self._progress.disable:
            return
        self._progress.update(
            self._versions,
            completed=self._seeds[row["seed"]] * self._rounds + row["version"],
            description=f"seed {row['seed']}",
            note=_note(row),
        )

    def progress(self, what: str, done: int, of: int | None) -> None:
        """Show `done` of `of` parts of a computation in a bar of its own, and remove the bar at the end."""
        if self._progress.disable:
            return
        if what not in self._computations:
            self._computations[what] = self._progress.add_task(what, total=of, note="")
        self._progress.update(self._computations[what], completed=done)
        if done == of:
            # Bars are drawn ten times a second; a shorter computation would never be seen without this.
            self._progress.refresh()
            self._progress.remove_task(self._computations.pop(what))


class SweepBars:
    """Progress of the runs of a sweep: a bar of model versions for each that is under way."""

    def __init__(self, runs: Mapping[Path, tuple[str, Scenario]], quiet: bool) -> None:
        """runs: folder of a run -> what was set for it, and its scenario."""
        self._runs, self._progress = runs, bars(quiet)
        self._under_way: dict[Path, TaskID] = {}
        self._ended: set[Path] = set()
        self._one_at_a_time = Lock()  # rows and ends come from two threads

    def __enter__(self) -> SweepBars:
        self._progress.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._progress.stop()

    def __call__(self, folder: Path, row: dict[str, Any]) -> None:
        """Advance the bar of a run to the seed and version of `row`, a row of its table of rounds."""
        if self._progress.disable:
            return
        name, scenario = self._runs[folder]
        rounds = scenario.protocol.rounds
        done = scenario.seeds.index(row["seed"]) * rounds + row["version"]
        with self._one_at_a_time:
            if folder in self._ended:
                return
            if folder not in self._under_way:
                self._under_way[folder] = self._progress.add_task(name, total=rounds * len(scenario.seeds), note="")
            self._progress.update(self._under_way[folder], completed=done, note=_note(row))

    def end(self, folder: Path) -> None:
        """Remove the bar of a run that has ended."""
        with self._one_at_a_time:
            self._ended.add(folder)
            if folder in self._under_way:
                self._progress.remove_task(self._under_way.pop(folder))


def _note(row: Mapping[str, Any]) -> str:
    loss = row["test_loss"] if math.isnan(row["train_loss"]) else row["train_loss"]
    loss_text = "" if math.isnan(loss) else f"loss {loss:.4f}  "
    return f"{loss_text}virtual {quantity(row['time_s'], 's')}  "
