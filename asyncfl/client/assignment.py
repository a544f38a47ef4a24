"""A task on its way to the client that carries it out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from asyncfl.learning.deadline import Deadline
from asyncfl.messages import Vector


@dataclass(frozen=True, slots=True)
class Assignment:
    """A task that is to be carried out now."""

    task: int
    client: int
    base_version: int
    base: Vector
    """(n_parameters,) the model that the client was sent."""
    turn: int = 0
    """Tasks that the client was given before."""
    epochs: int | None = None
    """Passes over its samples that it has time for; None: all of a task."""
    deadline: Deadline | None = None
    """When a client that really trains has to stop; None: it does not."""

    def ended(self, epochs: int) -> Assignment:
        """The same after its training, with the epochs that it was stopped after, of so many. Raises NoEpochError."""
        return self if self.deadline is None else replace(self, epochs=self.deadline.done_of(epochs))


def work_of(done: Sequence[int | None], epochs: int) -> NDArray[np.float64] | None:
    """(n,) share of a task's `epochs` that each update comes of, see `Collected.work`.

    `done`: epochs of each task, None where it did all; the answer is None where all did.
    """
    if all(one is None for one in done):
        return None
    return np.array([1.0 if one is None else one / epochs for one in done])
