"""Noise on what a client answers when a defence has it score models on its data.

An accuracy on n samples changes by at most 1/n when one of them is another, and by at most 1 when all are; the
accuracies of k models by sqrt(k) times as much (L2). Without noise that is a release that hides nothing.
"""

from __future__ import annotations

import math
from typing import Annotated, ClassVar

from pydantic import Field, model_validator

from asyncfl.component import Described
from asyncfl.privacy.accounting.gaussian import analytic_multiplier
from asyncfl.privacy.ranges import Delta, Factor
from asyncfl.privacy.release import Unit
from asyncfl.quantities import MeasuredIn


def score_sensitivity(models: int, samples: int, unit: Unit = "sample") -> float:
    """L2 distance of the accuracies of `models` on `samples` samples of which one is another; `client`: all are."""
    return math.sqrt(models) * (1.0 if unit == "client" else 1 / samples)


class ScoreNoise(Described):
    """Gaussian noise on each score that a client gives."""

    in_examples: ClassVar[tuple[str, ...]] = ("std",)
    std: Annotated[Factor | None, MeasuredIn("share"), Field(examples=[0.05])] = None
    """Standard deviation of the noise on each accuracy (0..1). Or give `epsilon`."""
    epsilon: Annotated[Factor, MeasuredIn("epsilon")] | None = None
    """Budget of one answer, for one sample that is another, instead of `std`."""
    delta: Annotated[Delta, MeasuredIn("probability")] = 1e-5
    """Probability with which that budget may be broken, 0..1, exclusive."""

    @model_validator(mode="after")
    def _check_noise(self) -> ScoreNoise:
        if (self.std is None) == (self.epsilon is None):
            got = "neither" if self.std is None else "both"
            raise ValueError(f"give either std or epsilon, got {got}")
        return self

    def std_of(self, models: int, samples: int) -> float:
        """Standard deviation on each score of an answer about `models` >= 1, by a client with `samples` >= 1."""
        if self.std is not None:
            return self.std
        return analytic_multiplier(self.epsilon or math.inf, self.delta) * score_sensitivity(models, samples)
