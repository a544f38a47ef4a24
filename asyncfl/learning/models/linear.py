"""Linear models: of the classes (logistic regression), or of a number."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from asyncfl.learning.architecture import Architecture, Shape

if TYPE_CHECKING:
    import torch


class Linear(Architecture):
    """One linear layer on all numbers of an input: softmax (logistic) regression of classes, least squares of a number.

    The loss of a client is convex in it, which most theorems on federated learning ask for.
    """

    kind: Literal["linear"] = "linear"

    def widths(self, shape: Shape, outputs: int) -> tuple[int, ...]:
        """Inputs and outputs."""
        return math.prod(shape), outputs

    def seconds_per_sample(self, shape: Shape, outputs: int) -> float:
        """Six operations per weight, at the rate that small batches reach."""
        return 1e-6 + 6 * math.prod(shape) * outputs / 100e9

    def module(self, shape: Shape, outputs: int) -> torch.nn.Module:
        """Flatten and Linear."""
        from torch import nn

        return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), outputs))
