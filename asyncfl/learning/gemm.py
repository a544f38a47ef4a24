"""The library that multiplies float32 matrices on the CPU, and the number of threads.

Torch's default (MKL) runs at half speed on some CPUs; oneDNN does not, but costs about 10 microseconds a call. Torch
passes float32 products to oneDNN if reduced precision is allowed, so it is used only where its products are exact to
float32. `auto` resolves to what is measured to be faster at the sizes of the run (see `gemm_timing`), `ASYNCFL_GEMM`
overrides that.

Sums of floats depend on library and threads, so results are reproduced to the last bit only with the same settings. The
choice is not part of a run's identity; `timing.json` reports it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from threadpoolctl import threadpool_limits

from asyncfl.base.errors import Fault, RunError, ScenarioError
from asyncfl.learning.kernels import TORCH, available, resolve_kernels
from asyncfl.learning.kernels import VARIABLE as KERNELS_VARIABLE

if TYPE_CHECKING:
    import torch

    from asyncfl.learning.layout import Layout

Size = tuple[int, int, int]
"""Rows of a batch, inputs and outputs of a layer."""

VARIABLE = "ASYNCFL_GEMM"
"""Environment variable that overrides the choice of `auto`."""
LIBRARIES = ("default", "onednn", "mixed")
"""Torch's default library, oneDNN, or oneDNN for all but small products."""
LARGE = 700_000
"""Multiplications of a product from which `mixed` takes oneDNN: below, its overhead exceeds its gain (measured)."""
FULL_BATCH = 500
"""Rows that stand for a batch of all samples of a client where libraries are timed."""
EXACT = 2e-6
"""Largest relative error (Frobenius norm) of a product of 256 terms that counts as exact to float32."""


def _switch() -> Any:
    import torch

    matmul = getattr(torch.backends.mkldnn, "matmul", None)
    return matmul if hasattr(matmul, "fp32_precision") and torch.backends.mkldnn.is_available() else None  # type: ignore[no-untyped-call]


@contextmanager
def products(gemm: str, small: bool = False) -> Iterator[None]:
    """Run matrix products inside the context in oneDNN (`gemm` = "onednn", "mixed") or as torch is set ("default").

    `small`: inside `products("mixed")`, run products in the default library but for those of `by_size`; no effect for
    other libraries.
    """
    switch = _switch() if gemm == "mixed" or (gemm == "onednn" and not small) else None
    if switch is None:
        yield
        return
    before = switch.fp32_precision
    switch.fp32_precision = "none" if small else "bf16"
    try:
        yield
    finally:
        switch.fp32_precision = before


def by_size(gemm: str, product: Callable[..., torch.Tensor], *sizes: int) -> Callable[..., torch.Tensor]:
    """Return `product` such that it runs in oneDNN inside `products("mixed", small=True)` if its matrices are large.

    `sizes`: rows and columns of one matrix and columns of the other.
    """
    switch = _switch() if gemm == "mixed" and math.prod(sizes) >= LARGE else None
    if switch is None:
        return product

    def in_onednn(*matrices: torch.Tensor, **settings: Any) -> torch.Tensor:
        switch.fp32_precision = "bf16"
        try:
            return product(*matrices, **settings)
        finally:
            switch.fp32_precision = "none"

    return in_onednn


@contextmanager
def numpy_as_torch() -> Iterator[None]:
    """Limit NumPy inside the context to as many threads as torch uses, the number that a run reports."""
    import torch

    with threadpool_limits(torch.get_num_threads()):
        yield


class Arithmetic(NamedTuple):
    """Settings on which the rounding of a run depends, beside the machine and the versions of its libraries.

    One process makes the `choice` for a run; its other processes, and those that continue or repeat it, `use` it.
    """

    threads: int
    """Threads of torch and NumPy."""
    gemm: str
    """Member of `LIBRARIES` that multiplies matrices."""
    kernels: str = TORCH
    """Member of `kernels.KERNELS` that computes convolutions behind pooling."""


def choice(gemm: str = "auto", sizes: tuple[Size, ...] = (), kernels: str = TORCH) -> Arithmetic:
    """Return the settings of this process for a scenario's `gemm` and `kernels`. `sizes`: see `sizes_of`. Raises
    ScenarioError as `resolve` and `resolve_kernels`."""
    import torch

    return Arithmetic(torch.get_num_threads(), resolve(gemm, sizes), resolve_kernels(kernels))


def sizes_of(layout: Layout, batch_size: int | Literal["full"]) -> tuple[Size, ...]:
    """Return rows of a batch, inputs and outputs of each layer that is a matrix."""
    rows = FULL_BATCH if batch_size == "full" else batch_size
    shapes = (shape for _, _, shape in layout.parameters())
    return tuple((rows, shape[1], shape[0]) for shape in shapes if len(shape) == 2)


@contextmanager
def use(choice: Arithmetic) -> Iterator[None]:
    """Compute inside the context with the settings of another process; `auto` resolves to its library and kernels.

    Raises RunError if this machine does not have that library, or not exact to float32, or lacks the kernels.
    """
    import torch

    lacks = ""
    if choice.gemm not in LIBRARIES or resolve(choice.gemm) != choice.gemm:
        lacks = f"gemm: {choice.gemm[:80]}, which this machine lacks or has not exact to float32"
    elif choice.kernels not in available():
        lacks = f"kernels for {choice.kernels[:80]}, which this machine or its installation lacks"
    if lacks:
        raise RunError(f"the run must be computed with {lacks}; use the machine that began it")
    settings = {VARIABLE: choice.gemm, KERNELS_VARIABLE: choice.kernels}
    threads_before, before = torch.get_num_threads(), {name: os.environ.get(name) for name in settings}
    os.environ |= settings
    with threadpool_limits(choice.threads):
        torch.set_num_threads(choice.threads)
        try:
            yield
        finally:
            torch.set_num_threads(threads_before)
            for name, value in before.items():
                os.environ.pop(name)
                os.environ |= {} if value is None else {name: value}


def keep_threads(threads: int) -> None:
    """Compute with this number of threads from now on, torch and NumPy."""
    import torch

    threadpool_limits(threads)
    torch.set_num_threads(threads)


def resolve(gemm: str, sizes: tuple[Size, ...] = ()) -> str:
    """Return the member of `LIBRARIES` that a scenario's `gemm` means on this machine, where oneDNN may not be exact.

    `sizes`: of the products by which `auto` chooses, see `sizes_of`; `default` without any. Raises ScenarioError if
    ASYNCFL_GEMM names no library.
    """
    if gemm == "auto":
        gemm = os.environ.get(VARIABLE) or (_measured(sizes) if sizes and is_exact() else "default")
        if gemm not in LIBRARIES:
            fault = f"{VARIABLE} must be default, onednn or mixed, got {gemm[:80]!r}"
            raise ScenarioError([Fault("training.gemm", fault)])
    return gemm if gemm == "default" or is_exact() else "default"


@cache
def is_exact() -> bool:
    """Whether oneDNN is available and as exact as float32 on this CPU."""
    import torch

    if _switch() is None:
        return False
    generator = torch.Generator().manual_seed(0)
    a, b = torch.randn(128, 256, generator=generator), torch.randn(256, 256, generator=generator)
    exact = a.double() @ b.double()
    with torch.inference_mode(), products("onednn"):
        return float((a @ b - exact).norm() / exact.norm()) < EXACT


def _measured(sizes: tuple[Size, ...]) -> str:
    import torch

    from asyncfl.learning.gemm_timing import measured

    return measured(sizes, torch.get_num_threads(), LIBRARIES)
