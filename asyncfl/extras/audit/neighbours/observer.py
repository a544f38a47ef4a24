"""Observer of a run's tasks that follows the twins of some clients.

Many neighbours are tried in a client's first task. Of each kind the half with the larger distances so far, in units of
the noise, goes on into the next task, until a few are left.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.instrument import NO_INSTRUMENT, Instrument
from asyncfl.client import Assignment, Batch, TaskPath
from asyncfl.extras.audit.neighbours.data import Neighbour, furthest, neighbours
from asyncfl.extras.audit.neighbours.training import TwinUpload, recorded_model, twin_uploads
from asyncfl.measurements import FOLLOWED, Twin, TwinAudit
from asyncfl.privacy import Contribution, Release, State
from asyncfl.privacy.ledger.releases import upload_release
from asyncfl.results.storage import Run
from asyncfl.simulation.prepare import Federation
from asyncfl.simulation.seed_run import SeedRun

CLIMBED_AGAIN = (2, 4, 8, 16, 32, 64, 128, 256)
"""Numbers of tasks of a client after which gradient ascent is repeated at the new model, if budgets do not follow the
losses."""


class Other(NamedTuple):
    """Another client's upload of the same collection, which the twin changes through the clip norm alone."""

    task: int
    distance: float  # |u - u'|
    std: float
    twin_std: float


@dataclass(frozen=True)
class AuditedTask:
    task: int
    turn: int
    base_version: int
    release: Release
    twins: dict[int, TwinUpload]  # number of the neighbour -> its upload
    others: dict[int, tuple[Other, ...]]  # number of the neighbour -> its changes of other clients' uploads


@dataclass
class AuditedClient:
    client: int
    followed: list[Neighbour]
    states: dict[int, State]  # number of the neighbour -> state of the scheme in its world
    next_number: int  # number of the next neighbour that ascent finds
    tasks: dict[int, AuditedTask] = field(default_factory=dict)
    """Audited tasks by number, in the order in which they were trained."""

    def so_far(self, neighbour: Neighbour) -> float:
        """Sum the squared distances of a neighbour's uploads, in units of the noise where there is any."""
        total = 0.0
        for task in self.tasks.values():
            if (twin := task.twins.get(neighbour.number)) is not None:
                squares = math.fsum(distance**2 for distance in twin.distances)
                total += squares / task.release.std**2 if task.release.std > 0 else squares
        return total

    def furthest_first(self, kind: Twin) -> list[Neighbour]:
        """Return the followed neighbours of a kind, the one that went furthest first."""
        of_kind = [one for one in self.followed if one.kind == kind]
        return sorted(of_kind, key=lambda one: (-self.so_far(one), one.number))


