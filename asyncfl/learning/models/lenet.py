"""LeNet: a small convolutional network similar to LeCun et al. (1998), with ReLU and max-pooling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from asyncfl.base.quantities import MeasuredIn
from asyncfl.learning.architecture import Architecture, Shape, Widths
from asyncfl.learning.models.convolutional import convolutional

if TYPE_CHECKING:
    import torch


class LeNet(Architecture):
    """Two 5x5 convolutions and one hidden layer: 215,370 parameters on 1x28x28 images and 10 classes.

    Source: LeCun et al. 1998 for the shape; the widths are ours.
    """

    images_only: ClassVar[bool] = True
    kind: Literal["lenet"] = "lenet"
    channels: Annotated[Widths, MeasuredIn("channels")] = (16, 32)
    """Channels of each convolution."""
    hidden: Annotated[Widths, MeasuredIn("units")] = (128,)
    """Units of each hidden linear layer."""

    def seconds_per_sample(self, shape: Shape, outputs: int) -> float:
        return 1.6e-4  # measured on 28x28 images

    def module(self, shape: Shape, outputs: int) -> torch.nn.Module:
        return convolutional(shape, outputs, self.channels, self.hidden)
