"""Signals that interrupt long work: Ctrl-C, a request of the system to end, a terminal that is closed.

Work that can be left in good order only at certain points declares that it `waits`: the first signal is then noted
(`came`), and the work ends itself at its next such point. A second signal ends it at once.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SAME_S = 1.0
"""Real seconds within which signals are one interrupt: a terminal and the calling program may both send one."""


class InterruptedBySignalError(KeyboardInterrupt):
    """A signal of the number `number` interrupted the work."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def status_of(error: KeyboardInterrupt) -> int:
    """Return the exit status of a program that an interrupt ended, as a shell gives it."""
    return 128 + (error.number if isinstance(error, InterruptedBySignalError) else signal.SIGINT)


class InterruptSignals:
    """Handling of `SIGNALS` in this context; a handler of the caller's own, or none, is left as it is."""

    def __init__(self) -> None:
        self.came: int | None = None
        """Number of the first signal that came; None: none did."""
        self._waits = False
        self._came_s = 0.0
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> InterruptSignals:
        if threading.current_thread() is threading.main_thread():
            for one in SIGNALS:
                if (before := signal.getsignal(one)) in (signal.SIG_DFL, signal.default_int_handler):
                    self._before[one] = before
                    signal.signal(one, self._interrupt)
        return self

    def __exit__(self, *exception: object) -> None:
        for one, handler in self._before.items():
            signal.signal(one, handler)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Declare that the work in this context looks at `came` itself, and ends by `stop`."""
        self._waits = True
        try:
            yield
        finally:
            self._waits = False

    def stop(self) -> NoReturn:
        """Raise InterruptedBySignalError for the signal that came."""
        assert self.came is not None
        raise InterruptedBySignalError(self.came)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        now_s, is_first = time.monotonic(), self.came is None
        if not is_first and now_s - self._came_s < SAME_S:
            return
        self.came, self._came_s = self.came or number, now_s
        if not (is_first and self._waits):
            raise InterruptedBySignalError(number)
        # Not by `print`, in the middle of which this may be.
        os.write(2, b"asyncfl: interrupted; this step is finished and a checkpoint written (again: end at once)\n")
