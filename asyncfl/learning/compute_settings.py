"""Computing as it was done before: sums of floats depend on the number of threads and on who multiplies matrices."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from threadpoolctl import threadpool_limits

from asyncfl.learning.gemm import fixed


@contextmanager
def numpy_as_torch() -> Iterator[None]:
    """Inside it, numpy computes with as many threads as torch does, which is the number that a run tells."""
    import torch

    with threadpool_limits(torch.get_num_threads()):
        yield


@contextmanager
def computing_with(threads: int, gemm: str) -> Iterator[None]:
    """Inside it, torch and numpy compute with that many threads, and `gemm: auto` means that library."""
    import torch

    before = torch.get_num_threads()
    with threadpool_limits(threads), fixed(gemm):
        torch.set_num_threads(threads)
        try:
            yield
        finally:
            torch.set_num_threads(before)
