"""One seed of a scenario, from the draw of its data to its tables.

`simulate_seed` trains; `simulate_clock` runs the same timeline without data, models or training.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from asyncfl.client import TaskPath, Ticket
from asyncfl.data import FederatedData
from asyncfl.messages import Fate, Vector
from asyncfl.privacy import MeasuredExposures, PrivacyContext, Scheme
from asyncfl.privacy.noise import add_gaussian
from asyncfl.scenario import Scenario
from asyncfl.server import Server, ServerPlan
from asyncfl.server.machine import ServerNoise
from asyncfl.simulation.calibration import measure_exposures
from asyncfl.simulation.driver import Driver, TaskInFlight, Traffic
from asyncfl.simulation.watch import Judge, Rounds
from asyncfl.streams import Streams
from asyncfl.trace import Recorder

Progress = Callable[[dict[str, Any]], None]
"""Is told each row of the table of rounds as soon as it is known."""

BYTES_PER_PARAMETER = 4
"""Models travel as float32."""


@dataclass
class SeedRun:
    """Everything that one seed left behind."""

    seed: int
    stopped: str
    rounds: list[dict[str, Any]]
    events: pa.Table
    fates: dict[str, int]
    traffic: Traffic
    trained: int
    used: int
    sizes: NDArray[np.int64]
    uploads: list[dict[str, Any]] = field(default_factory=list)
    """One row per trained task: task, client, version it was aggregated into, noise, clip norm, loss."""
    context: PrivacyContext | None = None
    learner: dict[str, Any] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)
    calibration: list[int] = field(default_factory=list)
    """Counts of the replicates, where L was measured."""
    notes: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    """Wall time by part; the only numbers here that are not the same each time."""

    @property
    def diverged(self) -> bool:
        """Whether the run ended because something was no longer finite."""
        return self.stopped.startswith("diverged")


class _Trainer:
    """Carries out collected tasks and remembers what was released."""

    def __init__(self, path: TaskPath, server: Server) -> None:
        self.path = path
        self.server = server
        self.uploads: list[dict[str, Any]] = []
        self.last_std = 0.0
        self.seconds = 0.0

    def carry_out(self, tasks: Iterable[TaskInFlight]) -> tuple[Vector, NDArray[np.float64], float | None]:
        began = time.perf_counter()
        tickets = [Ticket(t.number, t.client, self.server.tasks.model(t.base_version)) for t in tasks]
        payloads = self.path.carry_out(tickets)
        self.last_std = float(payloads.noise_std.max(initial=0.0))
        for row, ticket in enumerate(tickets):
            self.uploads.append(
                {
                    "task": ticket.task,
                    "client": ticket.client,
                    "noise_std": payloads.noise_std[row],
                    "clip_norm": payloads.clip_norm,
                    "loss": payloads.losses[row],
                }
            )
        self.seconds += time.perf_counter() - began
        return payloads.models, payloads.losses, payloads.clip_norm


def streams_of(scenario: Scenario, seed: int) -> Streams:
    """The random streams of one seed."""
    apart = scenario.seeding
    return Streams(seed, data=apart.data, clock=apart.clock, training=apart.training)


def simulate_seed(scenario: Scenario, seed: int, progress: Progress | None = None) -> SeedRun:
    """Train one seed to its end, whatever the end is."""
    from asyncfl.learning import make_learner

    began = time.perf_counter()
    streams = streams_of(scenario, seed)
    data = scenario.data.build(streams)
    learner = make_learner(scenario.model, scenario.training, data.shape, data.classes)
    context, calibration = privacy_context(scenario, data.sizes, streams)
    path = TaskPath(data, learner, scenario.training, scenario.privacy, context, streams)
    initial = scenario.model.initial_parameters(data.shape, data.classes, streams.torch_generator("initial_model"))
    noise = partial(_server_noise, scenario.privacy, context, streams)
    server = _server(scenario, data.sizes, initial, streams, noise)
    trainer = _Trainer(path, server)
    watcher = Rounds(
        seed,
        scenario.protocol.rounds,
        scenario.evaluation,
        Judge(learner, data),
        lambda: trainer.last_std,
        progress,
    )
    prepared = time.perf_counter()
    driver = Driver(
        server,
        scenario.world.start(scenario.data.clients, streams),
        Recorder(seed),
        samples=data.sizes,
        epochs=scenario.training.epochs,
        payload_bytes=BYTES_PER_PARAMETER * learner.n_parameters,
        worker=trainer,
        watcher=watcher,
    )
    stopped = driver.run()
    run = _seed_run(driver, watcher, stopped, data.sizes)
    run.uploads = trainer.uploads
    run.context = context
    run.calibration = calibration
    run.learner = dict(learner.description)
    run.data = _described(data)
    run.notes = scenario.privacy.notes(context, learner.n_parameters)
    run.seconds = {
        "preparation": prepared - began,
        "training": trainer.seconds,
        "evaluation": watcher.seconds,
        "total": time.perf_counter() - began,
    }
    return run


def simulate_clock(scenario: Scenario, seed: int) -> SeedRun:
    """The timeline of one seed without training: who was asked, what arrived when, what was overheard."""
    began = time.perf_counter()
    streams = streams_of(scenario, seed)
    sizes = scenario.data.client_sizes(streams)
    server = _server(scenario, sizes, np.empty(0, dtype=np.float32), streams, None)
    watcher = Rounds(seed, scenario.protocol.rounds, scenario.evaluation, None, lambda: 0.0)
    layout = scenario.model.layout(scenario.data.shape, scenario.data.classes)
    driver = Driver(
        server,
        scenario.world.start(scenario.data.clients, streams),
        Recorder(seed),
        samples=sizes,
        epochs=scenario.training.epochs,
        payload_bytes=BYTES_PER_PARAMETER * layout.n_parameters,
        watcher=watcher,
    )
    run = _seed_run(driver, watcher, driver.run(), sizes)
    run.seconds = {"total": time.perf_counter() - began}
    return run


def privacy_context(scenario: Scenario, sizes: NDArray[np.int64], streams: Streams) -> tuple[PrivacyContext, list[int]]:
    """What the noise of a seed is calibrated to, and the counts behind L where it was measured on the clock."""
    clients, participants, rounds = scenario.data.clients, scenario.participants, scenario.protocol.rounds
    exposures = scenario.privacy.resolve_exposures(rounds, participants, clients)
    counts: list[int] = []
    if exposures is None:
        measured = getattr(scenario.privacy, "exposures", None)
        if not isinstance(measured, MeasuredExposures):
            measured = MeasuredExposures()
        exposures, counts = measure_exposures(scenario, measured, streams)
    return PrivacyContext(clients, participants, rounds, int(sizes.min()), exposures), counts


def _server(
    scenario: Scenario, sizes: NDArray[np.int64], initial: Vector, streams: Streams, noise: ServerNoise | None
) -> Server:
    return Server(
        ServerPlan(
            scenario.protocol.knobs(), sizes, initial, streams, noise=noise, aggregate_s=scenario.world.aggregate_s
        )
    )


def _server_noise(
    scheme: Scheme,
    context: PrivacyContext,
    streams: Streams,
    model: Vector,
    version: int,
    participants: int,
    clip_norm: float | None,
) -> tuple[Vector, float]:
    """The model with the noise that the scheme wants the server to add; see `Scheme.server_std`."""
    std = scheme.server_std(context, clip_norm)
    add_gaussian(model, std, streams, "server_noise", task=version)
    return model, std


def _seed_run(driver: Driver, watcher: Rounds, stopped: str, sizes: NDArray[np.int64]) -> SeedRun:
    if stopped.startswith("diverged"):
        # A buffer without one sound update publishes nothing: the last version is the one that was diverging.
        watcher.rows[-1]["diverged"] = True
    fates = {fate.value: driver.fates[fate] for fate in Fate}
    return SeedRun(
        seed=watcher.seed,
        stopped=stopped,
        rounds=watcher.rows,
        events=driver.recorder.table(),
        fates=fates,
        traffic=driver.traffic,
        trained=driver.trained,
        used=driver.used,
        sizes=sizes,
    )


def _described(data: FederatedData) -> dict[str, Any]:
    return {"source": data.source, "provenance": data.provenance, "original": data.original}
