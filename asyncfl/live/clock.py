"""Seconds of the scenario in real time: those of the event loop, times the speedup, since the beginning."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable


class LiveClock:
    """The time of a run. Before it begins, time stands at 0.

    It comes from the event loop, which no change of the computer's clock moves, and which a test may move as it likes.
    """

    def __init__(self, speedup: float = 1.0) -> None:
        """`speedup`: seconds of the scenario in a real second."""
        self.speedup = speedup
        self._loop = asyncio.get_running_loop()
        self._began: float | None = None

    def begin(self, at_s: float = 0.0) -> None:
        """It is `at_s` now."""
        self._began = self._loop.time() - at_s / self.speedup

    @property
    def has_begun(self) -> bool:
        """Whether the run has begun."""
        return self._began is not None

    @property
    def now(self) -> float:
        """Seconds of the scenario since the beginning."""
        return 0.0 if self._began is None else (self._loop.time() - self._began) * self.speedup

    def at(self, time_s: float, do: Callable[[], object]) -> asyncio.TimerHandle:
        """Call `do` at that time, or now where it has passed."""
        if self._began is None:
            raise ValueError("the clock has not begun")
        return self._loop.call_at(self._began + time_s / self.speedup, do)

    async def until(self, time_s: float) -> None:
        """Wait until that time; for ever where it is infinite."""
        waited: asyncio.Future[None] = self._loop.create_future()
        if time_s == math.inf:
            await waited
            return
        handle = self.at(time_s, lambda: None if waited.done() else waited.set_result(None))
        try:
            await waited
        finally:
            handle.cancel()
