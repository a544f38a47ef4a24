"""State of the world for a population, and the random draws of a task.

Each task has a random stream of its own, and each phase of the task (download, computation, upload, ...) a separate
range of it. So phases can be drawn in any order and any number of times, always with the same result, and a longer
download or a lossier downlink leaves the draws of the upload unchanged.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from asyncfl.base.messages import Bools, Floats
from asyncfl.world.availability import Presence
from asyncfl.world.distributions import Distribution
from asyncfl.world.failure_detection import FailureDetection
from asyncfl.world.keyed_stream import KeyedStream
from asyncfl.world.links import LinkState
from asyncfl.world.tap import Tap
from asyncfl.world.transfer import Transfer

DOWNLINK, UPLINK = 0, 1

_DOWNLOAD, _COMPUTATION, _UPLOAD, _DROPOUT = range(4)
_GIVING_UP = 8
_SCORING = 4  # added to the phase of a scoring request; requests are numbered separately from tasks


@dataclass(frozen=True)
class WorldState:
    """Drawn devices and links of all clients, as arrays, and their availability. Draws of tasks do not change it."""

    task_stream: KeyedStream
    s_per_sample: Floats
    """(clients,) seconds of computation per sample and epoch, without the jitter of a task."""
    jitter: Distribution
    """Factor on the computing time of each task."""
    downlink: LinkState
    uplink: LinkState
    presence: Presence
    failure_detection: FailureDetection
    dropout_probability: float
    """Probability that a client drops out during a training."""
    dropout_per_s: float
    """Rate at which clients abandon a task, per second from its dispatch."""
    workers: int | None
    """Clients that can compute at the same time; None: no limit."""
    turnaround_s: float
    """Seconds from the end of one client's computation to the start of the next in its place."""
    processors: float | None
    """Processors that clients and server share; None: each has one of its own."""
    evaluate_beside_s: float
    """Seconds to evaluate a version after its publication; 0: versions are evaluated before it, or never."""
    evaluation_cost: float
    """Time to evaluate a sample relative to the time to train on it."""
    tap: Tap

    @property
    def clients(self) -> int:
        return int(self.s_per_sample.size)

    def task(self, client: int, turn: int) -> TaskDraws:
        """Return the draws of a training task. `turn`: number of tasks that the client had before, 0..2^31-1."""
        return TaskDraws(self, client, turn, scoring=False)

    def scoring(self, client: int, turn: int) -> TaskDraws:
        """Return the draws of a scoring request. `turn`: number of requests that the client had before, 0..2^31-1."""
        return TaskDraws(self, client, turn, scoring=True)

    def online(self, client: int, time_s: float) -> bool:
        return self.presence.online(client, time_s)

    def next_change(self, client: int, time_s: float) -> float:
        return self.presence.next_change(client, time_s)

    def all_online(self, time_s: float) -> Bools:
        return self.presence.all_online(time_s)

    def detected_s(self, client: int, gone_s: float) -> float:
        """Return the time at which the server detects that a client went offline at `gone_s` during a task, seconds."""
        return self.failure_detection.detected_s(gone_s, self.next_change(client, gone_s))


class TaskDraws:
    """Random draws of one task. Each method returns the same draw whenever it is called."""

    __slots__ = ("_scoring", "_world", "client", "number")

    def __init__(self, world: WorldState, client: int, number: int, *, scoring: bool) -> None:
        if not 0 <= client < world.clients:
            raise ValueError(f"client must be 0..{world.clients - 1}, got {client}")
        if not 0 <= number < 2**31:
            raise ValueError(f"the turn of a task or request must be 0..2^31-1, got {number}")
        self._world = world
        self.client = client
        self.number = number
        self._scoring = scoring

    def download(self, payload_bytes: int) -> Transfer:
        """Draw and return the transfer of the message from the server, of `payload_bytes` >= 1."""
        tapped = self._world.tap.scoring if self._scoring else self._world.tap.downlink
        return self._send(self._world.downlink, self._world.uplink, payload_bytes, tapped, _DOWNLOAD)

    def upload(self, payload_bytes: int) -> Transfer:
        """Draw and return the transfer of the message to the server, of `payload_bytes` >= 1."""
        tapped = self._world.tap.scoring if self._scoring else self._world.tap.uplink
        return self._send(self._world.uplink, self._world.downlink, payload_bytes, tapped, _UPLOAD)

    def compute_s(self, samples: int, epochs: float = 1) -> float:
        """Compute the seconds of training on `samples` >= 0 for `epochs` >= 0: linear in both, times the jitter."""
        if not (samples >= 0 and epochs >= 0):
            raise ValueError(f"samples and epochs must be >= 0, got {samples} and {epochs}")
        world = self._world
        fixed = world.jitter.is_constant
        jitter = world.jitter.expected() if fixed else world.jitter.draw_one(self._generator(_COMPUTATION))
        return float(world.s_per_sample[self.client]) * jitter * samples * epochs

    def evaluate_s(self, samples: int, models: int = 1) -> float:
        """Compute the seconds of evaluating `models` models on `samples` samples each."""
        return self._world.evaluation_cost * self.compute_s(samples, models)

    def dropout(self) -> float | None:
        """Draw the share of the computation, in [0, 1), after which the client drops out; None: it does not."""
        probability = self._world.dropout_probability
        if probability == 0:
            return None
        rng = self._generator(_DROPOUT)
        return rng.random() if rng.random() < probability else None

    def gives_up_s(self) -> float:
        """Draw the seconds from dispatch after which the client abandons an unfinished task; inf: never."""
        rate = self._world.dropout_per_s
        return self._generator(_GIVING_UP).standard_exponential() / rate if rate > 0 else math.inf

    def _send(self, links: LinkState, back: LinkState, payload_bytes: int, tapped: bool, phase: int) -> Transfer:
        """Draw and return the transfer of a message over `links`; `back`: links of the other direction, for
        acknowledgements. `phase`: phase of the task, which selects the random numbers."""
        if payload_bytes < 1:
            raise ValueError(f"payload_bytes must be >= 1, got {payload_bytes}")
        tap = self._world.tap if tapped else None
        random = links.needs_draws or (tap is not None and tap.packet_loss > 0)
        rng = self._generator(phase) if random else None
        return links.send(self.client, payload_bytes, tap, rng, float(back.latency_s[self.client]))

    def _generator(self, phase: int) -> np.random.Generator:
        phase += _SCORING if self._scoring else 0
        return self._world.task_stream.at(self.client, self.number, phase)
