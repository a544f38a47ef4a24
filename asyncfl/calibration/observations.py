"""What the events of runs tell of the world that they happened in: how long each thing took, and what was cut off."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from asyncfl.errors import RunError
from asyncfl.scenario import Scenario
from asyncfl.storage import Run
from asyncfl.trace.events import Kind
from asyncfl.trace.tasks import KINDS, Tasks, codes, tasks_of

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

Work: TypeAlias = Callable[[int, Floats, Floats], Floats]
"""(place of a run, beginnings, ends) -> seconds on a processor of its own that each of these intervals comes to."""

FEWEST_TASKS = 10
"""Trainings seen to their end that a world is fitted to at least."""


@dataclass(frozen=True)
class ObservedRun:
    """One seed of a run."""

    name: str
    scenario: Scenario
    samples: Ints
    """(clients,) training samples of each."""
    events: pa.Table
    tasks: Tasks
    kind: Ints
    """(events,) place in `KINDS`."""

    @classmethod
    def of(cls, name: str, scenario: Scenario, samples: Ints, events: pa.Table) -> ObservedRun:
        """The events of a seed, in order. Raises RunError where they do not tell enough."""
        tasks = tasks_of(events)
        finished = int(np.count_nonzero(~np.isnan(tasks.training_s)))
        if finished < FEWEST_TASKS:
            raise RunError(
                f"{name}: its events tell of {finished} trainings from beginning to end, and a world takes "
                f"{FEWEST_TASKS} at least; let the run go on for longer"
            )
        return cls(name, scenario, samples, events, tasks, codes(events["kind"], KINDS))

    @staticmethod
    def kind_of(kind: Kind) -> int:
        """Place of a kind in `KINDS`."""
        return KINDS.index(kind)

    def rows(self, *kinds: Kind) -> Ints:
        """Numbers of the events of these kinds, in order."""
        return np.flatnonzero(np.isin(self.kind, [KINDS.index(one) for one in kinds]))

    def column(self, name: str) -> NDArray[np.float64]:
        """A column of the events."""
        column: NDArray[np.float64] = self.events[name].to_numpy()
        return column

    @property
    def training_finished(self) -> NDArray[np.bool_]:
        """(tasks,) whether the training came to its end, and was not stopped at its deadline."""
        rows = self.rows(Kind.TRAINED)
        whole = np.array([not detail for detail in self.events["detail"].take(rows).to_pylist()], dtype=bool)
        tasks = self.tasks
        begun = ~np.isnan(tasks.training_started_s) & ~np.isnan(tasks.trained_s)
        return np.asarray(begun & np.isin(tasks.task, self.column("task")[rows[whole]]))

    @property
    def end_s(self) -> float:
        """When the trace ends."""
        return float(self.column("time_s").max())


@dataclass(frozen=True)
class Trainings:
    """Trainings as columns of equal length."""

    client: Ints
    work: Floats
    """Samples times epochs."""
    seconds: Floats
    """On a processor of its own."""
    seen: NDArray[np.bool_]
    """Whether it came to its end; else it took longer than that."""


def observe_run(run: Run, name: str, seed: int | None) -> ObservedRun:
    """One seed of a run. `seed` None: its first.

    Raises RunError where it has no such seed, or its events do not tell enough.
    """
    seed = run.scenario.seeds[0] if seed is None else seed
    if seed not in run.scenario.seeds:
        raise RunError(f"{name} has no seed {seed}; its seeds are {', '.join(map(str, run.scenario.seeds))}")
    events = run.tables["events"].filter(pc.equal(run.tables["events"]["seed"], seed))
    clients = run.tables["clients"].filter(pc.equal(run.tables["clients"]["seed"], seed))
    samples = np.zeros(run.scenario.data.clients, dtype=np.int64)
    samples[clients["client"].to_numpy()] = clients["samples"].to_numpy()
    return ObservedRun.of(f"{name}, seed {seed}", run.scenario, samples, events)


def trainings_of(runs: Sequence[ObservedRun], work: Work) -> Trainings:
    """All trainings that had begun, of all runs. `work`: what they would have taken alone."""
    parts = []
    for place, run in enumerate(runs):
        begun = ~np.isnan(run.tasks.training_started_s)
        tasks, seen = run.tasks.only(begun), run.training_finished[begun]
        left_s = np.where(np.isnan(tasks.left_s), tasks.end_s, tasks.left_s)
        until_s = np.where(np.isnan(tasks.trained_s), left_s, tasks.trained_s)
        asked = run.samples[tasks.client] * float(run.scenario.training.epochs)
        parts.append((tasks.client, asked, work(place, tasks.training_started_s, until_s), seen))
    client, asked, seconds, seen = (np.concatenate(column) for column in zip(*parts, strict=True))
    some = asked > 0
    return Trainings(client[some], asked[some].astype(np.float64), seconds[some].astype(np.float64), seen[some])
