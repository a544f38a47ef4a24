"""Which library multiplies float32 matrices on the CPU.

Torch's default (MKL) runs kernels at half rate on some AMD CPUs; oneDNN does not. Torch hands float32 products to
oneDNN when reduced precision is allowed. A CPU without bf16 matrix units then still computes in float32, one with them
may not: so oneDNN is used only where it is found as exact as float32, and by `auto` where it is faster as well. A call
of it costs some 10 microseconds, so that it wins large products and loses small ones, such as the training of a layer
of 64 units in batches of 32: so `auto` means at most `mixed`.

The two libraries differ in the last bits. What `auto` has found is therefore kept in the user's cache, for each
processor and version of torch, and holds for all later runs of the machine; `ASYNCFL_GEMM` (`default`, `onednn` or
`mixed`) says what `auto` means without asking. It is no part of a run's identity; `timing.json` tells it.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from asyncfl.errors import Fault, ScenarioError

VARIABLE = "ASYNCFL_GEMM"
"""Environment variable that says what `auto` means."""

LIBRARIES = ("default", "onednn", "mixed")
"""What `auto` may mean: torch's own library, oneDNN, or oneDNN for all but small products."""

LARGE = (128, 256, 256)
"""(rows, terms, columns) of the product that is tried."""

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
    """Inside it, matrix products run in oneDNN (`gemm` = "onednn", "mixed") or as torch is set ("default")."""
    switch = None if gemm == "default" else _switch()
    if switch is None:
        yield
        return
    before = switch.fp32_precision
    switch.fp32_precision = "bf16"
    try:
        yield
    finally:
        switch.fp32_precision = before


@contextmanager
def small_products(gemm: str, small: bool) -> Iterator[None]:
    """Inside `products(gemm)`, what is made of products of one size: where it is small, "mixed" is the default."""
    switch = _switch() if gemm == "mixed" and small else None
    if switch is None:
        yield
        return
    switch.fp32_precision = "none"
    try:
        yield
    finally:
        switch.fp32_precision = "bf16"


@contextmanager
def fixed(gemm: str) -> Iterator[None]:
    """Inside it, `auto` means that one of `LIBRARIES`."""
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = gemm
    try:
        yield
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before


def resolve(gemm: str) -> str:
    """Which of `LIBRARIES` a scenario's `gemm` means on this machine.

    oneDNN is left for the default where it is not exact. Raises ScenarioError where ASYNCFL_GEMM is no library.
    """
    with _one_thread():
        if gemm == "auto":
            gemm = os.environ.get(VARIABLE) or remembered()
            if gemm not in LIBRARIES:
                fault = f"{VARIABLE} must be default, onednn or mixed, got {gemm[:80]!r}"
                raise ScenarioError([Fault("training.gemm", fault)])
        return gemm if gemm == "default" or is_exact() else "default"


@contextmanager
def _one_thread() -> Iterator[None]:
    """Inside it, torch computes in one thread: on a busy machine several wait for each other longer than a probe may
    take. It is entered whatever is asked, since to set torch's threads may change how the libraries use them."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@cache
def is_exact() -> bool:
    """Whether oneDNN is there and multiplies as exactly as float32 on this CPU."""
    import torch

    if _switch() is None:
        return False
    a, b = _matrices(LARGE)
    exact = a.double() @ b.double()
    with torch.inference_mode(), products("onednn"):
        return float((a @ b - exact).norm() / exact.norm()) < EXACT


@cache
def remembered() -> str:
    """What was found once on a machine like this; found now where nothing was, and kept where that is possible."""
    place = _place()
    if (found := _read(place)) is not None:
        return found
    found = "default"
    if is_exact() and speedup(LARGE) > FASTER:
        found = "mixed"
    with suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=place.parent, encoding="utf-8", delete=False) as file:
            json.dump({"gemm": found}, file)
        try:
            # Of several processes that start at once the first decides for all: a link never replaces a file.
            os.link(file.name, place)
        except FileExistsError:
            if (first := _read(place)) is None:
                os.replace(file.name, place)
            found = first or found
        finally:
            Path(file.name).unlink(missing_ok=True)
    return found


def speedup(product: tuple[int, int, int]) -> float:
    """How many times as fast as the default oneDNN multiplies matrices of that shape; takes some 10 milliseconds."""
    import torch

    a, b = _matrices(product)
    best = {"default": float("inf"), "onednn": float("inf")}
    with torch.inference_mode():
        began = time.perf_counter()
        for number in range(10):  # in turn, so that what else runs on the machine disturbs both
            if number > 1 and time.perf_counter() - began > 0.01:
                break
            for name in best:
                with products(name):
                    start = time.perf_counter()
                    a @ b
                    best[name] = min(best[name], time.perf_counter() - start)
    return best["default"] / best["onednn"]


def _matrices(product: tuple[int, int, int]) -> tuple[Any, Any]:
    import torch

    rows, terms, columns = product
    generator = torch.Generator().manual_seed(0)
    return torch.randn(rows, terms, generator=generator), torch.randn(terms, columns, generator=generator)


def _place() -> Path:
    """The file that remembers what was found on this machine."""
    import torch

    conditions = [_processor(), torch.__version__, os.environ.get("ONEDNN_MAX_CPU_ISA")]
    name = hashlib.sha256(json.dumps(conditions).encode()).hexdigest()[:16]
    cache_folder = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(cache_folder) / "asyncfl" / f"gemm-{name}.json"


def _processor() -> str:
    """Model of the CPU and what it can do: on rented machines many have one name."""
    with suppress(OSError):
        first = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").partition("\n\n")[0]
        told = dict(line.split("\t", 1) for line in first.splitlines() if "\t" in line)
        known = [
            told[part].strip() for part in ("model name", "cpu family", "model", "stepping", "flags") if part in told
        ]
        if known:
            return " ".join(known)
    return f"{platform.machine()} {platform.processor()}"


def _read(place: Path) -> str | None:
    with suppress(OSError, ValueError, TypeError, KeyError):
        found = json.loads(place.read_text(encoding="utf-8"))["gemm"]
        return found if found in LIBRARIES else None
    return None
