"""ResNet: residual networks for small images, He et al. (2016, arXiv:1512.03385), sections 4.2 and 4.1."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from asyncfl.base.quantities import MeasuredIn
from asyncfl.learning.architecture import Architecture, Dropout, Shape

if TYPE_CHECKING:
    import torch

_WIDE = 18
"""The depth at which the four stages are those of the networks for ImageNet."""


class ResNet(Architecture):
    """Residual network of 3x3 convolutions: 78,042 parameters at depth 8, on 3x32x32 images and 10 classes.

    Depth 6n + 2: three stages of n blocks with 16, 32 and 64 channels. Depth 18: four stages of two blocks with 64,
    128, 256 and 512 channels, after a 3x3 convolution instead of a 7x7 one with pooling, which is for larger images.
    GroupNorm (Wu and He 2018) replaces the paper's batch normalisation; a shortcut across a change of shape is a 1x1
    convolution.

    Source: He et al. 2016, section 4.2; GroupNorm by Wu and He 2018.
    """

    images_only: ClassVar[bool] = True
    kind: Literal["resnet"] = "resnet"
    depth: Literal[8, 14, 18, 20, 26, 32, 44, 56] = 8
    """Number of layers with weights, not counting shortcuts."""
    groups: Annotated[int, Field(ge=1), MeasuredIn("groups")] = 8
    """Number of groups of channels for GroupNorm. If it does not divide the channels, their greatest common divisor is
    used."""
    dropout: Dropout = 0.0
    """Probability with which each number before the last layer is dropped in a training step, 0 <= dropout < 1; the
    others are scaled by 1/(1 - dropout). Source: Srivastava et al. 2014."""

    def seconds_per_sample(self, shape: Shape, outputs: int) -> float:
        """Scale the time measured at depth 8 on 32x32 images with depth and number of pixels."""
        share = 14.0 if self.depth == _WIDE else (self.depth - 2) / 6
        return 1.0e-3 * share * math.prod(shape[1:]) / 1024

    def module(self, shape: Shape, outputs: int) -> torch.nn.Module:
        from torch import nn

        from asyncfl.learning.models.torch_modules import ResidualBlock, conv

        stages, blocks = ((64, 128, 256, 512), 2) if self.depth == _WIDE else ((16, 32, 64), (self.depth - 2) // 6)
        parts: list[nn.Module] = [conv(shape[0], stages[0], 3), self._norm(stages[0]), nn.ReLU()]
        before = stages[0]
        for number, channels in enumerate(stages):
            for block in range(blocks):
                parts.append(ResidualBlock(before, channels, 2 if number and not block else 1, self._norm))
                before = channels
        flat = nn.Sequential(nn.Flatten(), nn.Dropout(self.dropout)) if self.dropout else nn.Flatten()
        return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), flat, nn.Linear(before, outputs))

    def _norm(self, channels: int) -> torch.nn.Module:
        from torch import nn

        return nn.GroupNorm(math.gcd(self.groups, channels), channels)
