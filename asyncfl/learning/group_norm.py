"""GroupNorm (Wu and He 2018) in place of BatchNorm, whose running statistics cannot be averaged like parameters."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

GROUPS = 32
"""Groups of channels. If GROUPS does not divide the channels, their greatest common divisor is used."""


def without_batch_norm(module: torch.nn.Module) -> torch.nn.Module:
    """Replace each BatchNorm in `module` by a GroupNorm of as many channels, and return the module."""
    from torch import nn
    from torch.nn.modules.batchnorm import _BatchNorm

    for name, part in module.named_children():
        if isinstance(part, _BatchNorm):
            channels = part.num_features
            setattr(module, name, nn.GroupNorm(math.gcd(GROUPS, channels), channels, part.eps, part.affine))
        else:
            without_batch_norm(part)
    return module
