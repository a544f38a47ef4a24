"""Arrays of numpy as tensors of torch, and flat vectors as tensors with the shapes of a module's parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch


class _Writable:
    """The memory of a read-only array, declared writable: torch has no read-only tensors and warns about the array."""

    def __init__(self, array: NDArray[Any]) -> None:
        self.array, shown = array, array.__array_interface__
        self.__array_interface__ = {**shown, "data": (shown["data"][0], False)}


ALIGNED_TO = 64
"""Bytes; torch aligns its own memory so."""


def tensor_of(array: NDArray[Any]) -> torch.Tensor:
    """Return a tensor of the array's values, which may only be read: it may share the array's memory.

    MKL rounds a product differently where a matrix is aligned differently, and slices of one array and arrays from a
    pickle are. So an array whose address is no multiple of `ALIGNED_TO` is copied.
    """
    import torch

    shared = torch.from_numpy(array if array.flags.writeable else np.asarray(_Writable(array)))
    return shared.clone() if shared.data_ptr() % ALIGNED_TO else shared


def tensors_of(*arrays: NDArray[Any]) -> list[torch.Tensor]:
    """Return tensors of arrays, see `tensor_of`."""
    return [tensor_of(one) for one in arrays]


def split(flat: torch.Tensor, like: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Cut a flat vector (n_parameters,) into views with the shapes of a module's parameters."""
    import torch

    parts = torch.split(flat, [p.numel() for p in like])
    return [part.view(p.shape) for part, p in zip(parts, like, strict=True)]
