"""The simulated environment of a federation: devices, links, availability and the eavesdropper.

Each task has a random stream of its own, and each phase of the task (download, computation, upload, ...) a separate
range of it. So phases can be drawn in any order and any number of times, always with the same result, and a longer
download or a lossier downlink leaves the draws of the upload unchanged.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from asyncfl.base.arrays import Bools, Floats, Ints
from asyncfl.base.component import Described
from asyncfl.base.errors import Fault
from asyncfl.base.quantities import MeasuredIn
from asyncfl.base.streams import Streams
from asyncfl.world.availability import AlwaysOnline, AnyAvailability, ClientTraits, Presence
from asyncfl.world.devices import AnyDevice, FixedDevice
from asyncfl.world.failure_detection import AnyFailureDetection, LeaseDetection
from asyncfl.world.keyed_stream import KeyedStream
from asyncfl.world.links import Link, LinkState
from asyncfl.world.loss import Probability
from asyncfl.world.profiles import profile_content
from asyncfl.world.tap import Tap
from asyncfl.world.transfer import Transfer

DOWNLINK, UPLINK = 0, 1

DOWNLOAD, _COMPUTATION, UPLOAD, _DROPOUT = range(4)
"""Phases of a task, each with random numbers of its own."""
_GIVING_UP = 8
_SCORING = 4  # added to the phase of a score request; requests are numbered separately from tasks
_MASKING = 16  # first phase of the further messages of a task or request, such as those of secure aggregation

Watts = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Power(Described):
    """Power of a client's device by activity, watts, in addition to its consumption without the federation."""

    compute_w: Watts = 5.0
    """Power while the client trains, watts."""
    send_w: Watts = 1.0
    """Power during an upload, including waits for retransmissions, watts."""
    receive_w: Watts = 0.7
    """Power during a download, watts."""
    idle_w: Watts = 0.0
    """Power during the rest of the run, watts."""


def _taps_something(tap: Tap) -> Tap:
    """Refuse a tap that was described without any link; links that are named may all be false."""
    if not tap.model_fields_set & {"uplink", "downlink", "scoring"}:
        raise PydanticCustomError("tap", "must name a tapped link (uplink, downlink or scoring: true), or be left out")
    return tap


