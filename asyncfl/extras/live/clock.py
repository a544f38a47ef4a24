"""Time of a live run: seconds of the event loop since the beginning, times the speedup."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass

from asyncfl.extras.live.virtual_loop import VirtualLoop
from asyncfl.simulation.event_order import EventOrder


@dataclass(frozen=True)
class LiveTiming:
    """Relation of a live run to real time."""

    shape: bool = False
    """Whether clients wait as the scenario's world says."""
    speedup: float = 1.0
    """Seconds of the scenario in a real second."""
    virtual: bool = False
    """Whether the event loop runs on virtual time."""


@dataclass
class StepClock:
    """Time of the step that the server's half carries out, set before each: a step takes no time."""

    now: float = 0.0
    """Seconds of the scenario since the beginning."""
    has_begun: bool = False


class LiveClock:
    """Time of a run, at 0 before it begins. No change of the computer's clock moves it."""

    def __init__(self, speedup: float = 1.0) -> None:
        """`speedup`: seconds of the scenario in a real second."""
        self.speedup = speedup
        self._loop = asyncio.get_running_loop()
        self._began: float | None = None

    def begin(self, at_s: float = 0.0) -> None:
        """Set the time to `at_s` now."""
        self._began = self._loop.time() - at_s / self.speedup

    @property
    def has_begun(self) -> bool:
        """Whether the run has begun."""
        return self._began is not None

    @property
    def now(self) -> float:
        """Seconds of the scenario since the beginning."""
        return 0.0 if self._began is None else (self._loop.time() - self._began) * self.speedup

    def at(self, time_s: float, order: EventOrder, do: Callable[[], object]) -> asyncio.TimerHandle:
        """Call `do` at that time, or now where it has passed. `order`: on virtual time, among the events of that
        time."""
        assert self._began is not None
        when_s = self._began + time_s / self.speedup
        if isinstance(self._loop, VirtualLoop):
            return self._loop.call_at(when_s, do, order=order)
        return self._loop.call_at(when_s, do)

    def has_come(self, order: EventOrder) -> bool:
        """Whether events with this place among those of the same time may happen now: always in real time."""
        return not isinstance(self._loop, VirtualLoop) or self._loop.has_come(order)

    async def until(self, time_s: float, order: EventOrder) -> None:
        """Wait until that time, see `at`; for ever where it is infinite."""
        waited: asyncio.Future[None] = self._loop.create_future()
        if time_s == math.inf:
            await waited
            return
        handle = self.at(time_s, order, lambda: None if waited.done() else waited.set_result(None))
        try:
            await waited
        finally:
            handle.cancel()
