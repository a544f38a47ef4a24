"""The streams of all tasks, read through one generator.

Making a NumPy generator costs as much as ten draws, and a task needs few. So one generator is moved from stream to
stream: Philox is counter-based, its whole state is key and counter. Each phase of a task (download, computation,
upload, ...) has a stretch of the task's stream for itself, 2^192 draws from the next: the counter's highest word is the
phase.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from asyncfl.streams import Streams

_WORD = (1 << 64) - 1


class TaskStream:
    """Generator that stands at the beginning of any phase of any task."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._rng = streams.generator("task_clock", 0, 0)
        self._state: dict[str, Any] = dict(self._rng.bit_generator.state)

    def at(self, client: int, number: int, phase: int) -> np.random.Generator:
        """Generator at the beginning of the phase's stretch, on loan until the next call.

        Phase 0 begins as `streams.generator("task_clock", client, number)` does.
        """
        key = self._streams._key("task_clock", client, number)
        words = self._state["state"]
        words["key"][0], words["key"][1] = key & _WORD, key >> 64
        words["counter"][3] = phase
        self._rng.bit_generator.state = self._state  # copied: counter and buffer stay those of a fresh stream
        return self._rng
