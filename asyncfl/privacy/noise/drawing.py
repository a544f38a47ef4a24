"""Gaussian and Laplace noise, drawn in place.

Floating-point noise leaks through the gaps between floats (Mironov 2012): this is a simulation of privacy, not a means
to protect anybody.
"""

from __future__ import annotations

import math

import numpy as np

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
    if std <= 0 or not len(vector):
        return
    import torch

    noise = torch.empty(len(vector), dtype=torch.float32)
    noise.normal_(generator=streams.torch_generator(purpose, client, number))
    # Noise past the range of float32 makes the model infinite, which ends the run as diverged.
    torch.from_numpy(vector).add_(noise, alpha=std if std <= LARGEST else math.inf)


def add_laplace(vector: Vector, std: float, streams: Streams, purpose: str, client: int = -1, number: int = -1) -> None:
    """Add Laplace noise of scale std/sqrt(2) to each coordinate of `vector`, as `add_gaussian` does."""
    if std <= 0 or not len(vector):
        return
    import torch

    generator = streams.torch_generator(purpose, client, number)
    # Inverse of the distribution function, in double precision: with 24 bits the tail would end at 17 scales.
    uniform = torch.rand(len(vector), dtype=torch.float64, generator=generator).sub_(0.5)
    noise = torch.sign(uniform).mul_(torch.log1p(uniform.abs_().mul_(-2)))
    scale = std / math.sqrt(2)
    torch.from_numpy(vector).sub_(noise.float(), alpha=scale if scale <= LARGEST else math.inf)