class World(Described):
    """Devices, links, availability and the eavesdropper of a federation."""

    device: AnyDevice = FixedDevice()
    """Computing speed of the clients."""
    workers: Annotated[int, Field(ge=1), MeasuredIn("clients")] | None = None
    """Clients that can compute at the same time where they share a machine. Further clients wait, first come, first
    served. null: no limit."""
    turnaround_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """Seconds from the end of one client's computation until the next client can start in its place, where `workers` is
    limited."""
    processors: Annotated[float, Field(ge=1, allow_inf_nan=False), MeasuredIn("processors")] | None = None
    """Processors of the machine that clients and server share. Where more trainings, scorings, aggregations and
    evaluations run at once, all slow down equally. May be a fraction. null: each has a processor of its own."""
    downlink: Link = Link()
    """Links from the server to the clients."""
    uplink: Link = Link()
    """Links from the clients to the server."""
    availability: AnyAvailability = AlwaysOnline()
    """Pattern of the times at which clients are online."""
    failure_detection: AnyFailureDetection = LeaseDetection()
    """Rule by which the server detects that a client went offline during a task."""
    dropout: Annotated[Probability, MeasuredIn("probability")] = 0.0
    """Probability that a client drops out during the training of a task, 0..1."""
    dropout_per_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """Rate at which clients abandon a task: probability per second from its dispatch, so that long tasks are abandoned
    more often. Waiting for one of the `workers` does not count. The client stays online and tells the server."""
    power: Power | None = None
    """Power that the clients' devices consume. null: energy is not counted."""
    tap: Annotated[Tap, AfterValidator(_taps_something)] = Tap(uplink=False)
    """Eavesdropper on the links. By default there is none; a tap names its links."""
    aggregate_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """Seconds that the server takes to aggregate a buffer, independent of its size."""
    aggregate_s_per_number: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """Further seconds of aggregation per number in the buffer, which holds updates times parameters numbers."""
    aggregate_alone: bool = False
    """Whether the server does nothing else while it aggregates: it dispatches no tasks, and handles arriving updates
    only after it has published the version."""
    evaluate_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """Seconds that the server, or each client (`evaluate_at`), takes to evaluate a model before its publication; only
    for versions that are evaluated (`evaluation.test_every`)."""
    evaluate_beside: bool = False
    """Whether the server publishes a version first and evaluates it while the run continues, one version after another,
    as real servers do. Then evaluation only takes time of the `processors`."""
    evaluate_at: Literal["server", "clients"] = "server"
    """Who evaluates a version: the server, or the clients, all at the same time and each for `evaluate_s`; it is
    published after the last. Where `processors` are shared, offline clients do not evaluate, and evaluations and
    trainings slow each other down. `workers` and `power` count trainings alone."""
    score_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """Seconds that the server takes to judge a buffer, where a defence has a detector."""
    evaluation_cost: Annotated[float, Field(ge=0, allow_inf_nan=False), MeasuredIn("factor")] = 1 / 3
    """Time to evaluate a sample relative to the time to train on it. A third is a forward pass without the backward
    pass."""

    def start(self, clients: int, streams: Streams, samples: Ints | None = None) -> WorldState:
        """Draw and return the devices, links and availability of `clients` >= 1 clients at time 0.

        `samples`: (clients,) training samples of each client; None: unknown. In a larger population, client i has the
        same device and links, but another first period of availability, and another factor on availability where that
        depends on its rank (`varies`). Raises DataError for a damaged profile.
        """
        s_per_sample = self.device.draw(clients, streams.generator("device"))
        return WorldState(
            settings=self,
            task_stream=KeyedStream(streams, "task_clock"),
            s_per_sample=s_per_sample,
            downlink=self.downlink.start(clients, streams, DOWNLINK),
            uplink=self.uplink.start(clients, streams, UPLINK),
            presence=self.availability.start(ClientTraits(s_per_sample, samples), streams),
        )

    def progress_faults(self) -> Iterator[Fault]:
        """Yield a fault for each setting under which no task could ever finish; fields are relative to the world."""
        if self.dropout == 1:
            yield Fault("dropout", f"must be below 1, got {self.dropout:g}: no client would ever finish a task")
        for name, link in (("downlink", self.downlink), ("uplink", self.uplink)):
            # The packet loss of a profile is not considered.
            if link.loss.mean_loss() > 1 - 1e-12:
                yield Fault(f"{name}.loss", "must let some packets through, got a loss of all: nothing would arrive")

    def evaluation_faults(self) -> Iterator[Fault]:
        """Yield a fault where clients would evaluate a version after its publication; the field is relative to the
        world."""
        if self.evaluate_at == "clients" and self.evaluate_beside:
            message = "must be false, got true: a version that clients evaluate (evaluate_at) is published after that"
            yield Fault("evaluate_beside", message)

    def deadline_faults(self, deadline_s: float | None) -> Iterator[Fault]:
        """Yield a fault for each setting that excludes a training deadline; fields are relative to the world."""
        if self.processors is not None and deadline_s is not None:
            yield Fault(
                "processors",
                f"must be null with training.deadline_s ({deadline_s:g}), got {self.processors:g}: the progress of a "
                "client by then would depend on the other clients; unset either",
            )

    def profile_digests(self) -> dict[str, str]:
        """Return path -> SHA-256 of every file that the world reads, for the digest of a run.

        Raises DataError for a file that cannot be read.
        """
        fields = dict.fromkeys(self.device.files, "world.device.path")
        fields |= dict.fromkeys(self.availability.files, "world.availability.path")
        for name, link in (("downlink", self.downlink), ("uplink", self.uplink)):
            fields |= {} if link.profile is None else {link.profile: f"world.{name}.profile"}
        digests = {path: hashlib.sha256(profile_content(path, field)[1]) for path, field in fields.items()}
        return {path: digests[path].hexdigest() for path in sorted(digests)}


