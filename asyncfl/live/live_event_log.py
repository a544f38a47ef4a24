"""The trace of a live run: what happens here is written down at once, what clients tell of later is put in its place.

Events go to the recorder in order of time, as soon as nothing earlier can be told any more: not before the dispatch of
a task of which its client has not reported.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable
from typing import Any

from asyncfl.federation.event_log import EventLog
from asyncfl.federation.tasks_in_flight import TaskInFlight
from asyncfl.live.clock import LiveClock
from asyncfl.trace import Kind, Recorder
from asyncfl.trace.recorder import NAN

FLUSH_EVERY = 8192
"""Events that are held before those are written that nothing can precede."""


class LiveEventLog(EventLog):
    """Writes down what happens in one live run."""

    def __init__(self, recorder: Recorder, clock: LiveClock, earliest: Callable[[], float]) -> None:
        """`earliest`: time before which nothing can be told any more."""
        super().__init__(self._hold)
        self.recorder = recorder
        self.clock = clock
        self._earliest = earliest
        self._version = 0
        self._published = array("d")
        self._held: list[tuple[Any, ...]] = []
        self._flush_at = FLUSH_EVERY

    @property
    def now(self) -> float:
        """Seconds since the start."""
        return self.clock.now

    @property
    def version(self) -> int:
        """The version published last."""
        return self._version

    @version.setter
    def version(self, version: int) -> None:
        self._version = version
        self._published.append(self.now)

    def place(
        self,
        time_s: float,
        kind: Kind,
        task: TaskInFlight | None,
        client: int = -1,
        *,
        staleness: int = -1,
        size: int = -1,
        attempt: int = -1,
        weight: float = NAN,
        detail: str = "",
    ) -> None:
        """Record an event where it belongs, with the version that was out then. `task` None: it is of none."""
        # Versions are numbered as they come, from 0.
        version = self._version if time_s >= self.now else max(0, bisect_right(self._published, time_s) - 1)
        number, base = -1, -1
        if task is not None:
            number, client, base = task.number, task.client, task.base_version
        self._hold(time_s, kind, number, client, version, base, staleness, size, attempt, weight, detail)

    def _hold(self, *event: Any) -> None:
        """Keep an event until nothing earlier can be told."""
        self._held.append(event)
        if len(self._held) >= self._flush_at:
            self.flush(self._earliest())
            self._flush_at = 2 * len(self._held) + FLUSH_EVERY

    def flush(self, before_s: float) -> None:
        """Write the events before that time."""
        self._held.sort(key=lambda event: event[0])
        ready = bisect_right(self._held, before_s, key=lambda event: event[0])
        for event in self._held[:ready]:
            self.recorder.add(*event)
        del self._held[:ready]
