"""GroupNorm (Wu and He 2018) in place of batch normalisation, whose running statistics no average of models covers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

GROUPS = 32
"""Groups of channels where they can be divided by it; otherwise the largest number that divides both."""


def without_batch_norm(module: torch.nn.Module) -> torch.nn.Module:
    """`module` with a GroupNorm of as many channels in place of each BatchNorm in it."""
    from torch import nn
    from torch.nn.modules.batchnorm import _BatchNorm

    for name, part in module.named_children():
        if isinstance(part, _BatchNorm):
            channels = part.num_features
            setattr(module, name, nn.GroupNorm(math.gcd(GROUPS, channels), channels, part.eps, part.affine))
        else:
            without_batch_norm(part)
    return module
