"""What a server knows before it starts, and how long its own work takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from asyncfl.compression import Downloads
from asyncfl.messages import Vector
from asyncfl.server.aggregation import Aggregated, Onlooker
from asyncfl.server.defence_state import DefencePlan
from asyncfl.server.protocol import Protocol
from asyncfl.streams import Streams

ServerNoise: TypeAlias = Callable[[Aggregated, int], tuple[Vector, float]]
"""(what came of a buffer, version that it makes) -> (the model with the server's noise, its std). Asked for as it is
published."""


@dataclass(frozen=True)
class ServerPlan:
    """Everything the server knows before it starts."""

    protocol: Protocol
    samples: NDArray[np.int64]
    """(clients,) number of training samples of each client; of one that joins, what is expected before it has."""
    initial: Vector
    """(n_parameters,) version 0; of length 0 where only the clock is simulated."""
    streams: Streams
    defence: DefencePlan = DefencePlan()
    noise: ServerNoise | None = None
    """Added to the aggregate before it is published; None for none."""
    aggregate_s: float = 0.0
    """Seconds that an aggregation takes, whatever is in the buffer."""
    aggregate_s_per_update: float = 0.0
    """Seconds that each update of a buffer adds to that."""
    evaluate_s: float = 0.0
    """Seconds that the evaluation of a model takes before it is published, where it is evaluated."""
    evaluate_every: int = 0
    """Versions between two evaluations; 0: only the last version."""
    score_s: float = 0.0
    """Virtual seconds that the server's own part in judging a buffer takes, where a detector does."""
    onlooker: Onlooker | None = None
    """Is shown each buffer that is aggregated; None: nobody."""
    everybody_present: bool = True
    """Whether all clients take part from the start; else nobody does before it joins."""
    downloads: Downloads | None = None
    """What makes published models smaller for their way to clients; None: they are sent as they are."""

    def seconds_to(self, version: int, updates: int) -> float:
        """Seconds from the moment that a buffer of so many updates is judged until it has become `version`."""
        seconds = self.aggregate_s + self.aggregate_s_per_update * updates
        if self.defence.detector is not None:
            seconds += self.score_s
        every = self.evaluate_every
        if version == self.protocol.rounds or (every and version % every == 0):
            seconds += self.evaluate_s
        return seconds
