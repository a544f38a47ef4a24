"""Use of torch's global generator, from which dropout and constructors of modules draw, by one thread at a time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

_ALONE = threading.RLock()


@contextmanager
def seeded(seed: int | None = None, device: torch.device | None = None) -> Iterator[None]:
    """Let torch draw from `seed` inside the context (None: from where the generator is), and restore its global
    generators, of the CPU and of `device`, afterwards."""
    import torch

    devices = [device] if device is not None and device.type == "cuda" else []
    with _ALONE, torch.random.fork_rng(devices=devices):
        if seed is not None:
            torch.manual_seed(seed)
        yield
