"""What a server knows before it starts, and how long its own work takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from asyncfl.compression import Downloads
from asyncfl.messages import Vector
from asyncfl.server.aggregation import AggregationObserver, AggregationResult
from asyncfl.server.defence_state import DefencePlan
from asyncfl.server.protocol import Protocol
from asyncfl.streams import Streams

ServerNoise: TypeAlias = Callable[[AggregationResult, int], tuple[Vector, float]]
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
    aggregate_alone: bool = False
    """Whether whoever drives the server lets these pass before it hands the updates over, so that nobody is given a
    task meanwhile."""
    evaluate_s: float = 0.0
    """Seconds that the evaluation of a model takes before it is published, where it is evaluated."""
    evaluate_every: int = 0
    """Versions between two evaluations; 0: only the last version."""
    score_s: float = 0.0
    """Virtual seconds that the server's own part in judging a buffer takes, where a detector does."""
    observer: AggregationObserver | None = None
    """Is shown each buffer that is aggregated; None: nobody."""
    all_present: bool = True
    """Whether all clients take part from the start; else nobody does before it joins."""
    downloads: Downloads | None = None
    """What makes published models smaller for their way to clients; None: they are sent as they are."""

    def seconds_to(self, version: int, updates: int) -> float:
        """Seconds from the moment that a buffer of so many updates is judged until it has become `version`."""
        seconds = 0.0 if self.aggregate_alone else self._aggregation_s(updates)
        if self.defence.detector is not None:
            seconds += self.score_s
        if self.is_evaluated(version):
            seconds += self.evaluate_s
        return seconds

    def seconds_alone(self, updates: int) -> float:
        """Seconds before the updates of a buffer are handed over."""
        return self._aggregation_s(updates) if self.aggregate_alone else 0.0

    def is_evaluated(self, version: int) -> bool:
        """Whether a version is evaluated."""
        return version == self.protocol.rounds or (self.evaluate_every > 0 and version % self.evaluate_every == 0)

    def _aggregation_s(self, updates: int) -> float:
        return self.aggregate_s + self.aggregate_s_per_update * updates
