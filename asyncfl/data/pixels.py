"""Conversion of stored images to model inputs."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class PixelScale(Protocol):
    """Mean and deviation of the pixels in units of 0..1, one number per channel."""

    @property
    def mean(self) -> tuple[float, ...]: ...

    @property
    def std(self) -> tuple[float, ...]: ...


def to_float(images: NDArray[np.uint8], standardise: PixelScale | None) -> NDArray[np.float32]:
    """Convert images (n, height, width[, channels]) to (n, channels, height, width) float32, C-contiguous.

    The values are 0..1, or standardised by the data set's mean and deviation.
    """
    if images.ndim == 3:
        images = images[..., None]
    channels = images.shape[3]
    planes = np.empty((len(images), channels, *images.shape[1:3]), np.float32)
    for channel in range(channels):
        mean, std = (0.0, 1.0)
        if standardise is not None:  # a grey set in a federation of domains has three channels but one mean
            mean, std = (values[channel % len(values)] for values in (standardise.mean, standardise.std))
        plane = planes[:, channel]
        np.multiply(images[..., channel], np.float32(1 / (255 * std)), out=plane, dtype=np.float32)
        plane -= np.float32(mean / std)
    return planes


COMMON_SIDE = 28
"""Height and width of the images in a federation of several domains."""


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


def _resampling(side: int) -> NDArray[np.float32]:
    """Return the weights (28, side) of the old pixels in each new one."""
    step = side / COMMON_SIDE
    centres = (np.arange(COMMON_SIDE) + 0.5) * step - 0.5
    distance = np.abs(np.arange(side) - centres[:, None]) / max(step, 1.0)
    weights = np.maximum(0.0, 1.0 - distance)
    shares: NDArray[np.float32] = (weights / weights.sum(1, keepdims=True)).astype(np.float32)
    return shares
