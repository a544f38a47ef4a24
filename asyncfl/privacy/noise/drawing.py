"""Draw Gaussian and Laplace noise in place.

Floating-point noise leaks information through the gaps between floats (Mironov 2012). This package simulates privacy
and protects no real data.
"""

from __future__ import annotations

import math

import numpy as np

from asyncfl.base.messages import Vector
from asyncfl.base.streams import Streams
from asyncfl.learning.noise import StandardLaplace, StandardNormal
from asyncfl.privacy.release import Distribution

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
    """Add noise of standard deviation `std` to each coordinate of `vector` ((n_parameters,) float32, in place); nothing
    if `std` is 0.

    Each release has its own stream (purpose, client, number), so no two releases share noise.
    """
    if not (std > 0 and len(vector)):
        return
    import torch

    normal = distribution == "gaussian"
    noise = (StandardNormal if normal else StandardLaplace)(streams.bits(purpose, client, number), len(vector))
    scale = std if normal else std / math.sqrt(2)
    # Noise past the range of float32 makes the model infinite, which ends the run as diverged.
    factor = scale if scale <= LARGEST else math.inf
    torch.from_numpy(vector).add_(torch.from_numpy(noise.draw()), alpha=factor)  # in one pass, where NumPy takes two
