"""Python's garbage collector in a program of its own, which imports much and ends soon."""

from __future__ import annotations

import atexit
import gc

COLLECT_EVERY = 50_000
"""New objects after which Python looks for cycles among them."""


def collect_seldom() -> None:
    """Have Python look for garbage in cycles seldom, and not at all when the process ends.

    For programs: a library leaves the collector to its caller.
    """
    # Modules and classes live until the end: looking at each again and again takes a third of the time of an import.
    gc.set_threshold(COLLECT_EVERY, *gc.get_threshold()[1:])
    atexit.unregister(gc.freeze)
    atexit.register(gc.freeze)
