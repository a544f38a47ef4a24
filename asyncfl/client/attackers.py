"""The attackers among the clients of one run: who they are, what they train on, what they send instead."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from asyncfl.messages import Vector
from asyncfl.streams import Streams
from asyncfl.threats import Attack, AttackView, Threats


class Attackers:
    """Carries out the threats of one run. Poisoned data are made once per client and kept."""

    def __init__(self, threats: Threats, clients: int, classes: int, streams: Streams) -> None:
        self.threats = threats
        self.clients = clients
        self.classes = classes
        self.streams = streams
        self._crafts = type(threats.attack).craft is not Attack.craft
        self._poisons = type(threats.attack).poison is not Attack.poison
        self._poisoned: dict[int, tuple[NDArray[np.float32], NDArray[np.int64]]] = {}
        self._members = lru_cache(maxsize=256)(self._draw)

    def _draw(self, version: int) -> frozenset[int]:
        return frozenset(self.threats.attackers_at(self.streams, self.clients, version).tolist())

    def members(self, version: int) -> frozenset[int]:
        """The attackers for tasks that start from `version`."""
        return self._members(0 if self.threats.selection == "pool" else version)

    def attacks(self, client: int, base_version: int, turn: int) -> bool:
        """Whether a task is an attack. `turn`: tasks that the client was given before."""
        return client in self.members(base_version) and self.threats.active(base_version, turn)

    def speed(self, client: int, base_version: int) -> float:
        """How many times as fast as honest clients this one finishes a task (flooding)."""
        rate = self.threats.attack.rate
        return rate if rate != 1.0 and client in self.members(base_version) else 1.0

    def poisoned(
        self, client: int, images: NDArray[np.float32], labels: NDArray[np.int64]
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """What an attacker trains on: its data after `Attack.poison`."""
        if not self._poisons:
            return images, labels
        if client not in self._poisoned:
            random = self.streams.generator("poison", client)
            self._poisoned[client] = self.threats.attack.poison(images, labels, self.classes, random)
        return self._poisoned[client]

    def craft(
        self, rows: Vector, bases: Sequence[Vector], attacked: NDArray[np.bool_], version: int, current: Vector
    ) -> None:
        """Put in place of the attacked rows what the attackers upload, before noise.

        `rows`: (n, n_parameters) models, those of honest clients as sent; changed in place. `attacked`: (n,).
        """
        if not self._crafts:
            return
        theirs = np.flatnonzero(attacked)
        base = np.stack([bases[int(row)] for row in theirs])
        honest = rows[theirs] - base
        match self.threats.attack.sees:
            case "own":
                known = np.empty((0, rows.shape[1]), dtype=np.float32)
            case "colluders":
                known = honest
            case "buffer":
                seen = [rows[row] - bases[row] for row in np.flatnonzero(~attacked).tolist()]
                known = np.array(seen, dtype=np.float32).reshape(len(seen), rows.shape[1])
        for array in (honest, known, base):
            array.flags.writeable = False
        view = AttackView(
            honest=honest,
            known=known,
            bases=base,
            current=current,
            collected=len(rows),
            version=version,
            random=self.streams.generator("attack", task=version),
        )
        rows[theirs] = base + self.threats.attack.craft(view)
