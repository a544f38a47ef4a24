"""Time the libraries of matrix products at the sizes of a run.

The library is chosen once for each machine, number of threads and run's sizes, and kept in the user's cache folder: a
run that is resumed or repeated rounds as it did before, however busy the machine is now.
"""

from __future__ import annotations

import hashlib
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from statistics import median

from asyncfl.base.files.user_cache import cached_bytes
from asyncfl.learning.gemm import Size, by_size, products

GAIN = 0.9
"""Largest share of the default library's time at which another library is taken."""
ROUNDS = 5
"""Times that each library is timed, in turn."""
BUDGET_S = 0.05
"""Seconds after which no further round begins."""


def fastest(seconds: Mapping[str, Sequence[float]]) -> str:
    """Return the library with the least time, or `default` unless the other is faster by a tenth at least.

    `seconds`: library -> times of the rounds. On a busy machine single rounds say little: the least time must be
    shorter, and the median of the ratios to the default library in the same round.
    """
    best = min(seconds, key=lambda library: min(seconds[library]))
    ratios = [own / default for own, default in zip(seconds[best], seconds["default"], strict=True)]
    gains = min(seconds[best]) <= GAIN * min(seconds["default"]) and median(ratios) <= GAIN
    return best if gains else "default"


@lru_cache(maxsize=32)
def measured(sizes: tuple[Size, ...], threads: int, libraries: tuple[str, ...]) -> str:
    """Return the library to take for layers of these sizes, measured in this process or an earlier one."""
    import torch

    facts = (_processor(), torch.__version__, threads, sizes, libraries, Path(__file__).read_text(encoding="utf-8"))
    name = f"gemm-{hashlib.sha256(repr(facts).encode()).hexdigest()[:32]}"
    found = cached_bytes(name, lambda: fastest(time_products(sizes, libraries)).encode()).decode(errors="replace")
    return found if found in libraries else "default"


def time_products(
    sizes: Sequence[Size], libraries: Sequence[str], clock: Callable[[], float] = time.perf_counter
) -> dict[str, list[float]]:
    """Time the products of one step of training: library -> seconds of each round."""
    import torch

    generator = torch.Generator().manual_seed(0)
    drawn = [tuple(torch.randn(shape, generator=generator) for shape in ((n, i), (i, o), (n, o))) for n, i, o in sizes]
    seconds: dict[str, list[float]] = {library: [] for library in libraries}
    began = clock()
    with torch.inference_mode():
        # The first round warms up caches and libraries.
        for number in range(ROUNDS + 1):
            for library in libraries:
                with products(library), products(library, small=library == "mixed"):
                    in_library = [by_size(library, torch.mm, *size) for size in sizes]
                    start = clock()
                    for (x, weights, errors), mm in zip(drawn, in_library, strict=True):
                        mm(x, weights)
                        mm(x.T, errors)
                        mm(errors, weights.T)
                    seconds[library] += [clock() - start] if number else []
            if number and clock() - began > BUDGET_S:
                break
    return seconds


def _processor() -> str:
    """Return the name of the CPU."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()
