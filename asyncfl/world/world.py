"""The simulated environment of a federation: devices, links, availability and the eavesdropper."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from asyncfl.base.component import Described
from asyncfl.base.errors import Fault
from asyncfl.base.messages import Ints
from asyncfl.base.quantities import MeasuredIn
from asyncfl.base.streams import Streams
from asyncfl.world.availability import AlwaysOnline, AnyAvailability, ClientTraits
from asyncfl.world.devices import AnyDevice, FixedDevice
from asyncfl.world.failure_detection import AnyFailureDetection, LeaseDetection
from asyncfl.world.keyed_stream import KeyedStream
from asyncfl.world.links import Link
from asyncfl.world.loss import Probability
from asyncfl.world.profiles import profile_content
from asyncfl.world.state import DOWNLINK, UPLINK, WorldState
from asyncfl.world.tap import Tap

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
    tap: Tap = Tap()
    """Eavesdropper on the links."""
    aggregate_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """Seconds that the server takes to aggregate a buffer, independent of its size."""
    aggregate_s_per_number: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """Further seconds of aggregation per number in the buffer, which holds updates times parameters numbers."""
    aggregate_alone: bool = False
    """Whether the server does nothing else while it aggregates: it dispatches no tasks, and handles arriving updates
    only after it has published the version."""
    evaluate_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """Seconds that the server takes to evaluate a model on its test set before it publishes it; only for versions that
    are evaluated (`evaluation.test_every`)."""
    evaluate_beside: bool = False
    """Whether the server publishes a version first and evaluates it while the run continues, one version after another,
    as real servers do. Then evaluation only takes time of the `processors`."""
    score_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """Seconds that the server takes to judge a buffer, where a defence has a detector."""
    evaluation_cost: Annotated[float, Field(ge=0, allow_inf_nan=False), MeasuredIn("factor")] = 1 / 3
    """Time to evaluate a sample relative to the time to train on it. A third is a forward pass without the backward
    pass."""

    def start(self, clients: int, streams: Streams, samples: Ints | None = None) -> WorldState:
        """Draw and return the devices, links and availability of `clients` >= 1 clients at time 0.

        `samples`: (clients,) training samples of each client; None: unknown. In a larger population, client i has the
        same device and links, but another first period of availability, and another factor on availability where that
        depends on its rank (`varies`).
        Raises DataError for a damaged profile.
        """
        if clients < 1:
            raise ValueError(f"clients must be >= 1, got {clients}")
        s_per_sample = self.device.draw(clients, streams.generator("device"))
        return WorldState(
            task_stream=KeyedStream(streams, "task_clock"),
            s_per_sample=s_per_sample,
            jitter=self.device.jitter,
            downlink=self.downlink.start(clients, streams, DOWNLINK),
            uplink=self.uplink.start(clients, streams, UPLINK),
            presence=self.availability.start(ClientTraits(s_per_sample, samples), streams),
            failure_detection=self.failure_detection,
            dropout_probability=self.dropout,
            dropout_per_s=self.dropout_per_s,
            workers=self.workers,
            turnaround_s=self.turnaround_s,
            processors=self.processors,
            evaluate_beside_s=self.evaluate_s if self.evaluate_beside else 0.0,
            evaluation_cost=self.evaluation_cost,
            tap=self.tap,
        )

    def progress_faults(self) -> Iterator[Fault]:
        """Yield a fault for each setting under which no task could ever finish; fields are relative to the world."""
        if self.dropout == 1:
            yield Fault("dropout", f"must be below 1, got {self.dropout:g}: no client would ever finish a task")
        for name, link in (("downlink", self.downlink), ("uplink", self.uplink)):
            if link.loses_everything:
                yield Fault(f"{name}.loss", "must let some packets through, got a loss of all: nothing would arrive")

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
