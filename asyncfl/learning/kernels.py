"""The compiled kernels for convolutions behind pooling: an optional part of the installation.

`pooled_convolution.c` is compiled where asyncfl is installed with a C compiler, for x86-64. The program is whole
without it: torch computes then. Both agree within the rounding of float32, but not to the last bit, and neither do the
kernels for AVX2 and AVX-512. As with `gemm`, the choice is not part of a run's identity; `timing.json` reports it.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache
from pathlib import Path

from asyncfl.base.errors import Fault, ScenarioError

VARIABLE = "ASYNCFL_KERNELS"
"""Environment variable that overrides `auto` and `compiled`."""
TORCH = "torch"
WIDTHS = {"avx2": 8, "avx512": 16}
"""Instruction set of compiled kernels -> float32 numbers in a vector."""
KERNELS = (TORCH, *WIDTHS)
"""Names of kernels, the fastest last."""
VERSION = 2
"""Version of the kernels' arithmetic and interface: equal to that in the C source, and raised with it, so that seeds of
other arithmetic are not joined into a run and a library that was compiled from another source is not used."""
LIBRARY = Path(__file__).with_name("_pooled_convolution.so")
"""The compiled library, see `setup.py`."""


@cache
def library() -> ctypes.CDLL | None:
    """Load the compiled library; None if the installation has none of this version, or if it cannot be loaded."""
    try:
        loaded = ctypes.CDLL(str(LIBRARY))
        loaded.asyncfl_kernels_version.restype = loaded.asyncfl_widest.restype = ctypes.c_int64
        return loaded if loaded.asyncfl_kernels_version() == VERSION else None
    except (OSError, AttributeError):
        return None


@cache
def available() -> tuple[str, ...]:
    """Return the members of `KERNELS` that this installation has and this CPU can run, the fastest last."""
    loaded = library()
    widest = 0 if loaded is None else loaded.asyncfl_widest()
    return (TORCH, *(name for name, width in WIDTHS.items() if width <= widest))


def resolve_kernels(kernels: str) -> str:
    """Return the member of `KERNELS` that a scenario's `kernels` means on this machine.

    `compiled` is the fastest one that is available, and so is `auto` where torch has one thread: the compiled kernels
    use one. Raises ScenarioError if ASYNCFL_KERNELS names no kernels.
    """
    import torch

    if kernels == TORCH:
        return TORCH
    if (named := os.environ.get(VARIABLE)) is None:
        return available()[-1] if kernels == "compiled" or torch.get_num_threads() == 1 else TORCH
    if named not in KERNELS:
        fault = f"{VARIABLE} must be {', '.join(KERNELS[:-1])} or {KERNELS[-1]}, got {named[:80]!r}"
        raise ScenarioError([Fault("training.kernels", fault)])
    return named if named in available() else TORCH
