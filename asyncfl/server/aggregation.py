"""The buffer that is open: from the parameters of its updates to the model that they make.

What is malformed is rejected first, and counts against its sender. Then clients are asked for scores, one after
another until one answers, where a detector wants any. Then the defences decide. What it leaves out has its fate at
once; what it lets in, when the model that it is part of is published: the run may end before.

The server goes along step by step: what time passes between them, and who else is hurt by a ban, is its affair.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from asyncfl.defences import Buffer, Verdict
from asyncfl.messages import Action, Collect, Collected, Fate, Judged, RequestScores, Vector
from asyncfl.server.defence_state import DefenceState, Outcome, Scores
from asyncfl.server.stopping import RejectedUpdates
from asyncfl.server.task_table import TaskRecord, TaskTable

AggregationObserver: TypeAlias = Callable[[Buffer, tuple[int, ...], Verdict, Outcome], None]
"""(buffer, tasks of its updates, verdict, what was made of it): is shown each buffer that is aggregated."""


@dataclass(frozen=True, slots=True)
class AggregatedUpdate:
    """An update that was aggregated, and what is to be told of it once the model that it entered is published."""

    task: TaskRecord
    weight: float
    """Factor of the update in the aggregate, before the server's rate."""
    staleness: int
    """Its age in versions."""
    detail: str


@dataclass(frozen=True)
class AggregationPreview:
    """What would come of a buffer. Rows follow it; what is not finite is left out and counts against its sender."""

    struck: NDArray[np.bool_]
    """(n_updates,) counted against the sender."""
    model: Vector
    """(n_parameters,) the next global model, before the server's noise."""


@dataclass(frozen=True)
class AggregationResult:
    """What came of a buffer."""

    model: Vector
    """(n_parameters,) the next global model, before the server's noise."""
    entered: tuple[AggregatedUpdate, ...]
    """The updates that were aggregated, in the order of the buffer."""
    clip_norm: float | None
    """Clipping norm that the clients used, None where none."""
    banned: tuple[int, ...]
    """Clients that are banned for it."""
    notes: tuple[str, ...]
    """What the rule found unusual."""


