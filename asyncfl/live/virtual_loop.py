"""An asyncio event loop on virtual time: instead of waiting, it jumps to the next timer.

Work in threads is awaited and takes no virtual time. Timers of equal time fire in the order in which they were set, so
that a run on this loop is deterministic.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class DeadlockError(RuntimeError):
    """No timer, thread or connection is left that could wake the loop."""


class _OrderedTimer(asyncio.TimerHandle):
    """A timer that is ordered by time, then by when it was set."""

    __slots__ = ("number",)

    def __lt__(self, other: Any) -> bool:
        return (self._when, self.number) < (other._when, other.number)  # type: ignore[attr-defined]


class _JumpingSelector(selectors.DefaultSelector):
    """A selector that waits for threads and never for time."""

    loop: VirtualLoop

    def select(self, timeout: float | None = None) -> list[Any]:
        """Ready connections and threads. Moves virtual time to the next timer where there are none."""
        if timeout == 0:
            return super().select(0)
        if self.loop.threads_at_work:
            return super().select(None)
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise DeadlockError("the virtual event loop waits for something that cannot happen")
            self.loop.now_s = max(self.loop.now_s, self.loop._scheduled[0]._when)  # type: ignore[attr-defined]
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """Event loop on virtual time, which begins at 0 s.

    Raises DeadlockError where nothing can happen any more.
    """

    def __init__(self) -> None:
        selector = _JumpingSelector()
        selector.loop = self
        self.now_s = 0.0
        self.threads_at_work = 0
        self._numbers = itertools.count()
        super().__init__(selector)

    def time(self) -> float:
        """Virtual seconds."""
        return self.now_s

    def call_at(  # type: ignore[override]
        self, when: float, callback: Any, *args: Any, context: Any = None
    ) -> _OrderedTimer:
        """See `asyncio.loop.call_at`."""
        timer = _OrderedTimer(when, callback, args, self, context)
        timer.number = next(self._numbers)  # type: ignore[attr-defined]
        heapq.heappush(self._scheduled, timer)  # type: ignore[attr-defined]
        timer._scheduled = True  # type: ignore[attr-defined]
        return timer

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """See `asyncio.loop.run_in_executor`. Virtual time stands still until the work is done."""
        done = super().run_in_executor(executor, func, *args)
        self.threads_at_work += 1
        done.add_done_callback(lambda _: setattr(self, "threads_at_work", self.threads_at_work - 1))
        return done

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """See `asyncio.loop.shutdown_default_executor`."""
        self.threads_at_work += 1
        await super().shutdown_default_executor()
        self.threads_at_work -= 1


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on a new virtual loop, as `asyncio.run` does on a real one."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
