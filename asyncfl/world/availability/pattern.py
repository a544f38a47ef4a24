"""Base classes of availability (a pattern as configured, and the presence of clients drawn from it), clients that are
always online, and the variation between clients."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from asyncfl.base.component import Component, Described
from asyncfl.base.messages import Bools, Floats, Ints
from asyncfl.base.quantities import MeasuredIn
from asyncfl.base.streams import Streams


@dataclass(frozen=True)
class ClientTraits:
    """Properties of the clients that their availability may depend on."""

    s_per_sample: Floats
    """(clients,) seconds of computation per sample and epoch."""
    samples: Ints | None = None
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
    def all_online(self, time_s: float) -> Bools:
        """Return for each client whether it is online at `time_s`, (clients,) bool."""
        raise NotImplementedError


class Availability(Component):
    """Base class of the patterns of availability."""

    logged: ClassVar[tuple[str, ...]] = ("events.went_offline", "events.came_online")

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


class AlwaysOnline(Availability):
    """Clients that are always online."""

    kind: Literal["always"] = "always"

    def start(self, traits: ClientTraits, streams: Streams) -> Presence:
        return AlwaysPresent(traits.clients)


class AlwaysPresent(Presence):
    """Presence of clients that are online all the time."""

    def __init__(self, clients: int) -> None:
        self._clients = clients

    def online(self, client: int, time_s: float) -> bool:
        return True

    def next_change(self, client: int, time_s: float) -> float:
        return math.inf

    def all_online(self, time_s: float) -> Bools:
        return np.ones(self._clients, dtype=np.bool_)


class ScheduledPresence(Presence):
    """Clients that are online in windows [from_s, until_s), which are in order and do not touch."""

    def __init__(self, clients: int) -> None:
        self._clients = clients

    @abstractmethod
    def window(self, client: int, time_s: float) -> tuple[float, float]:
        """Return the client's first window that ends after `time_s`, (from_s, until_s); (inf, inf): there is none."""
        raise NotImplementedError

    def online(self, client: int, time_s: float) -> bool:
        return self.window(client, time_s)[0] <= time_s

    def next_change(self, client: int, time_s: float) -> float:
        from_s, until_s = self.window(client, time_s)
        return until_s if from_s <= time_s else from_s

    def all_online(self, time_s: float) -> Bools:
        return np.array([self.online(client, time_s) for client in range(self._clients)], dtype=np.bool_)


class Variation(Described):
    """Lognormal factors of the clients, and their correlation with speed or number of samples.

    The factor of client i is exp(sigma z_i) with z_i = rho u_i + sqrt(1 - rho^2) e_i, where e_i is a standard normal
    draw and u_i = Phi^-1((rank - 1/2) / n) the normal score of the client's rank among n clients. For any distribution
    of speeds or sizes, z is approximately standard normal and has the correlation rho with the normal scores (a
    Gaussian copula).
    """

    sigma: Annotated[float, Field(ge=0, le=10, examples=[0.5]), MeasuredIn("1")]
    """Standard deviation of the natural logarithm of the factor, 0..10; its median is 1."""
    along: Literal["speed", "samples"] = "speed"
    """Property that the factor is correlated with: the computing speed, or the number of training samples."""
    correlation: Annotated[float, Field(ge=-1, le=1), MeasuredIn("1")] = 0.0
    """Correlation rho, -1..1. Above 0, fast clients or clients with many samples are online for longer."""

    def factors(self, traits: ClientTraits, streams: Streams) -> Floats:
        """Draw the factor of each client, (clients,) > 0. Equal speeds or sizes have equal ranks.

        Raises ValueError where the numbers of samples are needed but unknown.
        """
        ranked = -traits.s_per_sample if self.along == "speed" else traits.samples
        if ranked is None:
            raise ValueError("availability varies along samples: start the world with the samples of each client")
        # scipy takes as long to import as the rest of the package.
        from scipy.special import ndtri
        from scipy.stats import rankdata

        own = streams.generator("availability", number=3).standard_normal(traits.clients)
        scores = ndtri((rankdata(ranked) - 0.5) / traits.clients)
        z = self.correlation * scores + math.sqrt(1 - self.correlation**2) * own
        return np.asarray(np.exp(self.sigma * z), dtype=np.float64)
