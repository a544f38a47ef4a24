"""Observations of runs for a fit: one seed of a run with its tasks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from asyncfl.base.errors import RunError
from asyncfl.extras.calibration.families import Floats
from asyncfl.protocol.events import Kind
from asyncfl.protocol.tasks import KINDS, Tasks, codes
from asyncfl.results.storage import Run
from asyncfl.scenario import Scenario

Ints = NDArray[np.int64]

FEWEST_TASKS = 10  # smallest number of finished trainings to which a world is fitted


@dataclass(frozen=True)
class ObservedRun:
    """Events and tasks of one seed of a run."""

    name: str
    scenario: Scenario
    samples: Ints  # (clients,) training samples of each client
    events: pa.Table
    tasks: Tasks
    kind: Ints  # (events,) index in `KINDS`

    @classmethod
    def of(cls, name: str, scenario: Scenario, samples: Ints, events: pa.Table, of_tasks: pa.Table) -> ObservedRun:
        """Create from the events of a seed, in order, and its table of tasks. Raises RunError for too few finished
        trainings."""
        tasks = Tasks.of(of_tasks)
        finished = int(np.count_nonzero(~np.isnan(tasks.training_s)))
        if finished < FEWEST_TASKS:
            raise RunError(
                f"{name}: must have at least {FEWEST_TASKS} finished trainings, got {finished}; give a longer run"
            )
        return cls(name, scenario, samples, events, tasks, codes(events["kind"], KINDS))

    def rows(self, *kinds: Kind) -> Ints:
        """Return the row numbers of the events of these kinds, in order."""
        return np.flatnonzero(np.isin(self.kind, [KINDS.index(one) for one in kinds]))

    def column(self, name: str) -> Floats:
        """Return the column `name` of the events, (events,)."""
        column: Floats = self.events[name].to_numpy()
        return column

    @property
    def work(self) -> Floats:
        """Samples that each task's client processes: samples times epochs, or those of its steps, (tasks,)."""
        of_client = [self.scenario.training.processed(int(one)) for one in self.samples]
        return np.array(of_client, dtype=np.float64)[self.tasks.client]

    @property
    def training_finished(self) -> NDArray[np.bool_]:
        """Whether each training finished all its epochs, (tasks,)."""
        tasks = self.tasks
        return ~np.isnan(tasks.training_started_s) & ~np.isnan(tasks.trained_s) & (tasks.epochs < 0)

    @property
    def published_s(self) -> dict[int, float]:
        """Version -> time of its publication."""
        time_s, version = self.column("time_s"), self.column("version")
        return {int(version[row]): float(time_s[row]) for row in self.rows(Kind.PUBLISHED)}

    @property
    def end_s(self) -> float:
        return float(self.column("time_s").max())


def left_s(tasks: Tasks) -> Floats:
    """Return when each task's client ended its work, (tasks,): the end of the trace where no event shows it."""
    return np.where(np.isnan(tasks.left_s), tasks.end_s, tasks.left_s)


def trained_s(tasks: Tasks) -> Floats:
    """Return when each training ended, (tasks,): when the client ended its work where no event shows it."""
    return np.where(np.isnan(tasks.trained_s), left_s(tasks), tasks.trained_s)


def observe_run(run: Run, name: str, seed: int | None) -> ObservedRun:
    """Return the observations of one seed of a run. `name`: name of the run in messages. `seed` None: the first seed.

    Raises RunError for an unknown seed and for too few finished trainings.
    """
    seed = run.scenario.seeds[0] if seed is None else seed
    if seed not in run.scenario.seeds:
        raise RunError(f"{name} has no seed {seed}; its seeds are {', '.join(map(str, run.scenario.seeds))}")
    events, tasks, clients = (
        run.tables[table].filter(pc.field("seed") == seed) for table in ("events", "tasks", "clients")
    )
    samples = np.zeros(run.scenario.data.clients, dtype=np.int64)
    samples[clients["client"].to_numpy()] = clients["samples"].to_numpy()
    return ObservedRun.of(f"{name}, seed {seed}", run.scenario, samples, events, tasks)
