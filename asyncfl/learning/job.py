"""Job: one client's training task, as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asyncfl.learning.deadline import Deadline


@dataclass(frozen=True, eq=False)
class Job:
    """What one client trains from, on what, in which order. No array of it is changed."""

    base: NDArray[np.float32]
    """(n_parameters,): the model that the client was sent."""
    images: NDArray[np.float32]
    """(samples, C, H, W): its training images, poisoned or not."""
    labels: NDArray[Any]
    """(samples,) int64: their classes; or (samples, outputs) float32: numbers to predict."""
    order: NDArray[np.integer[Any]]
    """(epochs, samples): a permutation of the samples for each epoch, one at least, fewer than training has where the
    client is stopped; batches are cut from it in turn."""
    noise: np.random.BitGenerator | None = None
    """Random bits that the noise of its steps is made of, moved by training; None only where `example_noise` is 0."""
    deadline: Deadline | None = None
    """When training has to stop; None: it does not. It is told of each epoch, and where none was done in time the
    trained model is left as it was, and its loss is NaN."""

    @property
    def samples(self) -> int:
        """Number of training samples."""
        return len(self.labels)
