"""Draws of tasks that are likely to come, many at once: their two transfers, which take most of the time of a task.

A guess that was wrong costs time and nothing else. Draws depend on the client and the number of its tasks before, and
each task's are the same whether they were guessed or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial

import numpy as np

from asyncfl.base.arrays import Ints
from asyncfl.world.links import LinkState
from asyncfl.world.tap import Tap
from asyncfl.world.transfer import Transfer
from asyncfl.world.transfer_block import has_blocks, transfers
from asyncfl.world.world import DOWNLOAD, UPLOAD, TaskDraws, WorldState


class GuessedDraws(TaskDraws):
    """Draws of a task that was guessed: its transfers have been drawn."""

    __slots__ = ("_down", "_up")

    def __init__(self, world: WorldState, client: int, number: int, down: Transfer | None, up: Transfer | None) -> None:
        """`down`, `up`: the transfers; None where they are still to be drawn."""
        super().__init__(world, client, number, scoring=False)
        self._down, self._up = down, up

    def download(self, payload_bytes: int) -> Transfer:
        return self._down or super().download(payload_bytes)

    def upload(self, payload_bytes: int) -> Transfer:
        return self._up or super().upload(payload_bytes)


class TaskBlocks:
    """Blocks of tasks of one world whose transfers are drawn at once."""

    def __init__(self, world: WorldState, download_bytes: int, upload_bytes: int) -> None:
        """`download_bytes`, `upload_bytes`: payload of the messages of each task."""
        self._world, tap = world, world.settings.tap
        self._down = download_bytes if has_blocks(world.downlink, download_bytes) else None
        self._up = upload_bytes if has_blocks(world.uplink, upload_bytes) else None
        self._tap_down, self._tap_up = tap if tap.downlink else None, tap if tap.uplink else None
        self._drawn: dict[tuple[int, int], GuessedDraws] = {}

    @property
    def is_useful(self) -> bool:
        """Whether any transfer can be drawn with others."""
        return self._down is not None or self._up is not None

    def draw(self, tasks: Sequence[tuple[int, int]]) -> None:
        """Draw the transfers of these tasks, client and turn, and forget those of earlier blocks."""
        world = self._world
        clients, turns = np.array(tasks, dtype=np.int64).T
        links = world.downlink, world.uplink
        down = self._transfers(self._down, links, self._tap_down, DOWNLOAD, clients, turns)
        up = self._transfers(self._up, links[::-1], self._tap_up, UPLOAD, clients, turns)
        self._drawn = {one: GuessedDraws(world, *one, *both) for one, *both in zip(tasks, down, up, strict=True)}

    def task(self, client: int, turn: int) -> TaskDraws | None:
        """Return the draws of a task; None if it was not guessed."""
        return self._drawn.pop((client, turn), None)

    def _transfers(
        self,
        payload_bytes: int | None,
        links: tuple[LinkState, LinkState],
        tap: Tap | None,
        phase: int,
        clients: Ints,
        turns: Ints,
    ) -> Sequence[Transfer | None]:
        """Return the transfer of one message of each task. `links`: those that it takes, and those back."""
        if payload_bytes is None:
            return [None] * len(clients)
        four = cache(partial(self._world.task_stream.doubles, clients, turns, phase))
        back_s = links[1].latency_s[clients]
        return transfers(links[0], clients, payload_bytes, tap, lambda index: four(index // 4)[index % 4], back_s)
