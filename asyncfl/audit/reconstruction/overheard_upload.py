"""One upload that an adversary holds.

An eavesdropper holds the uploads that the tap caught, the server all that it collected. Uploads of attacking clients
are left out, since they reveal nothing about honest data.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import pyarrow.compute as pc

from asyncfl.audit.finished_run import FinishedRun
from asyncfl.base.errors import Fault, RunError, ScenarioError
from asyncfl.base.messages import Vector
from asyncfl.client import Assignment, Batch, TaskObserver
from asyncfl.federation import Federation
from asyncfl.federation.round_recorder import Progress
from asyncfl.privacy.upload_records import Upload
from asyncfl.trace import Kind
from asyncfl.trace.query import select

Holder = Literal["eavesdropper", "server"]

COLLECTED = (Kind.AGGREGATED, Kind.FLAGGED)
"""Events of tasks whose update the server has received and used."""


@dataclass(frozen=True)
class OverheardUpload:
    """Upload that an adversary holds, with its federation."""

    assignment: Assignment
    """Task of the upload, with the model that its client was sent."""
    sent: Vector
    """(n_parameters,) the upload."""
    upload: Upload
    """Record of the upload."""
    federation: Federation
    """Federation of the run."""

    @property
    def samples(self) -> int:
        """Number of images that the client trained on."""
        return self.upload.contribution.samples


def choose_task(run: FinishedRun, seed: int, holder: Holder, client: int | None = None, task: int | None = None) -> int:
    """Return the number of the first task of an honest client whose update `holder` holds and the server collected.

    Args:
        run: Run to search.
        seed: Seed of the task.
        holder: Adversary that holds the upload.
        client: Choose a task of this client only.
        task: Choose this task only.

    Raises:
        ScenarioError: The run lacks the client.
        RunError: The adversary holds no such upload. The message says which setting to change.
    """
    scenario, folder = run.run.scenario, run.folder
    if client is not None and client >= scenario.data.clients:
        message = f"must be one of the run's clients (0..{scenario.data.clients - 1}), got {client}"
        raise ScenarioError([Fault("--client", message)])
    if holder == "server" and scenario.privacy.mixing_node is not None:
        raise RunError(
            f"{folder}: the server receives updates that the shuffler has mixed, none of which belongs to one client; "
            "attack what is overheard before (--adversary eavesdropper)"
        )
    events = run.run.tables["events"]
    attackers = run.run.clients.query("seed == @seed and attacker")["client"].tolist()
    collected = _tasks_of_honest_clients(select(events, seed=seed, kinds=COLLECTED), attackers)
    held = collected if holder == "server" else _overheard_tasks(run, seed)
    wanted = [
        number
        for number, whose in collected.items()
        if number in held and (client is None or whose == client) and (task is None or number == task)
    ]
    if wanted:
        return min(wanted)
    of = f"task {task}" if task is not None else "any client" if client is None else f"client {client}"
    if not any((client is None or whose == client) and (task is None or n == task) for n, whose in collected.items()):
        raise RunError(
            f"{folder}: seed {seed} has no upload of {of} that the server collected from an honest client; "
            f"`asyncfl trace events {folder} --kind aggregated` lists the collected ones"
        )
    misses = f"world.tap.packet_loss is {scenario.world.tap.packet_loss:g}; lower it and run again"
    raise RunError(
        f"{folder}: the eavesdropper caught no upload of {of} in seed {seed}; {misses}, or attack as the server "
        "(--adversary server)"
    )


def _overheard_tasks(run: FinishedRun, seed: int) -> set[int]:
    """Return the tasks whose uploads the eavesdropper holds. Raises RunError if no uplink is tapped."""
    tap = run.run.scenario.world.tap
    if not (tap.uplink or tap.scoring):
        raise RunError(
            f"{run.folder}: no eavesdropper taps the uplinks; set world.tap.uplink: true and run again, or attack as "
            "the server (--adversary server)"
        )
    heard = select(run.run.tables["events"], seed=seed, kinds=[Kind.OVERHEARD])
    up = heard.filter((pc.field("task") >= 0) & (pc.field("detail").cast("string") != "down"))
    return set(up["task"].to_pylist())


def _tasks_of_honest_clients(events: object, attackers: list[int]) -> dict[int, int]:
    """Return task -> client for the tasks in `events`, in their order, without those of `attackers`."""
    pairs = zip(events["task"].to_pylist(), events["client"].to_pylist(), strict=True)  # type: ignore[index]
    return {task: client for task, client in pairs if client not in attackers}


class _TaskCollector(TaskObserver):
    """Observer that keeps one task of a run."""

    def __init__(self, task: int) -> None:
        self.task = task
        self.found: tuple[Assignment, Vector, Upload] | None = None

    def carried_out(self, batch: Batch) -> None:
        """Keep a copy of the task in `found` if it is in the batch."""
        for row, assignment in enumerate(batch.assignments):
            if assignment.task == self.task:
                made = batch
                base = replace(assignment, base=assignment.base.copy())
                self.found = base, made.models[row].copy(), made.uploads[row]


def find_upload(run: FinishedRun, seed: int, task: int, progress: Progress | None = None) -> OverheardUpload:
    """Simulate the seed again, and return the upload of `task`. Raises RunError like `FinishedRun.resimulate`."""
    catcher, seen = _TaskCollector(task), []

    def around(federation: Federation) -> Federation:
        federation.path.observer = catcher
        seen.append(federation)
        return federation

    run.resimulate(seed, around, progress)
    if catcher.found is None:
        raise RunError(f"{Path(run.folder)}: task {task} of seed {seed} was not collected when it was simulated again")
    return OverheardUpload(*catcher.found, seen[0])
