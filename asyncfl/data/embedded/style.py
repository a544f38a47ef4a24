"""Styles of stand-ins: conversion of labels and uniform random numbers to images.

A style uses a fixed number of random numbers per sample, so a sample depends only on its label and its own numbers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from asyncfl.data.embedded.warp import Floats
from asyncfl.data.sample_source import Split


class Style(ABC):
    """A style of drawing, with `draws` uniform random numbers per sample and `classes` classes."""

    @property
    def classes(self) -> int:
        return 10

    draws: int
    """Uniform random numbers per sample."""

    @abstractmethod
    def render(self, labels: NDArray[np.int64], draws: Floats, split: Split) -> NDArray[np.uint8]:
        """Draw the images (n, height, width[, 3]) of the `labels`, with random numbers `draws` (n, self.draws) in
        0..1."""


def between(low: float, high: float, draws: Floats) -> Floats:
    """Scale uniform random numbers 0..1 to low..high."""
    return low + (high - low) * draws


def coverage(distances: Floats, softness: float | Floats) -> Floats:
    """Compute the share of each pixel, 0..1, that a stroke covers: a ramp `softness` pixels wide across the outline.
    Works in place.

    distances: (n, pixels) from `warp.distances`. softness: a number, or (n, 1).
    """
    distances /= softness
    distances += 0.5
    return np.clip(distances, 0.0, 1.0, out=distances)
