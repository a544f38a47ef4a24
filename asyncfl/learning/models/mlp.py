"""Mlp: linear layers with ReLU in between."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Literal

from asyncfl.base.quantities import MeasuredIn
from asyncfl.learning.architecture import Architecture, Dropout, Shape, Widths, rectified
from asyncfl.learning.layout import Layout

if TYPE_CHECKING:
    import torch


class Layered(Architecture):
    """Linear layers on the flattened input, with ReLU in between."""

    def widths(self, shape: Shape, outputs: int) -> tuple[int, ...]:
        """Return the numbers of inputs, hidden units and outputs, in order."""
        return math.prod(shape), outputs

    @property
    def dropout_share(self) -> float:
        """Probability with which a hidden unit is dropped in training."""
        return 0.0

    def seconds_per_sample(self, shape: Shape, outputs: int) -> float:
        """Estimate six operations per weight, at the rate that small batches reach."""
        return 1e-6 + 6 * sum(a * b for a, b in pairwise(self.widths(shape, outputs))) / 100e9

    def layout(self, shape: Shape, outputs: int) -> Layout:
        # As that of `module`, but without importing torch, which commands that train nothing do not need.
        if type(self).module is not Layered.module:
            return super().layout(shape, outputs)
        widths = self.widths(shape, outputs)
        sizes = [{"weight": (after, before), "bias": (after,)} for before, after in pairwise(widths)]
        return Layout.of([(str(2 * place + 1), size) for place, size in enumerate(sizes)])

    def module(self, shape: Shape, outputs: int) -> torch.nn.Module:
        from torch import nn

        parts: list[nn.Module] = [nn.Flatten()]
        for before, after in pairwise(self.widths(shape, outputs)):
            parts += [nn.Linear(before, after), rectified(self.dropout_share)]
        return nn.Sequential(*parts[:-1])


class Mlp(Layered):
    """Multi-layer perceptron on the flattened input.

    Source: McMahan et al. 2017, section 3, 2NN has two layers of 200.
    """

    kind: Literal["mlp"] = "mlp"
    hidden: Annotated[Widths, MeasuredIn("units")] = (256,)
    """Units of each hidden layer; empty for softmax regression."""
    dropout: Dropout = 0.0
    """Probability with which each unit of a hidden layer is dropped in a training step, 0 <= dropout < 1; the
    others are scaled by 1/(1 - dropout). Source: Srivastava et al. 2014."""

    @property
    def dropout_share(self) -> float:
        return self.dropout

    def widths(self, shape: Shape, outputs: int) -> tuple[int, ...]:
        return (math.prod(shape), *self.hidden, outputs)
