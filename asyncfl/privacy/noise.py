"""Gaussian noise, drawn in place."""

from __future__ import annotations

import math

import numpy as np

from asyncfl.messages import Vector
from asyncfl.streams import Streams

LARGEST = float(np.finfo(np.float32).max)


def add_gaussian(vector: Vector, std: float, streams: Streams, purpose: str, client: int = -1, task: int = -1) -> None:
    """Add N(0, std^2) to each coordinate of `vector` ((n_parameters,) float32, changed in place).

    The stream (purpose, client, task) is new for each release, so that no two releases share noise.
    """
    if std <= 0 or not len(vector):
        return
    import torch

    noise = torch.empty(len(vector), dtype=torch.float32)
    noise.normal_(generator=streams.torch_generator(purpose, client, task))
    # Noise past the range of float32 makes the model infinite, which ends the run as diverged.
    torch.from_numpy(vector).add_(noise, alpha=std if std <= LARGEST else math.inf)
