"""Ctrl-C, and a request of the system to end: they end a live run as if its time were up, and never cost its tables."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

INTERRUPTED = "interrupted"
"""Why a run is over that was ended so."""

SIGNALS = (signal.SIGINT, signal.SIGTERM)

# In a thread other than the first nobody hears signals; some systems have no handlers in loops.
_NOT_HERE = (RuntimeError, ValueError, NotImplementedError)


class Interrupts:
    """Handling of signals during one or several runs, until their results are written.

    Before the first run they break off, as usual; in a run they end it (`ending`); after it they wait until this
    context ends. What happened in real time cannot be had again.
    """

    def __init__(self) -> None:
        self.came: int | None = None
        """Number of the signal that came: no further run is to begin. None: there was none."""
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupts:
        self._before = {one: signal.getsignal(one) for one in SIGNALS}
        return self

    def __exit__(self, *exception: object) -> None:
        for one, handler in self._before.items():
            with suppress(*_NOT_HERE):
                signal.signal(one, handler)

    @contextmanager
    def ending(self, ends: Callable[[], object]) -> Iterator[None]:
        """Call `ends` at a signal inside this context, in an event loop; at once if one came before."""
        loop = asyncio.get_running_loop()

        def heard(number: int) -> None:
            self.came = number
            ends()

        with suppress(*_NOT_HERE):
            for one in SIGNALS:
                loop.add_signal_handler(one, heard, one)
        if self.came is not None:
            ends()
        try:
            yield
        finally:
            with suppress(*_NOT_HERE):
                for one in SIGNALS:
                    loop.remove_signal_handler(one)
                    signal.signal(one, self._waits)

    def _waits(self, number: int, frame: FrameType | None) -> None:
        self.came = number
        # Not by `print`, in the middle of which this may be.
        os.write(2, b"asyncfl: the run is over and its tables are being written; this takes a moment\n")
