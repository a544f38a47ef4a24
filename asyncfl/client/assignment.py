"""A task as its client receives it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.messages import Vector
from asyncfl.learning.deadline import Deadline


@dataclass(frozen=True, slots=True)
class Assignment:
    """A task that is to be trained now."""

    task: int
    client: int
    base_version: int
    base: Vector
    """(n_parameters,) the model that the client was sent."""
    turn: int = 0
    """Number of tasks that the client was given before."""
    epochs: int | None = None
    """Epochs that the client has time for; None for all of a task."""
    deadline: Deadline | None = None
    """Deadline of a client that trains in real time; None without one."""

    def ended(self, epochs: int) -> Assignment:
        """Return the assignment with the number of `epochs` done before the deadline. Raises NoEpochError if none was
        done."""
        return self if self.deadline is None else replace(self, epochs=self.deadline.epochs_in_time(epochs))


def work_of(done: Sequence[int | None], epochs: int) -> NDArray[np.float64] | None:
    """Compute the (n,) share of a task's `epochs` behind each update, see `Collected.work`.

    `done`: epochs of each task, None for all. Returns None if every task did all epochs.
    """
    if all(one is None for one in done):
        return None
    return np.array([1.0 if one is None else one / epochs for one in done])