class Aggregation:
    """The open buffer of one server, one after another. `samples`: (clients,) training samples of each client."""

    def __init__(
        self,
        defences: DefenceState,
        book: TaskTable,
        rejected_updates: RejectedUpdates,
        samples: NDArray[np.int64],
        observer: AggregationObserver | None = None,
    ) -> None:
        self.defences = defences
        self.book = book
        self.rejected_updates = rejected_updates
        self.samples = samples
        self.observer = observer
        self.last_request = -1
        """Number of the last request for scores; they are numbered 0, 1, 2, ..."""
        self._tasks: list[TaskRecord] = []
        self._buffer: Buffer | None = None
        self._clip_norm: float | None = None
        self._tried: tuple[int, ...] = ()

    @property
    def tasks(self) -> tuple[int, ...]:
        """The tasks whose updates are in the buffer, in its order."""
        return tuple(task.number for task in self._tasks)

    @property
    def clients(self) -> NDArray[np.int64]:
        """(n_updates,) whose updates are in the buffer, in its order."""
        return np.array([task.client for task in self._tasks], dtype=np.int64)

    def open(self, tasks: list[TaskRecord]) -> Collect:
        """Open a buffer with the updates of `tasks`, whose parameters are asked for."""
        self._tasks = tasks
        return Collect(self.tasks)

    def clear(self) -> list[TaskRecord]:
        """The tasks of the buffer, which is given up."""
        removed, self._tasks, self._buffer = self._tasks, [], None
        return removed

    # --- what can be used ------------------------------------------------------------------------------------------

    def reject(self, collected: Collected, actions: list[Action]) -> tuple[NDArray[np.bool_], tuple[int, ...]]:
        """Reject what is malformed: which rows are sound, (n_updates,) bool, and the clients that are banned now."""
        whole = np.ones(len(self._tasks), dtype=bool) if collected.sound is None else collected.sound
        sound = whole & np.isfinite(collected.models).all(axis=1)
        unsound = [self._tasks[row] for row in np.flatnonzero(~sound)]
        if sound.any():
            self.rejected_updates.sound()
        for task, right_length in zip(unsound, whole[~sound], strict=True):
            actions.append(self.book.settle(task.number, Fate.REJECTED, detail="not finite or of the wrong length"))
            self.rejected_updates.rejected(task.client, finite=not right_length)
        if not unsound:
            return sound, ()
        senders = np.array([task.client for task in unsound])
        return sound, self.defences.strike(senders, np.ones(len(unsound), dtype=bool))

    def fill(
        self,
        collected: Collected,
        sound: NDArray[np.bool_],
        banned: tuple[int, ...],
        version: int,
        actions: list[Action],
    ) -> bool:
        """Make a buffer for `version` of the `sound` rows of `collected` by clients that are not among the `banned`.

        Returns whether there is any.
        """
        kept = sound
        if banned:
            # What else a banned client has in this buffer is as little used as what it has in the next.
            kept = sound & ~np.isin([task.client for task in self._tasks], banned)
            for row in np.flatnonzero(sound & ~kept):
                actions.append(self.book.settle(self._tasks[row].number, Fate.BANNED))
        self._tasks = [self._tasks[row] for row in np.flatnonzero(kept)]
        if not self._tasks:
            return False
        self._clip_norm = collected.clip_norm
        asked = np.zeros(len(kept)) if collected.upload_std is None else collected.upload_std
        models = collected.models if kept.all() else collected.models[kept]
        work = None if collected.work is None else collected.work[kept]
        self._buffer = self._buffer_of(models, asked[kept], work, version)
        self._tried = ()
        return True

    def _buffer_of(
        self, models: Vector, upload_std: NDArray[np.float64], work: NDArray[np.float64] | None, version: int
    ) -> Buffer:
        base_versions = np.array([task.base_version for task in self._tasks], dtype=np.int64)
        versions, base_of = np.unique(base_versions, return_inverse=True)
        clients = np.array([task.client for task in self._tasks], dtype=np.int64)
        return Buffer(
            version=version,
            current=self.book.current,
            models=models,
            bases=tuple(self.book.model(int(version)) for version in versions),
            base_of=base_of.astype(np.int64),
            base_versions=base_versions,
            clients=clients,
            samples=self.samples[clients],
            upload_std=upload_std,
            work=work,
        )

    def rehearse(
        self,
        models: Vector,
        upload_std: NDArray[np.float64],
        work: NDArray[np.float64] | None,
        version: int,
        scores: Scores,
    ) -> AggregationPreview:
        """What would become of the open buffer if these were its updates, one per task; nothing is remembered of it."""
        whole = self._buffer_of(models, upload_std, work, version)
        sound = np.flatnonzero(np.isfinite(models).all(axis=1))
        struck = np.ones(len(models), dtype=bool)
        if not len(sound):
            return AggregationPreview(struck, whole.current)
        struck[sound], model = self.defences.rehearse(whole.only(sound), scores)
        return AggregationPreview(struck, model)

    # --- what becomes of it ----------------------------------------------------------------------------------------

    def _judged(self) -> Buffer:
        if self._buffer is None:
            raise ValueError("there is no buffer to judge")
        return self._buffer

    def request(self) -> RequestScores | None:
        """What the next client has to score before the buffer can be judged; None: nothing (more)."""
        request = self.defences.request(self._judged(), self._tried)
        if request is None:
            return None
        self._tried = (*self._tried, request.client)
        self.last_request += 1
        return RequestScores(self.last_request, request.client, request.models)

    def decide(self, scores: NDArray[np.float64] | None, actions: list[Action]) -> AggregationResult:
        """Judge and aggregate the buffer, flag tasks; others wait for `publish`. `scores`: see `Detector.judge`."""
        buffer = self._judged()
        verdict, banned = self.defences.judge(buffer, scores)
        outcome = self.defences.aggregate(buffer, verdict)
        if self.observer is not None:
            self.observer(buffer, self.tasks, verdict, outcome)
        numbers, tasks, entered = self.tasks, self.clear(), []
        for row, task in enumerate(tasks):
            detail = verdict.details[row] if verdict.details else ""
            weight, age = float(outcome.weights[row]), int(buffer.staleness[row])
            if verdict.flagged[row]:
                settled = self.book.settle(task.number, Fate.FLAGGED, weight=weight, staleness=age, detail=detail)
                actions.append(settled)
            else:
                entered.append(AggregatedUpdate(task, weight, age, detail))
        self._tasks = [one.task for one in entered]
        if self.defences.plan.detector is not None:
            actions.append(
                Judged(
                    buffer.version,
                    tuple(int(client) for client in buffer.clients),
                    tuple(verdict.accused.tolist()),
                    banned,
                    tuple(sorted(verdict.notes.items())),
                    numbers,
                    () if verdict.unjudged is None else tuple(verdict.unjudged.tolist()),
                )
            )
        return AggregationResult(outcome.model, tuple(entered), self._clip_norm, banned, outcome.notes)

    def publish(self, made: AggregationResult, actions: list[Action]) -> None:
        """What the last `decide` made is published: its tasks are aggregated."""
        for one in made.entered:
            number, weight, staleness = one.task.number, one.weight, one.staleness
            settled = self.book.settle(number, Fate.AGGREGATED, weight=weight, staleness=staleness, detail=one.detail)
            actions.append(settled)
        self.clear()
