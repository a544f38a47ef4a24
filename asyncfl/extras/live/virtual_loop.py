"""An asyncio event loop on virtual time: instead of waiting, it jumps to the next timer.

Work for executors is done at once and takes no virtual time. Timers fire one after another, each when all that the one
before began is done; those of equal time in the order of simulated events (`event_order`). So a run on this loop is
deterministic.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

from asyncfl.simulation.event_order import LAST, EventOrder

T = TypeVar("T")


class DeadlockError(RuntimeError):
    """No timer or connection is left that could wake the loop."""


class _JumpingSelector(selectors.DefaultSelector):
    """A selector that never waits."""

    loop: VirtualLoop

    def select(self, timeout: float | None = None) -> list[Any]:
        """Return what is ready now. If nothing is, fire the next timer."""
        ready = super().select(0)
        if not ready and timeout is None:
            self.loop.fire()
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """Event loop on virtual time, which begins at 0 s.

    Raises DeadlockError where nothing can happen any more.
    """

    def __init__(self) -> None:
        selector = _JumpingSelector()
        selector.loop = self
        self.now_s = 0.0
        self._numbers = itertools.count()
        self._timers: list[tuple[float, EventOrder, int, asyncio.TimerHandle]] = []
        self._fired = (-math.inf, LAST)
        """Time and order of the timer that fired last."""
        super().__init__(selector)

    def time(self) -> float:
        """Virtual seconds."""
        return self.now_s

    def call_at(  # type: ignore[override]
        self, when: float, callback: Any, *args: Any, context: Any = None, order: EventOrder = LAST
    ) -> asyncio.TimerHandle:
        """See `asyncio.loop.call_at`. `order`: among the timers of that time."""
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._timers, (when, order, next(self._numbers), timer))
        return timer

    def fire(self) -> None:
        """Move virtual time to the next timer, and have it called."""
        while self._timers:
            when, order, _, timer = heapq.heappop(self._timers)
            if not timer.cancelled():
                self.now_s = max(self.now_s, when)
                self._fired = self.now_s, order
                self._ready.append(timer)  # type: ignore[attr-defined]
                return
        raise DeadlockError("the virtual event loop waits for something that cannot happen")

    def has_come(self, order: EventOrder) -> bool:
        """Whether all timers of the current time before `order` have fired."""
        return self._fired >= (self.now_s, order)

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """Call `func` at once, in the thread of the loop: virtual time stands still meanwhile.

        One thread for all work makes a run deterministic: settings of torch that are global to the process, such as the
        library of its products, never change under a computation.
        """
        done: asyncio.Future[Any] = self.create_future()
        try:
            done.set_result(func(*args))
        except StopIteration as error:
            # A future cannot hold it.
            done.set_exception(RuntimeError("work raised StopIteration"))
            done.exception().__cause__ = error  # type: ignore[union-attr]
        except Exception as error:
            done.set_exception(error)
        return done


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on a new virtual loop, as `asyncio.run` does on a real one."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
