"""Interface of all data sets: numbered samples of two splits, with labels and features; and the scaling of images."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Ints = NDArray[np.int64]
Floats = NDArray[np.float32]
Rng = np.random.Generator
Split = Literal["train", "test"]
Scaling = Literal["standardised", "symmetric", "unit"]
"""Scaling of pixels, see `data.scaling`."""
Scale = tuple[tuple[float, ...], tuple[float, ...]]
"""Mean and deviation of pixels in units of 0..1, one number per channel."""
FIXED_SCALES: dict[str, Scale] = {"symmetric": ((0.5,), (0.5,)), "unit": ((0.0,), (1.0,))}
"""Scaling -> mean and deviation, of those that are the same for all data sets."""
COMMON_SIDE = 28  # height and width of the images in a federation of several domains


class SampleSource(ABC):
    """Samples of one data set: a training split and a test split, each numbered from 0, drawn without replacement."""

    name: str
    """Name of the data set in a scenario."""
    title: str
    """Name of the data set in messages and captions."""
    is_original: bool
    """Whether these are all samples of the real data set: not stand-ins, not a subset."""
    provenance: str
    """Origin of the samples in one line, for captions."""
    scale: Scale
    """Mean and deviation that standardise images."""
    columns: tuple[str, ...] = ()
    """Names of the columns besides `label`."""

    @abstractmethod
    def size(self, split: Split) -> int:
        """Return the number of samples of a split."""

    @abstractmethod
    def labels(self, split: Split, indices: Ints) -> Array:
        """Return the classes (n,), or numbers to predict (n, outputs), of the samples `indices`."""

    @abstractmethod
    def images(self, split: Split, indices: Ints) -> Array:
        """Return the features (n, ...) of the samples `indices`, as stored."""

    def scaled(self, images: Array, scaling: Scaling) -> Floats:
        """Convert stored features to model inputs (n, *shape), C-contiguous."""
        return to_float(images, self.scale if scaling == "standardised" else FIXED_SCALES[scaling])

    def column(self, name: str, split: Split, indices: Ints) -> Array:
        """Return the values (n,) of one of `columns`, or of `label`, for the samples `indices`."""
        return self.labels(split, indices)

    def default_size(self, split: Split = "train") -> int:
        """Return the number of samples to divide if the scenario gives no number: all."""
        return self.size(split)

    def test_size(self, split: Split = "test") -> int:
        """Return the number of test samples if the scenario gives no number: all."""
        return self.size(split)

    def candidates(self, samples: int, rng: Rng, split: Split = "train") -> Ints:
        """Return shuffled candidates for training: at least `samples` of them, if the split has so many."""
        return rng.permutation(self.size(split))

    def test_set(self, count: int | None, rng: Rng, split: Split = "test") -> tuple[Array, Array, Ints]:
        """Return features, labels and indices of `count` test samples; None: the default number."""
        chosen = np.arange(self.size(split))
        if count is not None:
            chosen = np.sort(rng.permutation(chosen)[:count])
        return self.images(split, chosen), self.labels(split, chosen), chosen

    def unused(self, count: int, used: Ints, rng: Rng, split: Split = "train") -> Ints:
        """Return up to `count` samples of a split that are not in `used`."""
        left = np.setdiff1d(np.arange(self.size(split)), used)
        return np.sort(rng.permutation(left)[:count])


def to_float(images: NDArray[np.uint8], scale: Scale) -> Floats:
    """Convert images (n, height, width[, channels]) to (n, channels, height, width) float32, C-contiguous.

    Pixels 0..1 are standardised by `scale`.
    """
    if images.ndim == 3:
        images = images[..., None]
    planes = np.empty((len(images), images.shape[3], *images.shape[1:3]), np.float32)
    for channel in range(images.shape[3]):
        # A grey set in a federation of domains has three channels but one mean.
        mean, std = (values[channel % len(values)] for values in scale)
        plane = planes[:, channel]
        np.multiply(images[..., channel], np.float32(1 / (255 * std)), out=plane, dtype=np.float32)
        plane -= np.float32(mean / std)
    return planes


def to_common_shape(images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Convert images (n, height, width[, 3]) uint8 to (n, 28, 28, 3) uint8.

    Grey images get three equal channels; other sizes are resampled with a triangle filter.
    """
    grey = images.ndim == 3
    if grey:
        images = images[..., None]
    if images.shape[1:3] != (COMMON_SIDE, COMMON_SIDE):
        down, across = _resampling(images.shape[1]), _resampling(images.shape[2])
        rows = np.tensordot(images.astype(np.float32), across, axes=(2, 1))
        resampled = np.tensordot(rows, down, axes=(1, 1))  # (n, channels, width, height)
        images = np.rint(resampled).clip(0, 255).astype(np.uint8).transpose(0, 3, 2, 1)
    return np.repeat(images, 3, axis=3) if grey else images


def _resampling(side: int) -> Floats:
    """Return the weights (28, side) of the old pixels in each new one."""
    step = side / COMMON_SIDE
    centres = (np.arange(COMMON_SIDE) + 0.5) * step - 0.5
    weights = np.maximum(0.0, 1.0 - np.abs(np.arange(side) - centres[:, None]) / max(step, 1.0))
    return np.asarray(weights / weights.sum(1, keepdims=True), np.float32)