class TwinsObserver(Instrument):
    """Instrument that trains the twins of the chosen clients while their tasks are carried out."""

    def __init__(self, audit: TwinAudit, instrument: Instrument = NO_INSTRUMENT) -> None:
        """`instrument`: receives the number of twins trained so far after each task."""
        self.audit, self.instrument = audit, instrument

    def begin_seed(self, federation: Federation) -> None:
        self.federation = federation
        self.path: TaskPath = federation.path
        self.clients: dict[int, AuditedClient] = {}
        """Audited clients by number, in the order of their first tasks."""
        self.trained_twins = 0
        self._beginning = copy.deepcopy(self.path.state)

    def trained(self, assignment: Assignment, contribution: Contribution, attacked: bool) -> None:
        """Train the twins of a task whose clip norm depends on no other upload."""
        path = self.path
        if path.scheme.needs_every_task and not attacked and self._is_audited(assignment.client):
            release = upload_release(path.scheme, path.context, path.clip_norm(np.ones(1)), contribution)
            self._train(assignment, contribution, release, np.ones(1), 0)

    def collected(self, batch: Batch) -> None:
        if self.path.scheme.needs_every_task:
            return
        for row, (assignment, upload) in enumerate(zip(batch.assignments, batch.uploads, strict=True)):
            client = assignment.client
            if upload.attacked or not math.isfinite(batch.norms[row]) or not self._is_audited(client):
                continue
            task = self._train(assignment, upload.contribution, upload.release, batch.norms, row)
            for number, twin in task.twins.items():
                if twin.clip_norm != batch.clip_norm:
                    task.others[number] = tuple(self._others(batch, row, twin))

    def end_seed(self, run: SeedRun) -> None:
        self._report(self.trained_twins)

    def complete(self, result: SeedRun, run: Run) -> None:
        """Add the table of the audit, what it measured of the ledger's rows, and disproving examples to `run`."""
        from asyncfl.extras.audit.neighbours.findings import audited

        found = audited(self, result, run.tables["ledger"])
        run.tables |= {"audit": found.table, "ledger": found.ledger}
        run.files |= found.files
        run.summary["seeds"][str(result.seed)]["notes"] += found.notes

    def _report(self, total: int | None = None) -> None:
        self.instrument.progress(f"twins trained in seed {self.federation.resolved.seed}", self.trained_twins, total)

    def _is_audited(self, client: int) -> bool:
        wanted, canaries = self.audit.clients, self.path.data.canaries
        # A zeroed canary client sends nothing of its own.
        if canaries is not None and client in canaries.zeroed:
            return False
        if isinstance(wanted, tuple):
            return client in wanted
        return client in self.clients or len(self.clients) < wanted

    def _train(
        self, assignment: Assignment, contribution: Contribution, release: Release, norms: NDArray[np.float64], row: int
    ) -> AuditedTask:
        audited = self._of(assignment)
        client, turn, states = assignment.client, assignment.turn, audited.states
        worlds = [(one, states[one.number].epsilon(client, turn)) for one in audited.followed]
        task = AuditedTask(assignment.task, turn, assignment.base_version, release, {}, {})
        for twin in twin_uploads(self.path, assignment, contribution, norms, row, worlds):
            if math.isfinite(twin.distance):
                task.twins[twin.neighbour.number] = twin
                if math.isfinite(twin.loss):
                    states[twin.neighbour.number].record_training(twin.contribution, twin.loss, twin.norm)
        self.trained_twins += len(worlds)
        audited.tasks[assignment.task] = task
        # Follow the further half of each kind from here on, at least `FOLLOWED`.
        left: list[Neighbour] = []
        for kind in self.audit.neighbours:
            of_kind = audited.furthest_first(kind)
            left += of_kind[: max(FOLLOWED, -(-len(of_kind) // 2))]
        audited.followed = sorted(left, key=lambda one: one.number)
        audited.states = {one.number: states[one.number] for one in audited.followed}
        if len(audited.tasks) in CLIMBED_AGAIN and self.path.state.epsilon(client, turn) is None:
            self._climb_again(audited, assignment)
        self._report()
        return task

    def _of(self, assignment: Assignment) -> AuditedClient:
        """Return the audited client of a task; its neighbours are found in its first one."""
        data, client = self.path.data, assignment.client
        if client not in self.clients:
            random = self.path.streams.generator("twins", client)
            found = neighbours(data, client, self.audit.neighbours, self.audit.twins, random)
            if any(one.kind == "ascent" for one in found):
                made = recorded_model(self.path, assignment)
                found = [self._climbed(one, client, made) if one.kind == "ascent" else one for one in found]
            states = {one.number: copy.deepcopy(self._beginning) for one in found}
            self.clients[client] = AuditedClient(client, found, states, len(found))
        return self.clients[client]

    def _climbed(self, start: Neighbour, client: int, model: NDArray[np.float32]) -> Neighbour:
        data = self.path.data
        images, labels = data.client(client)
        low, high = data.feature_range()
        assert start.image is not None
        replaced = images[start.sample], labels[start.sample]
        image, label = furthest(self.path.learner, model, replaced, start.image, low, high, data.extreme_labels)
        return replace(start, image=image, label=label)

    def _climb_again(self, audited: AuditedClient, assignment: Assignment) -> None:
        """Repeat ascent at the new model; its sample replaces the one of ascent that has gone least far."""
        found = audited.furthest_first("ascent")
        if not found:
            return
        made = recorded_model(self.path, assignment)
        again = self._climbed(replace(found[0], number=audited.next_number), audited.client, made)
        audited.next_number += 1
        if len(found) >= FOLLOWED:
            audited.followed.remove(found[-1])
            del audited.states[found[-1].number]
        audited.followed.append(again)
        audited.states[again.number] = copy.deepcopy(self._beginning)

    def _others(self, batch: Batch, own: int, twin: TwinUpload) -> Iterator[Other]:
        """Yield the changes of the other uploads of a collection by another clip norm: their lengths and noise."""
        for row, upload in enumerate(batch.uploads):
            norm = float(batch.norms[row])
            if row != own and not upload.attacked and math.isfinite(norm):
                lengths = [norm if clip is None else min(norm, clip) for clip in (batch.clip_norm, twin.clip_norm)]
                noise = self.path.scheme.upload_noise(self.path.context, twin.clip_norm, upload.contribution)
                yield Other(upload.task, abs(lengths[0] - lengths[1]), upload.release.std, noise.std)
