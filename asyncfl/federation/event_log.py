"""Who writes down what happens in a run, in virtual or in real time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from asyncfl.federation.tasks_in_flight import TaskInFlight
from asyncfl.trace import Kind
from asyncfl.trace.recorder import NAN


class EventLog(ABC):
    """Knows the time and the version that is out, and writes down what happens."""

    version: int
    """The version published last, as far as the trace has come: the server itself is ahead of what it answers."""

    def __init__(self, add: Callable[..., None]) -> None:
        """`add`: takes down an event, its columns by position as of `Recorder.add`."""
        self._add = add

    @property
    @abstractmethod
    def now(self) -> float:
        """Seconds since the start."""

    def record(self, kind: Kind, client: int = -1, detail: str = "", size: int = -1, attempt: int = -1) -> None:
        """Record an event that is of no task, now."""
        self._add(self.now, kind, -1, client, self.version, -1, -1, size, attempt, NAN, detail)

    def record_task(
        self,
        kind: Kind,
        task: TaskInFlight,
        staleness: int = -1,
        size: int = -1,
        attempt: int = -1,
        weight: float = NAN,
        detail: str = "",
    ) -> None:
        """Record an event of a task, now."""
        # By position: most events are of tasks, and naming the columns costs as much as writing them down.
        number, client, base = task.number, task.client, task.base_version
        self._add(self.now, kind, number, client, self.version, base, staleness, size, attempt, weight, detail)
