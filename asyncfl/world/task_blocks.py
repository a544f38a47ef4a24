"""Draws of tasks that are likely to come, many at once: their two transfers and the time of their training.

A guess that was wrong costs time and nothing else. Draws depend on the client and the number of its tasks before, and
each task's are the same whether they were guessed or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import NamedTuple

import numpy as np

from asyncfl.base.arrays import Bools, Floats, Ints
from asyncfl.world.links import LinkState
from asyncfl.world.tap import Tap
from asyncfl.world.transfer_block import TransferColumns, has_blocks, transfers
from asyncfl.world.world import DOWNLOAD, UPLOAD, WorldState


class DrawnTasks(NamedTuple):
    """Draws of n tasks, in columns."""

    clients: Ints
    """(n,)"""
    turns: Ints
    """(n,) number of tasks that each client had before."""
    down: TransferColumns
    compute_s: Floats
    """(n,) seconds of the training, see `TaskDraws.compute_s`."""
    up: TransferColumns
    are_plain: Bools
    """(n,) whether all is drawn, and the client does not drop out during its training."""


class TaskBlocks:
    """Draws blocks of tasks of one world."""

    def __init__(
        self, world: WorldState, download_bytes: int, upload_bytes: int, samples: Ints, epochs: float = 1
    ) -> None:
        """`download_bytes`, `upload_bytes`: payload of the messages of each task; `samples`: (clients,) that a client
        trains on, for `epochs`."""
        self._world, self._samples, self._epochs = world, samples, epochs
        self._down, self._up, tap = download_bytes, upload_bytes, world.settings.tap
        self._tap_down, self._tap_up = tap if tap.downlink else None, tap if tap.uplink else None
        self.are_possible = (
            has_blocks(world.downlink, download_bytes)
            and has_blocks(world.uplink, upload_bytes)
            and not world.settings.dropout_per_s
        )
        """Whether tasks can be drawn at once: no transfer has jitter, and no client may give up at any time."""

    def draw(self, tasks: Sequence[tuple[int, int]]) -> DrawnTasks:
        """Draw these tasks, each given by client and turn."""
        world = self._world
        clients, turns = np.array(tasks, dtype=np.int64).T
        links = world.downlink, world.uplink
        down = self._transfers(self._down, links, self._tap_down, DOWNLOAD, clients, turns)
        up = self._transfers(self._up, links[::-1], self._tap_up, UPLOAD, clients, turns)
        are_plain = down.is_drawn & up.is_drawn
        if world.settings.dropout:
            are_plain &= [world.task(client, turn).dropout() is None for client, turn in tasks]
        return DrawnTasks(clients, turns, down, self._compute_s(tasks, clients), up, are_plain)

    def _compute_s(self, tasks: Sequence[tuple[int, int]], clients: Ints) -> Floats:
        """Return (n,) seconds of the training of each task."""
        world, samples, law = self._world, self._samples[clients], self._world.settings.device.jitter
        if law.is_constant:
            seconds: Floats = world.s_per_sample[clients] * law.expected() * samples * self._epochs
            return seconds
        every = zip(tasks, samples.tolist(), strict=True)
        return np.array([world.task(*one).compute_s(number, self._epochs) for one, number in every])

    def _transfers(
        self,
        payload_bytes: int,
        links: tuple[LinkState, LinkState],
        tap: Tap | None,
        phase: int,
        clients: Ints,
        turns: Ints,
    ) -> TransferColumns:
        """Return the transfer of one message of each task. `links`: those that it takes, and those back."""
        four = cache(partial(self._world.task_stream.doubles, clients, turns, phase))
        back_s = links[1].latency_s[clients]
        return transfers(links[0], clients, payload_bytes, tap, lambda index: four(index // 4)[index % 4], back_s)
