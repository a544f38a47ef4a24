"""LeNet: a small convolutional network similar to LeCun et al. (1998), with ReLU and max-pooling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from asyncfl.base.quantities import MeasuredIn
from asyncfl.learning.architecture import Shape, Widths
from asyncfl.learning.models.convolutional import TwoConvolutions, convolutional

if TYPE_CHECKING:
    import torch


class LeNet(TwoConvolutions):
    """Two 5x5 convolutions and one hidden layer: 215,370 parameters on 1x28x28 images and 10 classes.

    Source: LeCun et al. 1998 for the shape, with ReLU and max-pooling; the widths are ours.
    """

    seconds: ClassVar[float] = 1.6e-4
    kind: Literal["lenet"] = "lenet"
    channels: Annotated[Widths, MeasuredIn("channels")] = (16, 32)
    """Channels of each convolution."""
    hidden: Annotated[Widths, MeasuredIn("units")] = (128,)
    """Units of each hidden linear layer."""
    padded: bool = True
    """Whether the convolutions pad images so that they keep their size; false as LeCun et al. 1998."""

    def module(self, shape: Shape, outputs: int) -> torch.nn.Module:
        return convolutional(shape, outputs, self.channels, self.hidden, padded=self.padded, dropout=self.dropout)
