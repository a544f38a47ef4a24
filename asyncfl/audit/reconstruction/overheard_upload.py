"""One upload that an adversary holds: which one it is, and what it was made of.

An eavesdropper holds what the tap caught of the uplinks, the server all that it collected. Attackers' uploads say
nothing about honest data and are left aside.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import pyarrow.compute as pc

from asyncfl.audit.finished_run import FinishedRun
from asyncfl.client import Assignment, Collection, TaskObserver
from asyncfl.errors import Fault, RunError, ScenarioError
from asyncfl.federation import Federation
from asyncfl.federation.round_recorder import Progress
from asyncfl.messages import Vector
from asyncfl.privacy.upload_records import Upload
from asyncfl.trace import Kind
from asyncfl.trace.query import select

Holder = Literal["eavesdropper", "server"]

COLLECTED = (Kind.AGGREGATED, Kind.FLAGGED)
"""Events of tasks whose update the server has."""


@dataclass(frozen=True)
class OverheardUpload:
    """One upload, with the world that it comes from."""

    assignment: Assignment
    """The task, with the model that its client was sent."""
    sent: Vector
    """(n_parameters,) what the client uploaded."""
    upload: Upload
    """Its record."""
    federation: Federation
    """Everybody who took part."""

    @property
    def samples(self) -> int:
        """Images that the client trained on."""
        return self.upload.contribution.samples


def choose_task(run: FinishedRun, seed: int, holder: Holder, client: int | None = None, task: int | None = None) -> int:
    """Number of the first honest task whose update `holder` has and the server collected: of `client`, or `task`.

    Raises RunError, which says what to set, where there is none, and ScenarioError for clients that are not there.
    """
    scenario, folder = run.run.scenario, run.folder
    if client is not None and client >= scenario.data.clients:
        message = f"must be one of the run's clients (0..{scenario.data.clients - 1}), got {client}"
        raise ScenarioError([Fault("--client", message)])
    if holder == "server" and scenario.privacy.mixing_node is not None:
        raise RunError(
            f"{folder}: the server is sent updates that a node has mixed, none of which is of one client; look at what "
            "is overheard before (--adversary eavesdropper)"
        )
    events = run.run.tables["events"]
    attackers = run.run.clients.query("seed == @seed and attacker")["client"].tolist()
    collected = _tasks(select(events, seed=seed, kinds=COLLECTED), attackers)
    held = collected if holder == "server" else _caught(run, seed)
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
            f"`asyncfl trace events {folder} --kind aggregated` lists those that there are"
        )
    misses = f"world.tap.packet_loss is {scenario.world.tap.packet_loss:g}; lower it and run again"
    raise RunError(
        f"{folder}: the eavesdropper caught no upload of {of} in seed {seed}; {misses}, or look with the server's eyes "
        "(--adversary server)"
    )


def _caught(run: FinishedRun, seed: int) -> set[int]:
    tap = run.run.scenario.world.tap
    if not (tap.uplink or tap.scoring):
        raise RunError(
            f"{run.folder}: nobody listens on the uplinks; set world.tap.uplink: true and run again, or look with the "
            "server's eyes (--adversary server)"
        )
    heard = select(run.run.tables["events"], seed=seed, kinds=[Kind.OVERHEARD])
    up = heard.filter((pc.field("task") >= 0) & (pc.field("detail").cast("string") != "down"))
    return set(up["task"].to_pylist())


def _tasks(events: object, attackers: list[int]) -> dict[int, int]:
    """Task -> client, of the events, in order, without those of attackers."""
    pairs = zip(events["task"].to_pylist(), events["client"].to_pylist(), strict=True)  # type: ignore[index]
    return {task: client for task, client in pairs if client not in attackers}


class _Catcher(TaskObserver):
    """Keeps one task of a run."""

    def __init__(self, task: int) -> None:
        self.task = task
        self.found: tuple[Assignment, Vector, Upload] | None = None

    def carried_out(self, collection: Collection) -> None:
        """Copy the task if it is among those collected."""
        for row, assignment in enumerate(collection.assignments):
            if assignment.task == self.task:
                made = collection.payloads
                base = replace(assignment, base=assignment.base.copy())
                self.found = base, made.models[row].copy(), made.uploads[row]


def find_upload(run: FinishedRun, seed: int, task: int, progress: Progress | None = None) -> OverheardUpload:
    """The upload of that task, found by simulating the seed again. Raises RunError as `FinishedRun.resimulate`."""
    catcher, seen = _Catcher(task), []

    def around(federation: Federation) -> Federation:
        federation.path.observer = catcher
        seen.append(federation)
        return federation

    run.resimulate(seed, around, progress)
    if catcher.found is None:
        raise RunError(f"{Path(run.folder)}: task {task} of seed {seed} was not collected when it was simulated again")
    return OverheardUpload(*catcher.found, seen[0])
