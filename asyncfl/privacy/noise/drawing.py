"""Gaussian and Laplace noise, drawn in place.

Floating-point noise leaks through the gaps between floats (Mironov 2012): this is a simulation of privacy, not a means
to protect anybody.
"""

from __future__ import annotations

import math

import numpy as np

from asyncfl.learning.noise import StandardLaplace, StandardNoise, StandardNormal
from asyncfl.messages import Vector
from asyncfl.privacy.release import Distribution
from asyncfl.streams import Streams

LARGEST = float(np.finfo(np.float32).max)


def add_noise(
    distribution: Distribution,
    vector: Vector,
    std: float,
    streams: Streams,
    purpose: str,
    client: int = -1,
    number: int = -1,
) -> None:
    """Add noise of `distribution` with standard deviation `std` per coordinate to `vector`, in place."""
    add = add_gaussian if distribution == "gaussian" else add_laplace
    add(vector, std, streams, purpose, client, number)


def add_gaussian(
    vector: Vector, std: float, streams: Streams, purpose: str, client: int = -1, number: int = -1
) -> None:
    """Add N(0, std^2) to each coordinate of `vector` ((n_parameters,) float32, changed in place).

    The stream (purpose, client, number) is new for each release, so that no two releases share noise.
    """
    if std > 0 and len(vector):
        _add(vector, std, StandardNormal(streams.bits(purpose, client, number), len(vector)))


def add_laplace(vector: Vector, std: float, streams: Streams, purpose: str, client: int = -1, number: int = -1) -> None:
    """Add Laplace noise of scale std/sqrt(2) to each coordinate of `vector`, as `add_gaussian` does."""
    if std > 0 and len(vector):
        noise = StandardLaplace(streams.bits(purpose, client, number), len(vector))
        _add(vector, std / math.sqrt(2), noise)


def _add(vector: Vector, scale: float, noise: StandardNoise) -> None:
    import torch

    # Noise past the range of float32 makes the model infinite, which ends the run as diverged.
    factor = scale if scale <= LARGEST else math.inf
    torch.from_numpy(vector).add_(torch.from_numpy(noise.draw()), alpha=factor)  # in one pass, where NumPy takes two
