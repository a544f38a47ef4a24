"""Noise on the scores that a client returns when a defence asks it to score models on its data.

An accuracy on n samples changes by at most 1/n if one sample is replaced, and by at most 1 if all are. The accuracies
of k models change by at most sqrt(k) times as much in L2. Personal layers carry the client's data into the model that
is scored: one sample may change them arbitrarily, and the accuracy by up to 1. Scores without noise are a release that
hides nothing.
"""

from __future__ import annotations

import math
from typing import Annotated, ClassVar

from pydantic import Field, model_validator

from asyncfl.base.component import Described
from asyncfl.base.quantities import MeasuredIn
from asyncfl.privacy.accounting.gaussian import analytic_multiplier
from asyncfl.privacy.ranges import Delta, Factor
from asyncfl.privacy.release import Unit


def score_sensitivity(models: int, samples: int, unit: Unit = "sample", personal: bool = False) -> float:
    """Return the L2 sensitivity of the accuracies of `models` models on `samples` samples if one sample, or (`client`)
    all of them, are replaced. `personal`: whether the models have personal layers of the client."""
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
        """Return the standard deviation on each score when a client with `samples` >= 1 samples scores `models` >= 1
        models, with its `personal` layers or without."""
        if self.std is not None:
            return self.std
        sensitivity = score_sensitivity(models, samples, personal=personal)
        return analytic_multiplier(self.epsilon or math.inf, self.delta) * sensitivity
