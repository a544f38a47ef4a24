"""When a training that takes real time has to stop, and how far it came."""

from __future__ import annotations

import time
from collections.abc import Callable

from asyncfl.errors import AsyncflError


class NoEpochError(AsyncflError):
    """A training that had to stop before its first epoch was done: there is nothing to send."""


class Deadline:
    """Asked after each step of one training. What was done at the end of the last whole epoch in time counts."""

    def __init__(self, seconds: float, now: Callable[[], float] = time.monotonic) -> None:
        """`seconds`: from now on; `now`: seconds of a clock that never goes back."""
        self.epochs_done = 0
        """Epochs that ended in time."""
        self._now, self._until = now, now() + seconds

    def passed(self) -> bool:
        """Whether it has passed. An epoch that ends at this very moment is done."""
        return self._now() > self._until

    def done_of(self, epochs: int) -> int | None:
        """Epochs that count, of so many; None: all. Raises NoEpochError."""
        if not self.epochs_done:
            raise NoEpochError("no epoch was done by the deadline")
        return None if self.epochs_done >= epochs else self.epochs_done