@dataclass(frozen=True)
class WorldState:
    """Drawn devices and links of all clients, as arrays, and their availability. Draws of tasks do not change it."""

    settings: World
    task_stream: KeyedStream
    s_per_sample: Floats  # (clients,) seconds of computation per sample and epoch, without the jitter of a task
    downlink: LinkState
    uplink: LinkState
    presence: Presence

    @property
    def clients(self) -> int:
        return int(self.s_per_sample.size)

    @property
    def evaluate_beside_s(self) -> float:
        """Seconds to evaluate a version after its publication; 0: versions are evaluated before it, or never."""
        return self.settings.evaluate_s if self.settings.evaluate_beside else 0.0

    def task(self, client: int, turn: int) -> TaskDraws:
        """Return the draws of a training task. `turn`: number of tasks that the client had before, 0..2^31-1."""
        return TaskDraws(self, client, turn, scoring=False)

    def scoring(self, client: int, turn: int) -> TaskDraws:
        """Return the draws of a score request. `turn`: number of requests that the client had before, 0..2^31-1."""
        return TaskDraws(self, client, turn, scoring=True)

    def online(self, client: int, time_s: float) -> bool:
        return self.presence.online(client, time_s)

    def next_change(self, client: int, time_s: float) -> float:
        return self.presence.next_change(client, time_s)

    def all_online(self, time_s: float) -> Bools:
        return self.presence.all_online(time_s)

    def detected_s(self, client: int, gone_s: float) -> float:
        """Return the time at which the server detects that a client went offline at `gone_s` during a task, seconds."""
        return self.settings.failure_detection.detected_s(gone_s, self.next_change(client, gone_s))


class TaskDraws:
    """Random draws of one task. Each method returns the same draw whenever it is called."""

    __slots__ = ("_scoring", "_world", "client", "number")

    def __init__(self, world: WorldState, client: int, number: int, *, scoring: bool) -> None:
        self._world, self._scoring = world, scoring
        self.client, self.number = client, number

    def download(self, payload_bytes: int) -> Transfer:
        """Draw and return the transfer of the message from the server, of `payload_bytes` >= 1."""
        tap = self._world.settings.tap
        tapped = tap.scoring if self._scoring else tap.downlink
        return self._send(self._world.downlink, self._world.uplink, payload_bytes, tapped, DOWNLOAD)

    def upload(self, payload_bytes: int) -> Transfer:
        """Draw and return the transfer of the message to the server, of `payload_bytes` >= 1."""
        tap = self._world.settings.tap
        tapped = tap.scoring if self._scoring else tap.uplink
        return self._send(self._world.uplink, self._world.downlink, payload_bytes, tapped, UPLOAD)

    def message(self, way: Literal["down", "up"], payload_bytes: int, number: int) -> Transfer:
        """Draw and return the transfer of a further message, of `payload_bytes` >= 1, that the tap ignores. `number`:
        0.., of the message within its task or request."""
        links = self._world.downlink, self._world.uplink
        forth, back = links if way == "down" else links[::-1]
        return self._send(forth, back, payload_bytes, False, _MASKING + number)

    def compute_s(self, samples: int, epochs: float = 1) -> float:
        """Compute the seconds of training on `samples` >= 0 for `epochs` >= 0: linear in both, times the jitter."""
        law = self._world.settings.device.jitter
        jitter = law.expected() if law.is_constant else law.draw_one(self._generator(_COMPUTATION))
        return float(self._world.s_per_sample[self.client]) * jitter * samples * epochs

    def evaluate_s(self, samples: int, models: int = 1) -> float:
        """Compute the seconds of evaluating `models` models on `samples` samples each."""
        return self._world.settings.evaluation_cost * self.compute_s(samples, models)

    def dropout(self) -> float | None:
        """Draw the share of the computation, in [0, 1), after which the client drops out; None: it does not."""
        probability = self._world.settings.dropout
        if probability == 0:
            return None
        rng = self._generator(_DROPOUT)
        return rng.random() if rng.random() < probability else None

    def gives_up_s(self) -> float:
        """Draw the seconds from dispatch after which the client abandons an unfinished task; inf: never."""
        rate = self._world.settings.dropout_per_s
        return self._generator(_GIVING_UP).standard_exponential() / rate if rate > 0 else math.inf

    def _send(self, links: LinkState, back: LinkState, payload_bytes: int, tapped: bool, phase: int) -> Transfer:
        """Draw and return the transfer of a message over `links`; `back`: links of the other direction, for
        acknowledgements. `phase`: phase of the task, which selects the random numbers."""
        tap = self._world.settings.tap if tapped else None
        random = links.needs_draws or (tap is not None and tap.packet_loss > 0)
        rng = self._generator(phase) if random else None
        return links.send(self.client, payload_bytes, tap, rng, back.latency_s.item(self.client))

    def _generator(self, phase: int) -> np.random.Generator:
        phase += _SCORING if self._scoring else 0
        return self._world.task_stream.at(self.client, self.number, phase)
