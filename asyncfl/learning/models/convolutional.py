"""Convolutional networks: convolutions with pooling, then linear layers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from asyncfl.base.errors import Fault, ScenarioError
from asyncfl.base.quantities import MeasuredIn
from asyncfl.learning.architecture import Architecture, Shape, Widths, image_shape

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
        norm = [nn.GroupNorm(groups, filters)] if groups else []
        parts += [nn.Conv2d(inputs, filters, kernel, padding=kernel // 2), nn.MaxPool2d(2), *norm, nn.ReLU()]
        inputs, height, width = filters, height // 2, width // 2
    if height < 1 or width < 1:
        message = f"images must be at least {2 ** len(channels)} wide and high, got {shape[1]}x{shape[2]}"
        raise ScenarioError([Fault("model.channels", f"{message}; give fewer channels (each pools once)")])
    parts.append(nn.Flatten())
    for before, after in pairwise((inputs * height * width, *hidden, outputs)):
        parts += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*parts[:-1])


class TwoConvolutions(Architecture):
    """Base class of the networks of 5x5 convolutions and hidden layers."""

    images_only: ClassVar[bool] = True
    kind: str
    channels: Widths
    hidden: Widths

    def module(self, shape: Shape, outputs: int) -> torch.nn.Module:
        return convolutional(shape, outputs, self.channels, self.hidden)


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


class McMahanCnn(TwoConvolutions):
    """Two 5x5 convolutions and a layer of 512 units: 1,663,370 parameters on 1x28x28 images and 10 classes.

    Source: McMahan et al. 2017, section 3, CNN.
    """

    seconds: ClassVar[float] = 5.7e-4
    kind: Literal["cnn"] = "cnn"
    channels: Annotated[Widths, MeasuredIn("channels")] = (32, 64)
    """Channels of each convolution."""
    hidden: Annotated[Widths, MeasuredIn("units")] = (512,)
    """Units of each hidden linear layer."""


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

    @model_validator(mode="after")
    def _check_groups(self) -> SmallCnn:
        if self.groups and any(outputs % self.groups for outputs in self.channels):
            listed = ", ".join(map(str, self.channels))
            raise ValueError(f"groups must be 0 or divide each of channels ({listed}), got {self.groups}")
        return self

    def module(self, shape: Shape, outputs: int) -> torch.nn.Module:
        return convolutional(shape, outputs, self.channels, self.hidden, kernel=self.kernel, groups=self.groups)


class DigitsNet(Architecture):
    """Three 5x5 convolutions and two hidden layers, each normalised: 14,219,210 parameters on 3x28x28 images.

    GroupNorm (Wu and He 2018) replaces FedBN's batch normalisation: it is a function of one example, so it has no
    running statistics to average or to leak, and examples can be clipped one by one.

    Source: Li et al. 2021 (FedBN, arXiv:2102.07623), the network for digits.
    """

    images_only: ClassVar[bool] = True
    seconds: ClassVar[float] = 4.7e-3
    kind: Literal["digits"] = "digits"
    groups: Annotated[int, Field(ge=1), MeasuredIn("groups")] = 32
    """Number of groups of channels (or units) for GroupNorm; a divisor of 64."""

    @field_validator("groups")
    @classmethod
    def _check_groups(cls, value: int) -> int:
        if 64 % value:
            raise ValueError("must divide 64 channels")
        return value

    def module(self, shape: Shape, outputs: int) -> torch.nn.Module:
        from torch import nn

        inputs, height, width = image_shape(shape)
        height, width = height // 4, width // 4
        if height < 1 or width < 1:
            message = f"images must be at least 4 wide and high, got {shape[1]}x{shape[2]}"
            raise ScenarioError([Fault("model.kind", f"{message}; take kind: mlp")])
        parts: list[nn.Module] = []
        for filters, pooling in ((64, [nn.MaxPool2d(2)]), (64, [nn.MaxPool2d(2)]), (128, [])):
            parts += [nn.Conv2d(inputs, filters, 5, padding=2), nn.GroupNorm(self.groups, filters), *pooling, nn.ReLU()]
            inputs = filters
        parts.append(nn.Flatten())
        for before, after in pairwise((128 * height * width, 2048, 512)):
            parts += [nn.Linear(before, after), nn.GroupNorm(self.groups, after), nn.ReLU()]
        return nn.Sequential(*parts, nn.Linear(512, outputs))
