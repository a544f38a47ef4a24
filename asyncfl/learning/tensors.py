"""Tensors that share memory with NumPy arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch


class _Writable:
    """The memory of a read-only array, announced as writable (torch has no read-only tensors and warns of them)."""

    def __init__(self, array: NDArray[Any]) -> None:
        self.array = array
        pointer = array.__array_interface__["data"][0]
        self.__array_interface__ = {**array.__array_interface__, "data": (pointer, False)}


def tensor_of(array: NDArray[Any]) -> torch.Tensor:
    """Tensor on the memory of `array`; whoever passes a read-only array must not write to the tensor."""
    import torch

    return torch.from_numpy(array if array.flags.writeable else np.asarray(_Writable(array)))
