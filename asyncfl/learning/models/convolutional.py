"""The structure shared by LeNet, McMahan's network and SmallCnn: convolutions with pooling, then linear layers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from asyncfl.base.errors import Fault, ScenarioError
from asyncfl.learning.architecture import Shape, image_shape

if TYPE_CHECKING:
    import torch


def convolutional(
    shape: Shape, outputs: int, channels: Sequence[int], hidden: Sequence[int], kernel: int = 5, groups: int = 0
) -> torch.nn.Sequential:
    """Build convolutions that keep the image size, each followed by 2x2 max-pooling, then linear layers.

    kernel: side of the convolutions, odd. groups: of the GroupNorm after each pooling, 0 for none. ReLU comes after the
    pooling: both orders give the same values and gradients, and this one computes a quarter as many numbers. GroupNorm
    also comes after the pooling, where its values differ from those before it; a step takes two thirds of the time.
    """
    from torch import nn

    inputs, height, width = image_shape(shape)
    parts: list[nn.Module] = []
    for filters in channels:
        parts += [nn.Conv2d(inputs, filters, kernel, padding=kernel // 2), nn.MaxPool2d(2)]
        if groups:
            parts.append(nn.GroupNorm(groups, filters))
        parts.append(nn.ReLU())
        inputs, height, width = filters, height // 2, width // 2
    if height < 1 or width < 1:
        message = f"images must be at least {2 ** len(channels)} wide and high, got {shape[1]}x{shape[2]}"
        raise ScenarioError([Fault("model.channels", f"{message}; give fewer channels (each pools once)")])
    parts.append(nn.Flatten())
    for before, after in pairwise((inputs * height * width, *hidden, outputs)):
        parts += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*parts[:-1])
