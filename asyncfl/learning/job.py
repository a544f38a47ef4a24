"""Job: the inputs of one client's training task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asyncfl.learning.deadline import Deadline


@dataclass(frozen=True, eq=False)
class Job:
    """Inputs of one client's training task. No array is modified."""

    base: NDArray[np.float32]
    """(n_parameters,): the model that the client was sent."""
    images: NDArray[np.float32]
    """(samples, C, H, W): training images, poisoned or not; or features of any other shape."""
    labels: NDArray[Any]
    """(samples,) int64 classes; or, for a regression, (samples, outputs) float32 numbers to predict."""
    order: NDArray[np.integer[Any]]
    """(epochs, samples): a permutation of the samples for each epoch, from which batches are cut in turn. At least one
    epoch; fewer than `Training.epochs` if the client stops early."""
    noise: np.random.BitGenerator | None = None
    """Random bits for the noise of the steps, advanced by training; None only if `example_noise` is 0."""
    deadline: Deadline | None = None
    """Time limit of the training; None: no limit. Training reports each completed epoch to it. If no epoch is completed
    in time, the output row is left unchanged and the loss is NaN."""

    @property
    def samples(self) -> int:
        return len(self.labels)
