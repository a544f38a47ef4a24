"""Base classes of availability: a pattern as configured, and the presence of clients drawn from it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.component import Component
from asyncfl.base.streams import Streams


@dataclass(frozen=True)
class ClientTraits:
    """Properties of the clients that their availability may depend on."""

    s_per_sample: NDArray[np.float64]
    """(clients,) seconds of computation per sample and epoch."""
    samples: NDArray[np.int64] | None = None
    """(clients,) training samples of each client; None: unknown."""

    @property
    def clients(self) -> int:
        """Number of clients."""
        return int(self.s_per_sample.size)


class Presence(ABC):
    """Presence of the clients over time. Calls for one client must not go back to a period that is over."""

    @abstractmethod
    def online(self, client: int, time_s: float) -> bool:
        """Return whether the client is online at `time_s`. At a change, the new state holds."""
        raise NotImplementedError

    @abstractmethod
    def next_change(self, client: int, time_s: float) -> float:
        """Return the next time after `time_s` at which the client goes offline or comes online, seconds; inf: never."""
        raise NotImplementedError

    @abstractmethod
    def all_online(self, time_s: float) -> NDArray[np.bool_]:
        """Return for each client whether it is online at `time_s`, (clients,) bool."""
        raise NotImplementedError


class Availability(Component):
    """Base class of the patterns of availability."""

    logged: ClassVar[tuple[str, ...]] = (
        "events.went_offline",
        "events.came_online",
    )

    @property
    def changes_per_s(self) -> float:
        """Long-run rate at which a client goes offline or comes online, changes per second; 0 unless overridden."""
        return 0.0

    @property
    def files(self) -> tuple[str, ...]:
        """Paths of the files that the pattern is read from. The digest of a run covers their contents."""
        return ()

    @abstractmethod
    def start(self, traits: ClientTraits, streams: Streams) -> Presence:
        """Draw and return the presence of clients from time 0 on. Raises DataError for a damaged file.

        `traits`: speeds and numbers of samples, on which availability may depend.
        """
        raise NotImplementedError
