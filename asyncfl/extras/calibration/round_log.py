"""Logs of rounds: the table that most federations write, one row per round, read from a CSV file.

Columns: `time_s`, the seconds at the end of the round on any clock, and `updates`, the number of updates in it. Where
the log has them: `task_s`, the mean seconds of the tasks behind these updates, from the start of the client's work (a
wait included) to the end of its training; `updates_0_9`, the updates of the group of clients 0 to 9; `run`, the number
of the run, where a file holds several runs of one federation, one after another. Further columns are ignored.
"""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.compute as pc

from asyncfl.base.arrays import Floats
from asyncfl.base.errors import DataError, Fault
from asyncfl.protocol.tasks import Tasks
from asyncfl.simulation.seed_run import SeedRun
from asyncfl.world.profiles import MeasuredColumn, profile_content, read_profile

Group = tuple[int, int]
"""First and last client of a group."""

FEWEST_ROUNDS = 3
"""Smallest number of rounds of a run after those that are left out."""
_GROUP = re.compile(r"updates_(\d+)_(\d+)")


@dataclass(frozen=True)
class RoundLog:
    """The rounds of one run."""

    time_s: Floats
    """(rounds,) seconds at the end of each round."""
    updates: Floats
    """(rounds,) updates in each round."""
    task_s: Floats | None
    """(rounds,) mean seconds of the tasks behind these updates; None: not logged."""
    of_groups: dict[Group, Floats]
    """Group -> (rounds,) updates of its clients in each round."""

    @classmethod
    def of_run(cls, run: SeedRun, groups: tuple[Group, ...]) -> RoundLog:
        """Return the log that a simulated run, with the phases of its tasks, would have written."""
        published = run.events.filter(pc.equal(run.events["kind"], "published"))
        ends = published.filter(pc.greater(published["version"], 0))
        time_s = np.asarray(ends["time_s"].to_numpy(), dtype=np.float64)
        tasks = Tasks.of(run.tasks)
        used = tasks.only(tasks.staleness >= 0)
        # The version that an update entered is its base version and its staleness, and one more.
        entered = used.base_version + used.staleness
        rounds = len(time_s)
        updates = np.bincount(entered, minlength=rounds).astype(np.float64)
        seconds = np.bincount(entered, used.trained_s - used.dispatched_s, minlength=rounds)
        of_groups = {}
        for first, last in groups:
            inside = (used.client >= first) & (used.client <= last)
            of_groups[first, last] = np.bincount(entered[inside], minlength=rounds).astype(np.float64)
        return cls(time_s, updates, seconds / np.maximum(updates, 1), of_groups)

    def quantities(self, skip: int) -> dict[str, Floats]:
        """Return each quantity of the rounds after the first `skip` >= 1 of them: name -> (rounds - skip,)."""
        found = {"seconds per round": np.diff(self.time_s)[skip - 1 :], "updates per round": self.updates[skip:]}
        if self.task_s is not None:
            found["seconds per task"] = self.task_s[skip:]
        for (first, last), updates in self.of_groups.items():
            found[f"updates of clients {first} to {last}"] = updates[skip:]
        return found


def read_round_logs(path: Path, clients: int, skip: int) -> list[RoundLog]:
    """Read the runs of a CSV file of rounds. `clients`: clients of the federation; `skip`: rounds at the start of each
    run that will be left out, >= 1.

    Raises DataError with every missing column and bad value, for times that do not increase, for groups of clients that
    overlap or do not exist, and for runs that are too short.
    """
    groups = _groups_of(path)
    names = {group: f"updates_{group[0]}_{group[1]}" for group in groups}
    columns = [MeasuredColumn("time_s"), MeasuredColumn("updates")]
    columns += [MeasuredColumn(name, required=False) for name in ("task_s", "run", *names.values())]
    table = read_profile(str(path), tuple(columns), "log")
    faults = _group_faults(groups, clients)
    if "run" in table and (np.diff(table["run"]) < 0).any():
        faults.append(Fault("run", "must not fall: the rows of a run stand together, in the order of its rounds"))
    if faults:
        raise DataError(faults, path)
    number = table.get("run", np.zeros(len(table["time_s"])))
    logs = []
    for run in np.unique(number):
        rows = np.flatnonzero(number == run)
        where = f"run {run:g}" if "run" in table else "the run"
        if len(rows) < skip + FEWEST_ROUNDS:
            needed = f"must be at least {skip + FEWEST_ROUNDS} in {where}, of which {skip} are left out"
            faults.append(Fault("rounds", f"{needed}, got {len(rows)}"))
        for row in rows[1:][np.diff(table["time_s"][rows]) <= 0]:
            came = f"{table['time_s'][row]:g} after {table['time_s'][row - 1]:g}"
            faults.append(Fault(f"row {row + 1}, column time_s", f"must be later than in the row before, got {came}"))
        logs.append(
            RoundLog(
                table["time_s"][rows],
                table["updates"][rows],
                table["task_s"][rows] if "task_s" in table else None,
                {group: table[name][rows] for group, name in names.items()},
            )
        )
    if faults:
        raise DataError(faults, path)
    return logs


def _groups_of(path: Path) -> tuple[Group, ...]:
    """Return the groups of clients that the header of a CSV file names, in its order."""
    _, content = profile_content(str(path), "log")
    header = next(csv.reader(io.StringIO(content.decode("utf-8-sig", errors="replace"))), [])
    found = [_GROUP.fullmatch(name.strip()) for name in header]
    return tuple((int(one[1]), int(one[2])) for one in found if one is not None)


def _group_faults(groups: tuple[Group, ...], clients: int) -> list[Fault]:
    faults = []
    taken: set[int] = set()
    for first, last in groups:
        name = f"column updates_{first}_{last}"
        if not first <= last < clients:
            faults.append(Fault(name, f"must name clients 0..{clients - 1} in ascending order, got {first} to {last}"))
        elif taken & set(range(first, last + 1)):
            faults.append(Fault(name, "must share no client with another column"))
        taken |= set(range(first, min(last, clients - 1) + 1))
    return faults
