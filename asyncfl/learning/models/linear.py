"""Linear models for classification (logistic regression) and regression."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from asyncfl.learning.architecture import Architecture, Shape

if TYPE_CHECKING:
    import torch


class Linear(Architecture):
    """One linear layer on the flattened input: softmax (logistic) regression for classes, least squares for numbers.

    A client's loss is convex in the parameters, as most theorems on federated learning require.
    """

    kind: Literal["linear"] = "linear"

    def widths(self, shape: Shape, outputs: int) -> tuple[int, ...]:
        """Return the numbers of inputs and outputs."""
        return math.prod(shape), outputs

    def seconds_per_sample(self, shape: Shape, outputs: int) -> float:
        """Estimate six operations per weight, at the rate that small batches reach."""
        return 1e-6 + 6 * math.prod(shape) * outputs / 100e9

    def module(self, shape: Shape, outputs: int) -> torch.nn.Module:
        from torch import nn

        return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), outputs))
