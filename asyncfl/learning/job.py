"""Job: the inputs of one client's training task, perhaps with a time limit on training that takes real time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.errors import AsyncflError
from asyncfl.learning.optimizer import OptimizerState


class NoEpochError(AsyncflError):
    """The time limit passed before the first epoch was complete, so there is no model to send."""


class Deadline:
    """Time limit of one training, checked after each step: its result is the model after the last complete epoch."""

    def __init__(self, seconds: float, now: Callable[[], float] = time.monotonic) -> None:
        self.epochs_done = 0
        self._now, self._until = now, now() + seconds

    def passed(self) -> bool:
        """Whether the time limit has passed. An epoch that ends exactly at the limit counts as complete."""
        return self._now() > self._until

    def epochs_in_time(self, epochs: int) -> int | None:
        """Return how many of `epochs` epochs were completed, or None for all. Raises NoEpochError for zero."""
        if not self.epochs_done:
            raise NoEpochError("no epoch was done by the deadline")
        return None if self.epochs_done >= epochs else self.epochs_done


@dataclass(frozen=True, eq=False)
class Job:
    """Inputs of one client's training task. No array is modified."""

    base: NDArray[np.float32]
    """(n_parameters,): the model that the client was sent."""
    images: NDArray[np.float32]
    """(samples, C, H, W): training images, poisoned or not; or features of any other shape."""
    labels: NDArray[Any]
    """(samples,) int64 classes; or, for a regression, (samples, outputs) float32 numbers to predict."""
    order: NDArray[np.integer[Any]] | Sequence[NDArray[np.integer[Any]]] | Sequence[Sequence[NDArray[np.int64]]]
    """(epochs, samples): a permutation of the samples for each epoch, from which batches are cut in turn; or, with
    Poisson batches, the samples of each step of each epoch. At least one epoch; fewer than `Training.epochs` if the
    client stops early. With `Training.steps` the last epoch may be shorter."""
    noise: np.random.BitGenerator | None = None
    """Random bits for the noise of the steps, advanced by training; None only if `example_noise` is 0."""
    deadline: Deadline | None = None
    """Time limit of the training; None: no limit. Training reports each completed epoch to it. If no epoch is completed
    in time, the output row is left unchanged and the loss is NaN."""

    seed: int = 0
    """Seed of what the network draws in training, 0..2^63-1: of dropout."""
    rate: float = 1.0
    """Factor of the learning rate, by the version that the client was sent."""
    optimizer: OptimizerState | None = None
    """State of the optimiser that training begins with and replaces by that of its result; None: a fresh one."""
    correction: NDArray[np.float32] | None = None
    """(n_parameters,): constant vector that is added to the gradient of each step, after clipping; None: none."""

    def epoch(self, number: int, base: NDArray[np.float32]) -> Job:
        """Return the job of one epoch, from a model of its own."""
        seed = (self.seed + number) % 2**63
        return replace(self, base=base, order=self.order[number : number + 1], seed=seed)

    @property
    def samples(self) -> int:
        return len(self.labels)

    def batches(self, size: int) -> Iterator[Sequence[NDArray[np.integer[Any]]]]:
        """Yield the samples of each step of an epoch, epoch by epoch. `size`: samples that are cut from `order` for a
        full step."""
        for epoch in self.order:
            if isinstance(epoch, np.ndarray):
                yield [epoch[start : start + size] for start in range(0, len(epoch), size)]
            else:
                yield epoch


def poisson_batches(
    samples: int, size: int, epochs: int, random: np.random.Generator, last: int | None = None
) -> tuple[tuple[NDArray[np.int64], ...], ...]:
    """Draw the Poisson batches of a task: each of `samples` samples enters each step with probability size / samples.

    An epoch has ceil(samples / size) steps, the last one `last` steps if given. Given its size, which is binomial, a
    batch is a uniform subset.
    """
    steps = -(-samples // size)
    sizes = random.binomial(samples, size / samples, (epochs, steps)).tolist()
    sizes[-1] = sizes[-1][:last]
    return tuple(
        tuple(random.choice(samples, drawn, replace=False, shuffle=False).astype(np.int64) for drawn in epoch)
        for epoch in sizes
    )
