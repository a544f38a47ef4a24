"""Processes that end with the one that started them, however that one ends."""

from __future__ import annotations

import os
import threading
from multiprocessing.connection import Connection, wait


def end_with(lifeline: Connection) -> None:
    """End this process, even in the middle of a task, as soon as nobody holds the other end of `lifeline`."""
    threading.Thread(target=_wait_and_end, args=(lifeline,), daemon=True).start()


def _wait_and_end(lifeline: Connection) -> None:
    wait([lifeline])
    os._exit(0)
