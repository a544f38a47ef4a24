"""What a pattern of availability is, and what it may depend on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from asyncfl.component import Component
from asyncfl.streams import Streams


@dataclass(frozen=True)
class ClientTraits:
    """What is known of the clients of a federation when their availability is drawn."""

    s_per_sample: NDArray[np.float64]
    """(clients,) seconds of computation per sample and epoch."""
    samples: NDArray[np.int64] | None = None
    """(clients,) training samples; None: not known."""

    @property
    def clients(self) -> int:
        """Number of clients."""
        return int(self.s_per_sample.size)


class Presence(ABC):
    """Who is online. Time only moves on: a client may not be asked about a period that is over."""

    @abstractmethod
    def online(self, client: int, time_s: float) -> bool:
        """Whether the client is online at that moment. At a change, the new state holds."""
        raise NotImplementedError

    @abstractmethod
    def next_change(self, client: int, time_s: float) -> float:
        """Moment after `time_s` at which the client goes offline or comes online, seconds; inf for never."""
        raise NotImplementedError

    @abstractmethod
    def all_online(self, time_s: float) -> NDArray[np.bool_]:
        """Whether each client is online at that moment, (clients,) bool."""
        raise NotImplementedError


class Availability(Component):
    """Base of the patterns of availability."""

    logged: ClassVar[tuple[str, ...]] = (
        "events.went_offline",
        "events.came_online",
    )

    @property
    def changes_per_s(self) -> float:
        """How often a client goes offline or comes online, per second in the long run."""
        return 0.0

    @property
    def files(self) -> tuple[str, ...]:
        """Files that it is read from; the name of a run covers what is in them."""
        return ()

    @abstractmethod
    def start(self, traits: ClientTraits, streams: Streams) -> Presence:
        """Who of the clients with these traits is online from time 0 on. Raises DataError for a damaged file."""
        raise NotImplementedError
