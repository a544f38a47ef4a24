"""DpCnn: the network of the examples of DP-SGD on MNIST."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from asyncfl.base.errors import Fault, ScenarioError
from asyncfl.learning.architecture import Architecture, Shape

if TYPE_CHECKING:
    import torch


class DpCnn(Architecture):
    """Two strided convolutions and one hidden layer: 26,010 parameters on 1x28x28 images and 10 classes.

    Source: TensorFlow Privacy, tutorials/mnist_dpsgd_tutorial.py; Opacus, examples/mnist.py.
    """

    images_only: ClassVar[bool] = True
    seconds: ClassVar[float] = 1.0e-4
    kind: Literal["dp_cnn"] = "dp_cnn"

    def module(self, shape: Shape, outputs: int) -> torch.nn.Module:
        from torch import nn

        sides = [(((side - 2) // 2 - 5) // 2) for side in shape[1:]]  # of 28 pixels: 14, 13, 5 and 4
        if min(sides) < 1:
            message = f"images must be at least 16 wide and high for dp_cnn, got {shape[1]}x{shape[2]}"
            raise ScenarioError([Fault("model.kind", message)])
        return nn.Sequential(
            nn.Conv2d(shape[0], 16, 8, stride=2, padding=3),
            nn.MaxPool2d(2, stride=1),
            nn.ReLU(),
            nn.Conv2d(16, 32, 4, stride=2),
            nn.MaxPool2d(2, stride=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(32 * sides[0] * sides[1], 32),
            nn.ReLU(),
            nn.Linear(32, outputs),
        )
