"""Random streams of one purpose, read through a single generator.

To create a NumPy generator costs as much as ten draws, and a task needs few draws. So one generator is moved from
stream to stream: Philox is counter-based, its whole state is a key and a counter. Each stream has a separate range for
each phase of a task (download, computation, upload, ...), 2^192 draws apart: the counter's highest word is the phase.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from asyncfl.base.arrays import Floats, Ints
from asyncfl.base.streams import Streams
from asyncfl.world.philox import doubles


class KeyedStream:
    """Generator that can be moved to the start of any phase of any stream of one purpose."""

    def __init__(self, streams: Streams, purpose: str) -> None:
        self._rng = streams.generator(purpose, 0, 0)
        self._state: dict[str, Any] = dict(self._rng.bit_generator.state)

    def at(self, client: int, number: int, phase: int = 0) -> np.random.Generator:
        """Move the generator to the start of a phase of the stream of `client` and `number`, and return it.

        The generator is valid until the next call. Phase 0 starts like `streams.generator(purpose, client, number)`.
        """
        words = self._state["state"]
        words["key"][0] = (client + 1) << 32 | (number + 1)  # as in `Streams`; the other word is the purpose's
        words["counter"][3] = phase
        self._rng.bit_generator.state = self._state  # copied: counter and buffer stay those of a fresh stream
        return self._rng

    def doubles(self, clients: Ints, numbers: Ints, phase: int, block: int = 0) -> Floats:
        """Compute (4, n) random numbers, those that `at(client, number, phase).random(...)` draws as number 4 `block`
        to 4 `block` + 3, for all of `clients` (n,) and `numbers` (n,)."""
        keys = ((clients + 1) << 32 | (numbers + 1)).astype(np.uint64)
        return doubles(keys, int(self._state["state"]["key"][1]), phase, block)
