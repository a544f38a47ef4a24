"""Time limit of a training that takes real time."""

from __future__ import annotations

import time
from collections.abc import Callable

from asyncfl.base.errors import AsyncflError


class NoEpochError(AsyncflError):
    """The time limit passed before the first epoch was complete, so there is no model to send."""


class Deadline:
    """Time limit of one training, checked after each step. The result is the model after the last epoch completed in
    time."""

    def __init__(self, seconds: float, now: Callable[[], float] = time.monotonic) -> None:
        """Start the time limit of `seconds`; `now` returns the seconds of a monotonic clock."""
        self.epochs_done = 0
        """Number of epochs completed in time."""
        self._now, self._until = now, now() + seconds

    def passed(self) -> bool:
        """Whether the time limit has passed. An epoch that ends exactly at the limit counts as complete."""
        return self._now() > self._until

    def epochs_in_time(self, epochs: int) -> int | None:
        """Return how many of `epochs` epochs were completed, or None for all. Raises NoEpochError for zero."""
        if not self.epochs_done:
            raise NoEpochError("no epoch was done by the deadline")
        return None if self.epochs_done >= epochs else self.epochs_done
