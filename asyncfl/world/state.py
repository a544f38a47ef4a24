"""A population in its world, and what a task draws from it.

Each task has a stream of its own, and each phase of the task (download, computation, upload, ...) a stretch of it for
itself. So phases can be asked about in any order, repeatedly or not at all, always with the same answer, and a longer
download or a lossier downlink leaves the luck of the upload as it was.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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
_SCORING = 4  # added to the phase of a scoring request, whose numbers are counted apart from those of tasks


@dataclass(frozen=True)
class WorldState:
    """Devices and links of all clients as arrays, and who is online; tasks draw from it and change nothing."""

    task_stream: KeyedStream
    s_per_sample: NDArray[np.float64]
    """(clients,) seconds of computation per sample and epoch, before the jitter of a task."""
    jitter: Distribution
    """Factor on the computing time of each task."""
    downlink: LinkState
    uplink: LinkState
    presence: Presence
    failure_detection: FailureDetection
    dropout_probability: float
    dropout_per_s: float
    workers: int | None
    """Clients that compute at the same time; None: all."""
    turnaround_s: float
    """Seconds until a place to compute can be taken by the next."""
    processors: float | None
    """Processors that clients and server share; None: each has one."""
    evaluate_beside_s: float
    """Seconds that the server takes to evaluate a version that is published already; 0: it does so before, or never."""
    evaluation_cost: float
    tap: Tap

    @property
    def clients(self) -> int:
        """Number of clients."""
        return int(self.s_per_sample.size)

    def task(self, client: int, turn: int) -> TaskDraws:
        """Draws of a training task. `turn`: 0..2^31-1, tasks that the client was given before."""
        return TaskDraws(self, client, turn, scoring=False)

    def scoring(self, client: int, turn: int) -> TaskDraws:
        """Draws of a scoring request. `turn`: 0..2^31-1, requests that the client was sent before."""
        return TaskDraws(self, client, turn, scoring=True)

    def online(self, client: int, time_s: float) -> bool:
        """Whether the client is online; a client's times may not go back beyond its last change."""
        return self.presence.online(client, time_s)

    def next_change(self, client: int, time_s: float) -> float:
        """Moment after `time_s` at which the client goes offline or comes online, seconds; inf for never."""
        return self.presence.next_change(client, time_s)

    def all_online(self, time_s: float) -> NDArray[np.bool_]:
        """Whether each client is online at that moment, (clients,) bool."""
        return self.presence.all_online(time_s)

    def detected_s(self, client: int, gone_s: float) -> float:
        """Moment at which the server learns that a client went offline at `gone_s` in mid-task, seconds."""
        return self.failure_detection.detected_s(gone_s, self.next_change(client, gone_s))


class TaskDraws:
    """What happens to one task in the world, drawn when asked for and always the same."""

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
        """Fate of the message from the server, of `payload_bytes` >= 1."""
        tapped = self._world.tap.scoring if self._scoring else self._world.tap.downlink
        return self._send(self._world.downlink, self._world.uplink, payload_bytes, tapped, _DOWNLOAD)

    def upload(self, payload_bytes: int) -> Transfer:
        """Fate of the message to the server, of `payload_bytes` >= 1."""
        tapped = self._world.tap.scoring if self._scoring else self._world.tap.uplink
        return self._send(self._world.uplink, self._world.downlink, payload_bytes, tapped, _UPLOAD)

    def compute_s(self, samples: int, epochs: float = 1) -> float:
        """Seconds of training on `samples` >= 0 for `epochs` >= 0: linear in both, for one draw of the jitter."""
        if not (samples >= 0 and epochs >= 0):
            raise ValueError(f"samples and epochs must be >= 0, got {samples} and {epochs}")
        world = self._world
        fixed = world.jitter.is_constant
        jitter = world.jitter.expected() if fixed else world.jitter.draw_one(self._generator(_COMPUTATION))
        return float(world.s_per_sample[self.client]) * jitter * samples * epochs

    def evaluate_s(self, samples: int, models: int = 1) -> float:
        """Seconds of evaluating `models` models on `samples` samples each."""
        return self._world.evaluation_cost * self.compute_s(samples, models)

    def dropout(self) -> float | None:
        """Share of the computation, in [0, 1), after which the client drops out; None where it does not."""
        probability = self._world.dropout_probability
        if probability == 0:
            return None
        rng = self._generator(_DROPOUT)
        return rng.random() if rng.random() < probability else None

    def gives_up_s(self) -> float:
        """Seconds after its dispatch at which the client gives the task up, unless it is done; inf for never."""
        rate = self._world.dropout_per_s
        return self._generator(_GIVING_UP).standard_exponential() / rate if rate > 0 else math.inf

    def _send(self, links: LinkState, back: LinkState, payload_bytes: int, tapped: bool, phase: int) -> Transfer:
        if payload_bytes < 1:
            raise ValueError(f"payload_bytes must be >= 1, got {payload_bytes}")
        tap_packet_loss = self._world.tap.packet_loss if tapped else None
        random = links.needs_draws or bool(tap_packet_loss)
        rng = self._generator(phase) if random else None
        return links.send(self.client, payload_bytes, tap_packet_loss, rng, float(back.latency_s[self.client]))

    def _generator(self, phase: int) -> np.random.Generator:
        """The task's stream, at the beginning of the phase's stretch."""
        phase += _SCORING if self._scoring else 0
        return self._world.task_stream.at(self.client, self.number, phase)
