"""The network of the bucketing paper's code on MNIST (He, Karimireddy and Jaggi 2022): 1,199,882 parameters.

Two 3x3 convolutions without padding, ReLU after the first alone, one pooling; whole channels are dropped after it, and
units of the hidden layer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn


def bucketing_net(shape: tuple[int, int, int], classes: int) -> nn.Module:
    """Return the network for images of `shape` (channels, height, width)."""
    from torch import nn

    inputs, height, width = shape
    return nn.Sequential(
        nn.Conv2d(inputs, 32, 3),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3),
        nn.MaxPool2d(2),
        nn.Dropout2d(0.25),
        nn.Flatten(),
        nn.Linear(64 * ((height - 4) // 2) * ((width - 4) // 2), 128),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(128, classes),
    )
