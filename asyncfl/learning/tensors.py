"""Tensors that share memory with NumPy arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch


class _Writable:
    """The memory of a read-only array, declared writable: torch has no read-only tensors and warns about such
    arrays."""

    def __init__(self, array: NDArray[Any]) -> None:
        self.array = array
        pointer = array.__array_interface__["data"][0]
        self.__array_interface__ = {**array.__array_interface__, "data": (pointer, False)}


def tensor_of(array: NDArray[Any]) -> torch.Tensor:
    """Wrap an array in a tensor that shares its memory. Never write to the tensor of a read-only array."""
    import torch

    return torch.from_numpy(array if array.flags.writeable else np.asarray(_Writable(array)))
