"""Gaussian and Laplace noise on vectors, and noise on the scores that a client returns when a defence asks for them.

Floating-point noise leaks information through the gaps between floats (Mironov 2012): this simulates privacy.
"""

from __future__ import annotations

import math
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field, model_validator

from asyncfl.base.arrays import Vector
from asyncfl.base.component import Described
from asyncfl.base.quantities import MeasuredIn
from asyncfl.base.streams import Streams
from asyncfl.learning.normal_noise import StandardLaplace, StandardNormal
from asyncfl.privacy.accounting.gaussian import analytic_multiplier
from asyncfl.privacy.ranges import Delta, Factor
from asyncfl.privacy.release import Distribution, Unit


def add_noise(
    distribution: Distribution,
    vector: Vector,
    std: float,
    streams: Streams,
    purpose: str,
    client: int = -1,
    number: int = -1,
) -> None:
    """Add noise of standard deviation `std` to each coordinate of `vector` ((n_parameters,) float32, in place). Each
    release has its own stream (purpose, client, number)."""
    if not (std > 0 and len(vector)):
        return
    import torch

    normal = distribution == "gaussian"
    noise = (StandardNormal if normal else StandardLaplace)(streams.bits(purpose, client, number), len(vector))
    scale = std if normal else std / math.sqrt(2)
    # Noise past the range of float32 makes the model infinite, which ends the run as diverged.
    factor = scale if scale <= float(np.finfo(np.float32).max) else math.inf
    torch.from_numpy(vector).add_(torch.from_numpy(noise.draw()), alpha=factor)  # in one pass, where NumPy takes two


def score_sensitivity(models: int, samples: int, unit: Unit = "sample", personal: bool = False) -> float:
    """Return the L2 sensitivity of the accuracies of `models` models on `samples` samples if one sample, or (`client`)
    all of them, are replaced: 1/n each, or 1 with `personal` layers, which one sample may change arbitrarily."""
    return math.sqrt(models) * (1.0 if unit == "client" or personal else 1 / samples)


class ScoreNoise(Described):
    """Gaussian noise on each score that a client returns."""

    in_examples: ClassVar[tuple[str, ...]] = ("std",)
    std: Annotated[Factor | None, MeasuredIn("share"), Field(examples=[0.05])] = None
    """Standard deviation of the noise on each accuracy (0..1). Give either this or `epsilon`."""
    epsilon: Annotated[Factor, MeasuredIn("epsilon")] | None = None
    """Budget of one answer for one replaced sample. Give either this or `std`."""
    delta: Annotated[Delta, MeasuredIn("probability")] = 1e-5
    """Probability with which that budget may be broken, 0..1, exclusive."""

    @model_validator(mode="after")
    def _check_noise(self) -> ScoreNoise:
        if (self.std is None) == (self.epsilon is None):
            got = "neither" if self.std is None else "both"
            raise ValueError(f"give either std or epsilon, got {got}")
        return self

    def std_of(self, models: int, samples: int, personal: bool) -> float:
        """Return the standard deviation on each score of `models` >= 1 models on `samples` >= 1 samples."""
        if self.std is not None:
            return self.std
        sensitivity = score_sensitivity(models, samples, personal=personal)
        return analytic_multiplier(self.epsilon or math.inf, self.delta) * sensitivity
