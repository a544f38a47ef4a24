"""Everything that a server knows before it starts, and the durations of its own work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.messages import Vector
from asyncfl.base.streams import Streams
from asyncfl.compression import Downloads
from asyncfl.server.aggregation import AggregationObserver, AggregationResult
from asyncfl.server.defence_state import DefencePlan
from asyncfl.server.protocol import Protocol

ServerNoise: TypeAlias = Callable[[AggregationResult, int], tuple[Vector, float]]
"""Function (result of a buffer, version) -> (model with the server's noise, its standard deviation). Called at
publication."""


@dataclass(frozen=True)
class ServerPlan:
    """Everything that the server knows before it starts."""

    protocol: Protocol
    samples: NDArray[np.int64]
    """(clients,) training samples of each client; for a client that joins later, the expected number."""
    initial: Vector
    """(n_parameters,) version 0; of length 0 if only the clock is simulated."""
    streams: Streams
    defence: DefencePlan = DefencePlan()
    noise: ServerNoise | None = None
    """Noise added to each aggregate before publication; None for none."""
    aggregate_s: float = 0.0
    """Seconds that an aggregation takes, whatever the number of updates."""
    aggregate_s_per_update: float = 0.0
    """Additional seconds per update of the buffer."""
    aggregate_alone: bool = False
    """Whether the driver waits for the aggregation before it provides the updates, so that no task begins meanwhile."""
    evaluate_s: float = 0.0
    """Seconds that the evaluation of a model delays its publication, for versions that are evaluated."""
    evaluate_every: int = 0
    """Versions between two evaluations; 0 to evaluate the last version only."""
    score_s: float = 0.0
    """Virtual seconds of the server's own work to judge a buffer, with a detector."""
    observer: AggregationObserver | None = None
    """Callback for each buffer that is aggregated; None for none."""
    all_present: bool = True
    """Whether all clients take part from the start; otherwise each takes part after it has joined."""
    downloads: Downloads | None = None
    """Compression of published models for download; None to send them uncompressed."""

    def seconds_to(self, version: int, updates: int) -> float:
        """Return the seconds between judging a buffer of `updates` updates and publishing it as `version`."""
        seconds = 0.0 if self.aggregate_alone else self._aggregation_s(updates)
        if self.defence.detector is not None:
            seconds += self.score_s
        if self.is_evaluated(version):
            seconds += self.evaluate_s
        return seconds

    def seconds_alone(self, updates: int) -> float:
        """Return the seconds that pass before the updates of a buffer are provided to the server."""
        return self._aggregation_s(updates) if self.aggregate_alone else 0.0

    def is_evaluated(self, version: int) -> bool:
        """Whether the version is evaluated."""
        return version == self.protocol.rounds or (self.evaluate_every > 0 and version % self.evaluate_every == 0)

    def _aggregation_s(self, updates: int) -> float:
        return self.aggregate_s + self.aggregate_s_per_update * updates
