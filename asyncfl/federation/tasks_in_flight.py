"""Tasks from their dispatch to their fate."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from asyncfl.messages import Dispatch, Fate, Settle, Vector


@dataclass(frozen=True)
class Workload:
    """What a task costs a client and its links."""

    samples: NDArray[np.int64]
    """(clients,) samples that each client trains on."""
    epochs: int
    """Passes over them."""
    payload_bytes: int
    """A model on a link, as it is: one that is to be scored."""
    download_bytes: int
    """A model on a link that is to be trained from, compressed where it is."""
    upload_bytes: int
    """An update on a link, compressed where it is."""
    deadline_s: float | None = None
    """Seconds of computing after which a client stops; None: it does not."""

    def epochs_in(self, compute_s: float) -> int:
        """Epochs that a client has done when it stops, of which all take `compute_s` seconds of computing."""
        if self.deadline_s is None or compute_s <= self.deadline_s:
            return self.epochs
        # 1e-9: an epoch that ends at this very moment is done, whatever the rounding says.
        return math.floor(self.epochs * self.deadline_s / compute_s + 1e-9)


@dataclass(slots=True)
class TaskInFlight:
    """What is known about a task until its fate is settled."""

    number: int
    client: int
    base_version: int
    turn: int = 0
    """Tasks that the client was given before."""
    base: Vector | None = None
    """The model that it was sent, kept where the task must be trained even after the server has forgotten it."""
    trained: bool = False
    """Whether it has been trained ahead of its collection, or its client told so or may have done it untold."""
    overheard: bool = False
    """Whether the tap holds its update."""
    epochs: int | None = None
    """Epochs that its client has done when it stopped; None: all."""


class TasksInFlight:
    """The tasks in flight, and how those that are no more have ended."""

    def __init__(self) -> None:
        self.turns: Counter[int] = Counter()
        """Client -> tasks that it has been given."""
        self.fates: Counter[Fate] = Counter()
        self.used = 0
        """Tasks whose update had a weight in a model."""
        self._in_flight: dict[int, TaskInFlight] = {}
        self._collected: tuple[int, ...] = ()

    def __contains__(self, number: int) -> bool:
        """Whether that task is in flight."""
        return number in self._in_flight

    def begin(self, action: Dispatch) -> TaskInFlight:
        """The task that is dispatched."""
        task = TaskInFlight(action.task, action.client, action.version, self.turns[action.client])
        self._in_flight[task.number] = task
        self.turns[task.client] += 1
        return task

    def collect(self, numbers: tuple[int, ...]) -> Sequence[TaskInFlight]:
        """The tasks of a buffer that has opened, in its order."""
        self._collected = numbers
        return [self._in_flight[number] for number in numbers]

    def collected(self) -> Iterator[TaskInFlight]:
        """Those of the buffer that was collected last which are still in flight."""
        return (self._in_flight[number] for number in self._collected if number in self._in_flight)

    def settle(self, action: Settle) -> TaskInFlight:
        """The task whose fate that is; it is in flight no more."""
        task = self._in_flight.pop(action.task)
        self.fates[action.fate] += 1
        self.used += action.weight > 0
        return task
