"""Versions that the updates of each client entered, and when the client may be asked for another.

Proofs of correlated noise count on it: updates of one client enter versions that are at least b apart, and at most k
versions. An update may enter any version after the one that it is trained from. So a client is asked again only when
the fate of its last update is known, and when the next version is b after the last that an update of it entered.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from asyncfl.protocol.settings import Protocol
from asyncfl.protocol.task_table import TaskTable

LONG_AGO = -(2**62)


class Participations:
    """The versions that each client's updates entered, as far as `Protocol.min_separation` and `max_participations`
    need them. Without either every client may always be asked."""

    def __init__(self, protocol: Protocol, clients: int, tasks: TaskTable) -> None:
        self._tasks = tasks
        self.is_limited = protocol.min_separation is not None or protocol.max_participations is not None
        """Whether clients may have to wait."""
        self._separation = protocol.min_separation or 1
        self._most = protocol.max_participations
        self._last = np.full(clients if self.is_limited else 0, LONG_AGO)
        self._entered = np.zeros_like(self._last)

    def may_take_part(self, client: int, version: int) -> bool:
        """Whether an update that the client begins now, at the newest `version`, keeps its distance to its earlier
        ones."""
        if not self.is_limited:
            return True
        return client not in self._tasks.open_of and version + 1 - int(self._last[client]) >= self._separation

    def record(self, clients: Iterable[int], version: int) -> list[int]:
        """Record that updates of these clients entered `version`, and return the clients that have now taken part as
        often as they may."""
        if not self.is_limited:
            return []
        entered = sorted(set(clients))
        self._last[entered] = version
        self._entered[entered] += 1
        return [client for client in entered if self._most is not None and self._entered[client] >= self._most]
