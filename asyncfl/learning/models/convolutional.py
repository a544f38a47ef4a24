"""The form that LeNet and McMahan's network share: convolutions, each with pooling, then linear layers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from asyncfl.errors import Fault, ScenarioError
from asyncfl.learning.architecture import Shape

if TYPE_CHECKING:
    import torch


def convolutional(shape: Shape, classes: int, channels: Sequence[int], hidden: Sequence[int]) -> torch.nn.Sequential:
    """Network of 5x5 convolutions that keep the size, each followed by 2x2 max-pooling, then linear layers.

    ReLU stands behind the pooling: both orders give the same values and gradients, this one touches a quarter as many.
    """
    from torch import nn

    inputs, height, width = shape
    parts: list[nn.Module] = []
    for outputs in channels:
        parts += [nn.Conv2d(inputs, outputs, 5, padding=2), nn.MaxPool2d(2), nn.ReLU()]
        inputs, height, width = outputs, height // 2, width // 2
    if height < 1 or width < 1:
        message = f"images must be at least {2 ** len(channels)} wide and high, got {shape[1]}x{shape[2]}"
        raise ScenarioError([Fault("model.channels", f"{message}; give fewer channels (each pools once)")])
    parts.append(nn.Flatten())
    for before, after in pairwise((inputs * height * width, *hidden, classes)):
        parts += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*parts[:-1])
