"""Number of threads and library of matrix products, set as in an earlier run.

Sums of floats depend on both, so results are reproduced to the last bit only with the same settings.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from threadpoolctl import threadpool_limits

from asyncfl.learning.gemm import override_auto


@contextmanager
def numpy_as_torch() -> Iterator[None]:
    """Limit NumPy inside the context to as many threads as torch uses, the number that a run reports."""
    import torch

    with threadpool_limits(torch.get_num_threads()):
        yield


@contextmanager
def computing_with(threads: int, gemm: str) -> Iterator[None]:
    """Run torch and NumPy inside the context with `threads` threads, and resolve `gemm: auto` to the library `gemm`."""
    import torch

    before = torch.get_num_threads()
    with threadpool_limits(threads), override_auto(gemm):
        torch.set_num_threads(threads)
        try:
            yield
        finally:
            torch.set_num_threads(before)
