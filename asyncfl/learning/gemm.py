"""The library that multiplies float32 matrices on the CPU.

Torch's default (MKL) runs at half speed on some AMD CPUs; oneDNN does not. Torch passes float32 products to oneDNN if
reduced precision is allowed. A CPU without bf16 matrix units then still computes in float32, but one with such units
may not: so oneDNN is used only if its products are as exact as float32, and by `auto` only if it is faster as well. A
call of oneDNN costs about 10 microseconds, so it is faster for large products and slower for small ones, such as in the
training of a layer of 64 units in batches of 32. Therefore `auto` resolves at most to `mixed`.

The libraries differ in the last bits. So the choice of `auto` is stored in the user's cache, for each processor and
version of torch, and holds for all later runs on the machine. `ASYNCFL_GEMM` (`default`, `onednn` or `mixed`) overrides
it. The choice is not part of a run's identity; `timing.json` reports it.
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

from asyncfl.base.errors import Fault, ScenarioError

VARIABLE = "ASYNCFL_GEMM"
"""Environment variable that overrides the choice of `auto`."""

LIBRARIES = ("default", "onednn", "mixed")
"""Choices of `auto`: torch's default library, oneDNN, or oneDNN for all but small products."""

LARGE = (128, 256, 256)
"""(rows, terms, columns) of the product that is timed."""

EXACT = 2e-6
"""Largest relative error (Frobenius norm) of a product of 256 terms that counts as exact to float32."""
FASTER = 1.1
"""Speedup from which on oneDNN is chosen."""


def _switch() -> Any:
    import torch

    matmul = getattr(torch.backends.mkldnn, "matmul", None)
    return matmul if hasattr(matmul, "fp32_precision") and torch.backends.mkldnn.is_available() else None  # type: ignore[no-untyped-call]


@contextmanager
def products(gemm: str) -> Iterator[None]:
    """Run matrix products inside the context in oneDNN (`gemm` = "onednn", "mixed") or as torch is set ("default")."""
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
    """Run small products inside the context in the default library, for "mixed". For use inside `products(gemm)`."""
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
def override_auto(gemm: str) -> Iterator[None]:
    """Resolve `auto` inside the context to `gemm`, one of `LIBRARIES`."""
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
    """Return the member of `LIBRARIES` that a scenario's `gemm` means on this machine.

    oneDNN is replaced by the default if it is not exact. Raises ScenarioError if ASYNCFL_GEMM names no library.
    """
    with _one_thread():
        if gemm == "auto":
            gemm = os.environ.get(VARIABLE) or stored_choice()
            if gemm not in LIBRARIES:
                fault = f"{VARIABLE} must be default, onednn or mixed, got {gemm[:80]!r}"
                raise ScenarioError([Fault("training.gemm", fault)])
        return gemm if gemm == "default" or is_exact() else "default"


@contextmanager
def _one_thread() -> Iterator[None]:
    """Run torch inside the context in one thread. On a busy machine several threads wait for each other longer than
    a probe may take. It is entered for every `gemm`, since setting torch's threads may change how the libraries use
    them."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@cache
def is_exact() -> bool:
    """Whether oneDNN is available and as exact as float32 on this CPU."""
    import torch

    if _switch() is None:
        return False
    a, b = _matrices(LARGE)
    exact = a.double() @ b.double()
    with torch.inference_mode(), products("onednn"):
        return float((a @ b - exact).norm() / exact.norm()) < EXACT


@cache
def stored_choice() -> str:
    """Return the choice stored for this machine; measure and store it if there is none."""
    place = _choice_file()
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
            # Of several processes that start at once the first decides: a link never replaces a file.
            os.link(file.name, place)
        except FileExistsError:
            if (first := _read(place)) is None:
                os.replace(file.name, place)
            found = first or found
        finally:
            Path(file.name).unlink(missing_ok=True)
    return found


def speedup(product: tuple[int, int, int]) -> float:
    """Measure how many times as fast as the default oneDNN multiplies matrices of this shape; takes about 10
    milliseconds."""
    import torch

    a, b = _matrices(product)
    best = {"default": float("inf"), "onednn": float("inf")}
    with torch.inference_mode():
        began = time.perf_counter()
        for number in range(10):  # alternately, so that other load on the machine affects both
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


def _choice_file() -> Path:
    """Return the path of the file that stores the choice of `gemm: auto` for this machine."""
    import torch

    conditions = [_processor(), torch.__version__, os.environ.get("ONEDNN_MAX_CPU_ISA")]
    name = hashlib.sha256(json.dumps(conditions).encode()).hexdigest()[:16]
    cache_folder = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(cache_folder) / "asyncfl" / f"gemm-{name}.json"


def _processor() -> str:
    """Return model and features of the CPU: on rented machines the model name alone is ambiguous."""
    with suppress(OSError):
        first = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").partition("\n\n")[0]
        entries = dict(line.split("\t", 1) for line in first.splitlines() if "\t" in line)
        known = [
            entries[part].strip()
            for part in ("model name", "cpu family", "model", "stepping", "flags")
            if part in entries
        ]
        if known:
            return " ".join(known)
    return f"{platform.machine()} {platform.processor()}"


def _read(place: Path) -> str | None:
    with suppress(OSError, ValueError, TypeError, KeyError):
        found = json.loads(place.read_text(encoding="utf-8"))["gemm"]
        return found if found in LIBRARIES else None
    return None
