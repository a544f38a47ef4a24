"""The structure shared by LeNet, McMahan's network and SmallCnn: convolutions with pooling, then linear layers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar

from asyncfl.base.errors import Fault, ScenarioError
from asyncfl.learning.architecture import Architecture, Dropout, Shape, Widths, rectified

if TYPE_CHECKING:
    import torch


def convolutional(
    shape: Shape,
    outputs: int,
    channels: Sequence[int],
    hidden: Sequence[int],
    kernel: int = 5,
    groups: int = 0,
    padded: bool = True,
    dropout: float = 0.0,
) -> torch.nn.Sequential:
    """Build convolutions, each followed by 2x2 max-pooling, then linear layers.

    kernel: side of the convolutions, odd. padded: whether convolutions keep the image size. groups: of the GroupNorm
    after each pooling, 0 for none. dropout: probability with which a unit of a hidden linear layer is dropped. ReLU
    comes after the pooling: both orders give the same values and gradients, and this one computes a quarter as many
    numbers. GroupNorm also comes after the pooling, where its values differ from
    those before it; a step takes two thirds of the time.
    """
    from torch import nn

    inputs, height, width = shape
    parts: list[nn.Module] = []
    margin = 0 if padded else kernel - 1
    for filters in channels:
        norm = [nn.GroupNorm(groups, filters)] if groups else []
        parts += [nn.Conv2d(inputs, filters, kernel, padding=kernel // 2 if padded else 0)]
        parts += [nn.MaxPool2d(2), *norm, nn.ReLU()]
        inputs, height, width = filters, (height - margin) // 2, (width - margin) // 2
    if height < 1 or width < 1:
        least = 2 ** len(channels) + margin * (2 ** len(channels) - 1)
        message = f"images must be at least {least} wide and high, got {shape[1]}x{shape[2]}"
        raise ScenarioError([Fault("model.channels", f"{message}; give fewer channels (each pools once)")])
    parts.append(nn.Flatten())
    for before, after in pairwise((inputs * height * width, *hidden, outputs)):
        parts += [nn.Linear(before, after), rectified(dropout)]
    return nn.Sequential(*parts[:-1])


class TwoConvolutions(Architecture):
    """Base class of the networks of 5x5 convolutions and hidden layers."""

    images_only: ClassVar[bool] = True
    kind: str
    channels: Widths
    hidden: Widths
    dropout: Dropout = 0.0
    """Probability with which each unit of a hidden linear layer is dropped in a training step, 0 <= dropout < 1; the
    others are scaled by 1/(1 - dropout). Source: Srivastava et al. 2014."""

    def module(self, shape: Shape, outputs: int) -> torch.nn.Module:
        return convolutional(shape, outputs, self.channels, self.hidden, dropout=self.dropout)
