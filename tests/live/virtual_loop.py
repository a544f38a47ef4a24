"""An event loop whose time is virtual: it jumps to the next timer as soon as nothing else is left to do.

Threads are waited for, and take no time. Timers of the same moment fire in the order in which they were set.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class DeadlockError(RuntimeError):
    """Nothing can happen any more."""


class Timer(asyncio.TimerHandle):
    """A timer that knows when it was set."""

    __slots__ = ("place",)

    def __lt__(self, other: Any) -> bool:
        return (self._when, self.place) < (other._when, other.place)  # type: ignore[attr-defined]


class Jumping(selectors.DefaultSelector):
    """Waits for threads, never for time."""

    loop: VirtualLoop

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout == 0:
            return super().select(0)
        if self.loop.working:
            return super().select(None)
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise DeadlockError
            self.loop.now = max(self.loop.now, self.loop._scheduled[0]._when)  # type: ignore[attr-defined]
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """Begins at 0."""

    def __init__(self) -> None:
        selector = Jumping()
        selector.loop = self
        self.now = 0.0
        self.working = 0
        self._places = itertools.count()
        super().__init__(selector)

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[..., object], *args: Any, context: Any = None) -> Timer:
        timer = Timer(when, callback, args, self, context)
        timer.place = next(self._places)  # type: ignore[attr-defined]
        heapq.heappush(self._scheduled, timer)  # type: ignore[attr-defined]
        timer._scheduled = True  # type: ignore[attr-defined]
        return timer

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> asyncio.Future[Any]:
        done = super().run_in_executor(executor, func, *args)
        self.working += 1
        done.add_done_callback(lambda _: setattr(self, "working", self.working - 1))
        return done

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        self.working += 1
        await super().shutdown_default_executor()
        self.working -= 1


def run(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """The outcome of `main` on a virtual loop. Raises AssertionError where it leaves a task behind."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:

        async def watched() -> T:
            outcome = await main()
            left = asyncio.all_tasks() - {asyncio.current_task()}
            assert not left, f"left behind: {left}"
            return outcome

        return runner.run(watched())
