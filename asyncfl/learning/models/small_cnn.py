"""SmallCnn: a convolutional network small enough to learn under differential privacy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from asyncfl.base.quantities import MeasuredIn
from asyncfl.learning.architecture import Architecture, Dropout, Shape, Widths
from asyncfl.learning.models.convolutional import convolutional

if TYPE_CHECKING:
    import torch


class SmallCnn(Architecture):
    """Three 3x3 convolutions and a linear layer: 5,242 parameters on 3x28x28 images and 10 classes.

    The length of the noise on an update grows with the square root of the number of parameters, while the clipped
    update does not grow. So under differential privacy a small network can learn where a large one cannot. GroupNorm
    (Wu and He 2018) is a function of one example, so it is compatible with clipping of examples.

    Source: ours.
    """

    images_only: ClassVar[bool] = True
    seconds: ClassVar[float] = 1.2e-4
    kind: Literal["small_cnn"] = "small_cnn"
    channels: Annotated[Widths, MeasuredIn("channels")] = (8, 16, 16)
    """Channels of each convolution; 2x2 max-pooling follows each."""
    kernel: Literal[3, 5] = 3
    """Side of the convolution kernels, in pixels."""
    groups: Annotated[int, Field(ge=0), MeasuredIn("groups")] = 4
    """Number of groups of channels for the GroupNorm after each pooling, a divisor of each of `channels`; 0: no
    normalisation."""
    hidden: Annotated[Widths, MeasuredIn("units")] = ()
    """Units of each hidden linear layer."""
    dropout: Dropout = 0.0
    """Probability with which each unit of a hidden linear layer is dropped in a training step, 0 <= dropout < 1; the
    others are scaled by 1/(1 - dropout). Source: Srivastava et al. 2014."""

    @model_validator(mode="after")
    def _check_groups(self) -> SmallCnn:
        if self.groups and any(outputs % self.groups for outputs in self.channels):
            listed = ", ".join(map(str, self.channels))
            raise ValueError(f"groups must be 0 or divide each of channels ({listed}), got {self.groups}")
        return self

    def module(self, shape: Shape, outputs: int) -> torch.nn.Module:
        widths, kernel, groups = (self.channels, self.hidden), self.kernel, self.groups
        return convolutional(shape, outputs, *widths, kernel=kernel, groups=groups, dropout=self.dropout)
