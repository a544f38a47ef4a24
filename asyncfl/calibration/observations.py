"""Observations of runs for a fit: one seed of a run with its tasks, and durations of trainings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from asyncfl.base.errors import RunError
from asyncfl.calibration.families import Floats
from asyncfl.federation.storage import Run
from asyncfl.scenario import Scenario
from asyncfl.trace.events import Kind
from asyncfl.trace.tasks import KINDS, Tasks, codes, tasks_of

Ints = NDArray[np.int64]

Work: TypeAlias = Callable[[int, Floats, Floats], Floats]
"""(index of a run, starts, ends) -> seconds of work on an unshared processor in each interval."""

FEWEST_TASKS = 10
"""Smallest number of finished trainings to which a world is fitted."""


@dataclass(frozen=True)
class ObservedRun:
    """Events and tasks of one seed of a run."""

    name: str
    scenario: Scenario
    samples: Ints
    """(clients,) training samples of each client."""
    events: pa.Table
    tasks: Tasks
    kind: Ints
    """(events,) index in `KINDS`."""

    @classmethod
    def of(cls, name: str, scenario: Scenario, samples: Ints, events: pa.Table) -> ObservedRun:
        """Create from the events of a seed, in order. Raises RunError for too few finished trainings."""
        tasks = tasks_of(events)
        finished = int(np.count_nonzero(~np.isnan(tasks.training_s)))
        if finished < FEWEST_TASKS:
            raise RunError(
                f"{name}: must have at least {FEWEST_TASKS} finished trainings, got {finished}; give a longer run"
            )
        return cls(name, scenario, samples, events, tasks, codes(events["kind"], KINDS))

    def rows(self, *kinds: Kind) -> Ints:
        """Return the row numbers of the events of these kinds, in order."""
        return np.flatnonzero(np.isin(self.kind, [KINDS.index(one) for one in kinds]))

    def column(self, name: str) -> NDArray[np.float64]:
        """Return the column `name` of the events, (events,)."""
        column: NDArray[np.float64] = self.events[name].to_numpy()
        return column

    @property
    def work(self) -> Floats:
        """Samples times epochs of each task's client, (tasks,)."""
        return np.asarray(self.samples[self.tasks.client] * float(self.scenario.training.epochs), dtype=np.float64)

    @property
    def training_finished(self) -> NDArray[np.bool_]:
        """Whether each training finished all its epochs, (tasks,)."""
        rows = self.rows(Kind.TRAINED)
        whole = np.array([not detail for detail in self.events["detail"].take(rows).to_pylist()], dtype=bool)
        tasks = self.tasks
        begun = ~np.isnan(tasks.training_started_s) & ~np.isnan(tasks.trained_s)
        return np.asarray(begun & np.isin(tasks.task, self.column("task")[rows[whole]]))

    @property
    def end_s(self) -> float:
        return float(self.column("time_s").max())


def left_s(tasks: Tasks) -> Floats:
    """Return when each task's client ended its work, (tasks,): the end of the trace where no event shows it."""
    return np.where(np.isnan(tasks.left_s), tasks.end_s, tasks.left_s)


def trained_s(tasks: Tasks) -> Floats:
    """Return when each training ended, (tasks,): when the client ended its work where no event shows it."""
    return np.where(np.isnan(tasks.trained_s), left_s(tasks), tasks.trained_s)


@dataclass(frozen=True)
class Trainings:
    client: Ints
    work: Floats
    """Samples times epochs."""
    seconds: Floats
    """Seconds on an unshared processor."""
    seen: NDArray[np.bool_]
    """Whether the training finished; otherwise it would have taken longer."""


def observe_run(run: Run, name: str, seed: int | None) -> ObservedRun:
    """Return the observations of one seed of a run. `name`: name of the run in messages. `seed` None: the first seed.

    Raises RunError for an unknown seed and for too few finished trainings.
    """
    seed = run.scenario.seeds[0] if seed is None else seed
    if seed not in run.scenario.seeds:
        raise RunError(f"{name} has no seed {seed}; its seeds are {', '.join(map(str, run.scenario.seeds))}")
    events, clients = (run.tables[table].filter(pc.field("seed") == seed) for table in ("events", "clients"))
    samples = np.zeros(run.scenario.data.clients, dtype=np.int64)
    samples[clients["client"].to_numpy()] = clients["samples"].to_numpy()
    return ObservedRun.of(f"{name}, seed {seed}", run.scenario, samples, events)


def trainings_of(runs: Sequence[ObservedRun], work: Work) -> Trainings:
    """Return all started trainings of all runs, except those without samples.

    `work`: function that turns intervals of a run into seconds of work on an unshared processor, see `Work`.
    """
    parts = []
    for place, run in enumerate(runs):
        begun = ~np.isnan(run.tasks.training_started_s) & (run.work > 0)
        tasks = run.tasks.only(begun)
        seconds = work(place, tasks.training_started_s, trained_s(tasks))
        parts.append((tasks.client, run.work[begun], seconds, run.training_finished[begun]))
    client, asked, seconds, seen = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Trainings(client, asked, seconds.astype(np.float64), seen)
