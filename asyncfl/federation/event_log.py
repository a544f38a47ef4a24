"""The log of events of a run, in virtual or real time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from asyncfl.federation.tasks_in_flight import TaskInFlight
from asyncfl.trace import Kind
from asyncfl.trace.recorder import NAN


class EventLog(ABC):
    """Records events with the time and the current version."""

    version: int
    """The version published last, as far as the log has come: the server's own version may be ahead."""

    def __init__(self, add: Callable[..., None]) -> None:
        """`add`: stores an event, its columns by position as in `Recorder.add`."""
        self._add = add

    @property
    @abstractmethod
    def now(self) -> float:
        """Seconds since the start."""

    def record(self, kind: Kind, client: int = -1, detail: str = "", size: int = -1, attempt: int = -1) -> None:
        """Record an event that belongs to no task. `size` in bytes, `attempt`: number of transmissions; -1 for none."""
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
        """Record an event of a task. `size`, `attempt`: as in `record`; `staleness` in versions, -1 for none; `weight`:
        of the update, NaN for none."""
        # Pass columns by position: most events are of tasks, and keywords would double the cost.
        number, client, base = task.number, task.client, task.base_version
        self._add(self.now, kind, number, client, self.version, base, staleness, size, attempt, weight, detail)
