"""Tasks from their dispatch to their fate."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.messages import Dispatch, Fate, Settle, Vector


@dataclass(frozen=True)
class Workload:
    """Costs of a task for a client and its links."""

    samples: NDArray[np.int64]
    """(clients,) training samples of each client."""
    epochs: int
    """Epochs of a whole task."""
    payload_bytes: int
    """Bytes of an uncompressed model, sent for scoring."""
    download_bytes: int
    """Bytes of a model sent for training, after compression."""
    upload_bytes: int
    """Bytes of an update, after compression."""
    deadline_s: float | None = None
    """Seconds of computing after which a client stops; None for no limit."""

    def epochs_in(self, compute_s: float) -> int:
        """Return the epochs done at the deadline, if all epochs take `compute_s` seconds."""
        if self.deadline_s is None or compute_s <= self.deadline_s:
            return self.epochs
        # 1e-9: an epoch that ends at exactly this time is done, despite rounding.
        return math.floor(self.epochs * self.deadline_s / compute_s + 1e-9)


@dataclass(slots=True)
class TaskInFlight:
    """A task until its fate is settled."""

    number: int
    client: int
    base_version: int
    turn: int = 0
    """Number of tasks that the client was given before."""
    base: Vector | None = None
    """The model that the client was sent, kept if the task must be trained even after the server has forgotten it."""
    trained: bool = False
    """Whether the client has already trained this task, or may have done so."""
    overheard: bool = False
    """Whether the eavesdropper holds its update."""
    epochs: int | None = None
    """Epochs that the client has done when it stopped; None for all."""


class TasksInFlight:
    """Tasks in flight, and the fates of those that have ended."""

    def __init__(self) -> None:
        self.turns: Counter[int] = Counter()
        """Client -> number of tasks it has been given."""
        self.fates: Counter[Fate] = Counter()
        self.used = 0
        """Number of tasks whose update had a weight above 0 in a model."""
        self._in_flight: dict[int, TaskInFlight] = {}
        self._collected: tuple[int, ...] = ()

    def __contains__(self, number: int) -> bool:
        """Whether that task is in flight."""
        return number in self._in_flight

    def begin(self, action: Dispatch) -> TaskInFlight:
        """Add the dispatched task and return it."""
        task = TaskInFlight(action.task, action.client, action.version, self.turns[action.client])
        self._in_flight[task.number] = task
        self.turns[task.client] += 1
        return task

    def collect(self, numbers: tuple[int, ...]) -> Sequence[TaskInFlight]:
        """Return the tasks of a buffer that is collected, in its order. `collected` yields them from then on."""
        self._collected = numbers
        return [self._in_flight[number] for number in numbers]

    def collected(self) -> Iterator[TaskInFlight]:
        """Yield the tasks of the last collected buffer that are still in flight."""
        return (self._in_flight[number] for number in self._collected if number in self._in_flight)

    def settle(self, action: Settle) -> TaskInFlight:
        """Record the fate of a task, remove it and return it."""
        task = self._in_flight.pop(action.task)
        self.fates[action.fate] += 1
        self.used += action.weight > 0
        return task
