"""Which library multiplies float32 matrices on the CPU.

Torch's default (MKL) runs kernels at half rate on some AMD CPUs; oneDNN does not. Torch hands float32 products to
oneDNN when reduced precision is allowed. A CPU without bf16 matrix units then still computes in float32, one with them
may not: so it is an option, and it is used only where a probe finds it as exact as float32 and faster.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

EXACT = 2e-6
"""Largest relative error (Frobenius) of a product of 256 terms that passes for float32."""
FASTER = 1.1
"""How many times faster oneDNN must be to be worth it."""


def _switch() -> Any:
    import torch

    matmul = getattr(torch.backends.mkldnn, "matmul", None)
    return matmul if hasattr(matmul, "fp32_precision") and torch.backends.mkldnn.is_available() else None  # type: ignore[no-untyped-call]


@contextmanager
def products(gemm: str) -> Iterator[None]:
    """Inside it, matrix products run in oneDNN (`gemm` = "onednn") or as torch is set ("default")."""
    switch = _switch() if gemm == "onednn" else None
    if switch is None:
        yield
        return
    before = switch.fp32_precision
    switch.fp32_precision = "bf16"
    try:
        yield
    finally:
        switch.fp32_precision = before


@cache
def probe() -> str:
    """ "onednn" where it is exact and faster on this CPU, else the reason why not ("not exact", "not faster", ...)."""
    import torch

    if _switch() is None:
        return "not available"
    generator = torch.Generator().manual_seed(0)
    a = torch.randn(128, 256, generator=generator)
    b = torch.randn(256, 256, generator=generator)
    exact = a.double() @ b.double()
    seconds: dict[str, float] = {}
    for name in ("default", "onednn"):
        with torch.inference_mode(), products(name):
            if name == "onednn" and float((a @ b - exact).norm() / exact.norm()) > EXACT:
                return "not exact"
            times = []
            for _ in range(20):
                start = time.perf_counter()
                for _ in range(5):
                    a @ b
                times.append(time.perf_counter() - start)
            seconds[name] = min(times)
    return "onednn" if seconds["default"] > FASTER * seconds["onednn"] else "not faster"


def resolve(gemm: str) -> tuple[str, str]:
    """The library to use for a scenario's `gemm`, and one line for the run's summary."""
    if gemm == "default":
        return "default", "default"
    found = probe()
    return ("onednn", "onednn") if found == "onednn" else ("default", f"default (oneDNN {found})")
