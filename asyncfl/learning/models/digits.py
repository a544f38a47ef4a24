"""DigitsNet: the network of Li et al. (2021, FedBN, arXiv:2102.07623) for digits from several domains."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field, field_validator

from asyncfl.base.errors import Fault, ScenarioError
from asyncfl.base.quantities import MeasuredIn
from asyncfl.learning.architecture import Architecture, Shape

if TYPE_CHECKING:
    import torch


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

        inputs, height, width = shape
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
