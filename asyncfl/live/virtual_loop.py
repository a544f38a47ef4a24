"""An asyncio event loop on virtual time: instead of waiting, it jumps to the next timer.

Work for executors is done at once and takes no virtual time. Timers of equal time fire in the order in which they were
set, so that a run on this loop is deterministic.
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
    """No timer or connection is left that could wake the loop."""


class _OrderedTimer(asyncio.TimerHandle):
    """A timer that is ordered by time, then by when it was set."""

    __slots__ = ("number",)

    def __lt__(self, other: Any) -> bool:
        return (self._when, self.number) < (other._when, other.number)  # type: ignore[attr-defined]


class _JumpingSelector(selectors.DefaultSelector):
    """A selector that never waits."""

    loop: VirtualLoop

    def select(self, timeout: float | None = None) -> list[Any]:
        """Return what is ready now. If nothing is, move virtual time to the next timer."""
        ready = super().select(0)
        if not ready and timeout != 0:
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
