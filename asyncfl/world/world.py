"""The world of a federation, as a scenario describes it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from asyncfl.component import Described
from asyncfl.errors import DataError, Fault
from asyncfl.quantities import MeasuredIn
from asyncfl.streams import Streams
from asyncfl.world.availability import AlwaysOnline, AnyAvailability, ClientTraits
from asyncfl.world.devices import AnyDevice, FixedDevice
from asyncfl.world.failure_detection import AnyFailureDetection, LeaseDetection
from asyncfl.world.keyed_stream import KeyedStream
from asyncfl.world.links import Link
from asyncfl.world.loss import Probability
from asyncfl.world.power import Power
from asyncfl.world.state import DOWNLINK, UPLINK, WorldState
from asyncfl.world.tap import Tap


class World(Described):
    """Devices, links, availability and the eavesdropper of a federation."""

    device: AnyDevice = FixedDevice()
    """How fast the clients compute."""
    workers: Annotated[int, Field(ge=1), MeasuredIn("clients")] | None = None
    """Clients that compute at the same time, where they share a machine: who comes later waits for its turn, first
    come, first served; null: all."""
    turnaround_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """Seconds from the end of a client's computing until the next one can begin in its place, where they share a
    machine."""
    processors: Annotated[float, Field(ge=1, allow_inf_nan=False), MeasuredIn("processors")] | None = None
    """Processors of the machine that clients and server share: where more trainings, scorings, aggregations and
    evaluations are under way, all are slowed down alike; a fraction where threads hold each other up; null: each has
    one."""
    downlink: Link = Link()
    """Links from the server to the clients."""
    uplink: Link = Link()
    """Links from the clients to the server."""
    availability: AnyAvailability = AlwaysOnline()
    """When clients are online."""
    failure_detection: AnyFailureDetection = LeaseDetection()
    """How the server learns that a client has vanished in the midst of a task."""
    dropout: Annotated[Probability, MeasuredIn("probability")] = 0.0
    """Probability that a client drops out in the midst of a task's training, 0..1."""
    dropout_per_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """Rate at which clients give a task up, whatever they are at: probability per second from its dispatch, so that
    long tasks are given up more often (waits for one of the `workers` do not count); they stay online and say so."""
    power: Power | None = None
    """What the clients' devices draw; null: energy is not counted."""
    tap: Tap = Tap()
    """What an eavesdropper on the links hears."""
    aggregate_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """Seconds that the server takes to aggregate a buffer, whatever is in it."""
    aggregate_s_per_number: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """Seconds that each number of a buffer adds to that: a buffer holds updates times parameters of them."""
    aggregate_alone: bool = False
    """Whether the server does nothing else while it aggregates: nobody is given a task, and what comes in is heard when
    the version is out; else it goes on with both."""
    evaluate_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """Seconds that the server takes to evaluate a model on its test set before it publishes it, where it does so
    (`evaluation.test_every`)."""
    evaluate_beside: bool = False
    """Whether the server publishes a version first and evaluates it while the run goes on, one version after another,
    as real servers do: that takes time of the `processors` only."""
    score_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """Seconds that the server takes to judge a buffer, where a defence does."""
    evaluation_cost: Annotated[float, Field(ge=0, allow_inf_nan=False), MeasuredIn("factor")] = 1 / 3
    """Time of evaluating a sample relative to training on it; a third is a forward pass without the backward one."""

    def start(self, clients: int, streams: Streams, samples: NDArray[np.int64] | None = None) -> WorldState:
        """A population of `clients` >= 1 in this world, at time 0. `samples`: (clients,) training samples of each.

        Client i is the same in a larger population, except for the period it is found in at time 0 and for what
        depends on its rank. Raises DataError for a damaged profile.
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
        """Why no task could ever be finished in this world, fields named relative to it."""
        if self.dropout == 1:
            yield Fault("dropout", f"must be below 1, got {self.dropout:g}: no client would ever finish a task")
        for name, link in (("downlink", self.downlink), ("uplink", self.uplink)):
            if link.loses_everything:
                yield Fault(f"{name}.loss", "must let some packets through, got a loss of all: nothing would arrive")

    def deadline_faults(self, deadline_s: float | None) -> Iterator[Fault]:
        """What cannot be where trainings end at a deadline, fields named relative to it."""
        if self.processors is not None and deadline_s is not None:
            yield Fault(
                "processors",
                f"must be null with training.deadline_s ({deadline_s:g}), got {self.processors:g}: how far clients "
                "come by then would depend on the others; unset either",
            )

    def profile_digests(self) -> dict[str, str]:
        """SHA-256 of every file that the world is read from, by path; a run's hash has to cover them.

        Raises DataError for a file that cannot be read.
        """
        named = {*self.device.files, *self.availability.files, self.downlink.profile, self.uplink.profile}
        return {path: _digest(path) for path in sorted(path for path in named if path is not None)}


def _digest(path: str) -> str:
    try:
        return hashlib.sha256(Path(path).expanduser().read_bytes()).hexdigest()
    except (OSError, ValueError, RuntimeError) as error:  # NUL in a name; ~ of nobody
        raise DataError(f"cannot be read: {error}", path) from None
