"""One seed of a scenario, from the draw of its data to its tables.

`simulate_seed` trains; `simulate_clock` runs the same timeline without data, models or training.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from asyncfl.client import Attackers, TaskPath
from asyncfl.data import FederatedData
from asyncfl.defences import DefenceContext, Mean
from asyncfl.learning import Learner
from asyncfl.messages import Fate, Vector
from asyncfl.privacy import Contribution, MeasuredExposures, PrivacyContext, Scheme, State
from asyncfl.privacy.meter import Meter, stop_notes
from asyncfl.privacy.noise import add_noise
from asyncfl.scenario import Scenario
from asyncfl.server import DefencePlan, Server, ServerPlan
from asyncfl.server.application import weights
from asyncfl.server.machine import ServerNoise
from asyncfl.server.recording import RecordedServer, Recording
from asyncfl.server.staleness import ConstantStaleness, discount
from asyncfl.simulation.budgets import budget_columns
from asyncfl.simulation.calibration import measure_exposures
from asyncfl.simulation.driver import Driver, Traffic
from asyncfl.simulation.watch import Judge, Rounds
from asyncfl.simulation.worker import Worker
from asyncfl.streams import Streams
from asyncfl.trace import Kind, Recorder
from asyncfl.trace.query import select

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
    """One row per trained task, see `Worker.uploads`."""
    attackers: list[int] = field(default_factory=list)
    """Clients that attack; with attackers drawn per round: those that were drawn at least once."""
    drawn: list[int] | None = None
    """Tasks of attackers, where they are drawn per round; None: all tasks of `attackers`."""
    spent: dict[int, float] | None = None
    """Client -> virtual time at which its budget was spent; None: there were no budgets to stop at."""
    domains: tuple[str, ...] = ()
    """(clients,) domain of each client's data; empty where there is only one."""
    context: PrivacyContext | None = None
    learner: dict[str, Any] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)
    calibration: list[int] = field(default_factory=list)
    """Counts of the replicates, where L was measured."""
    notes: list[str] = field(default_factory=list)
    noted: dict[str, int] = field(default_factory=dict)
    """What the server's rule found unusual -> in how many versions."""
    recording: Recording | None = None
    """What the server heard and answered, where the scenario asks for it."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Wall time by part; the only numbers here that are not the same each time."""

    @property
    def diverged(self) -> bool:
        """Whether the run ended because something was no longer finite."""
        return self.stopped.startswith("diverged")


def streams_of(scenario: Scenario, seed: int) -> Streams:
    """The random streams of one seed."""
    apart = scenario.seeding
    return Streams(seed, data=apart.data, clock=apart.clock, training=apart.training)


def simulate_seed(scenario: Scenario, seed: int, progress: Progress | None = None) -> SeedRun:
    """Train one seed to its end, whatever the end is."""
    began = time.perf_counter()
    cast = prepare_seed(scenario, seed)
    streams, data, learner, attackers = cast.streams, cast.data, cast.learner, cast.attackers
    server: Server = Server(cast.plan)
    recording = None
    if scenario.evaluation.record != "none":
        recording = Recording.of(cast.plan, scenario.evaluation.record, seed)
        server = RecordedServer(cast.plan, recording)
    worker = Worker(cast.path, server, learner, data, streams, attackers)
    judge = Judge(learner, data, None if attackers is None else attackers.threats.attack)
    watcher = Rounds(
        seed,
        scenario.protocol.rounds,
        data.clients,
        scenario.evaluation,
        judge,
        lambda: worker.last_std,
        attackers,
        progress,
        partial(budget_columns, cast.path),
    )
    prepared = time.perf_counter()
    driver = Driver(
        server,
        scenario.world.start(scenario.data.clients, streams),
        Recorder(seed),
        samples=data.sizes,
        epochs=scenario.training.epochs,
        payload_bytes=BYTES_PER_PARAMETER * learner.n_parameters,
        scoring=scenario.protocol.scoring,
        worker=worker,
        watcher=watcher,
        attackers=attackers,
        station=cast.path.scheme.station,
        meter=_meter(cast.path.scheme, cast.context, data.sizes, cast.path.state),
    )
    run = _seed_run(driver, watcher, driver.run(), data.sizes)
    run.uploads = worker.uploads
    _tell_attackers(run, attackers)
    run.context = cast.context
    run.calibration = cast.calibration
    run.recording = recording
    run.learner = dict(learner.description)
    run.domains = tuple(data.domains[place] for place in data.client_domains) if len(data.domains) > 1 else ()
    run.data = _described(data)
    run.notes = [
        *cast.path.scheme.notes(cast.context, learner.n_parameters),
        *stop_notes(cast.path.scheme),
        *scenario.defence.rule.notes(scenario.participants),
    ]
    if repeated := len(select(run.events, kinds=[Kind.COHORT_REPEATED])):
        run.notes.append(
            f"{repeated} cohorts came to nothing, and the server drew another for the same version: clients sent more "
            "updates than there are versions, and each is a release"
        )
    run.noted = dict(sorted(server.noted.items()))
    run.seconds = {
        "preparation": prepared - began,
        "training": worker.seconds,
        "evaluation": watcher.seconds,
        "total": time.perf_counter() - began,
    }
    return run


@dataclass(frozen=True)
class Cast:
    """Everybody who takes part in one seed, before anything has happened."""

    streams: Streams
    data: FederatedData
    learner: Learner
    context: PrivacyContext
    calibration: list[int]
    attackers: Attackers | None
    path: TaskPath
    plan: ServerPlan


def prepare_seed(scenario: Scenario, seed: int) -> Cast:
    """The data, clients and server's plan of one seed; the same each time."""
    from asyncfl.learning import make_learner
    from asyncfl.simulation.reference import measured

    scenario = measured(scenario, seed)
    streams = streams_of(scenario, seed)
    data, root = split_root(scenario.data.build(streams), scenario.defence.root_samples, streams)
    at_once = {"epochs": 1} if scenario.privacy.noise_each_epoch else {}
    training = scenario.training.model_copy(update=at_once)
    learner = make_learner(scenario.model, training, data.shape, data.classes)
    context, calibration = privacy_context(scenario, data.sizes, streams)
    attackers = _attackers(scenario, streams)
    state = scenario.privacy.start(context)
    path = TaskPath(data, learner, scenario.training, scenario.privacy, context, streams, attackers, state)
    initial = scenario.model.initial_parameters(data.shape, data.classes, streams.torch_generator("initial_model"))
    noise = partial(_server_noise, path)
    defence = defence_plan(scenario, data, learner, context, root, state)
    plan = _plan(scenario, data.sizes, initial, streams, noise, defence)
    return Cast(streams, data, learner, context, calibration, attackers, path, plan)


def simulate_clock(scenario: Scenario, seed: int) -> SeedRun:
    """The timeline of one seed without training: who was asked, what arrived when, what was overheard.

    Attackers that flood do; nothing is judged, so nobody is banned.
    """
    began = time.perf_counter()
    streams = streams_of(scenario, seed)
    sizes = scenario.data.client_sizes(streams)
    server = Server(_plan(scenario, sizes, np.empty(0, dtype=np.float32), streams, None, DefencePlan()))
    watcher = Rounds(seed, scenario.protocol.rounds, scenario.data.clients, scenario.evaluation, None, lambda: 0.0)
    layout = scenario.model.layout(scenario.data.shape, scenario.data.classes)
    attackers = _attackers(scenario, streams)
    meter = None
    if scenario.privacy.stop_at is not None:
        context, _ = privacy_context(scenario, sizes, streams)
        # Without training no loss is known, so that budgets which follow it stay what they are at first.
        meter = _meter(scenario.privacy, context, sizes, scenario.privacy.start(context))
    driver = Driver(
        server,
        scenario.world.start(scenario.data.clients, streams),
        Recorder(seed),
        samples=sizes,
        epochs=scenario.training.epochs,
        payload_bytes=BYTES_PER_PARAMETER * layout.n_parameters,
        watcher=watcher,
        attackers=attackers,
        station=scenario.privacy.station,
        meter=meter,
    )
    run = _seed_run(driver, watcher, driver.run(), sizes)
    _tell_attackers(run, attackers)
    run.seconds = {"total": time.perf_counter() - began}
    return run


def _meter(scheme: Scheme, context: PrivacyContext, sizes: NDArray[np.int64], state: State | None) -> Meter | None:
    return None if scheme.stop_at is None else Meter(scheme.stop_at, scheme, context, sizes, state)


def _attackers(scenario: Scenario, streams: Streams) -> Attackers | None:
    if scenario.threats is None or scenario.threats.off:
        return None
    # The cohort of a publication is a round; where tasks are begun one by one, as many as make a version.
    in_cohorts = scenario.protocol.knobs().dispatch.at_publish(scenario.data.clients) > 0
    of_round = None if in_cohorts else scenario.participants
    return Attackers(scenario.threats, scenario.data.clients, scenario.data.classes, streams, of_round)


def _tell_attackers(run: SeedRun, attackers: Attackers | None) -> None:
    if attackers is not None:
        run.attackers = sorted(attackers.members)
        run.drawn = None if attackers.drawn is None else sorted(attackers.drawn)


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
    training = scenario.training
    batch_size = 0 if training.batch_size == "full" else training.batch_size
    context = PrivacyContext(
        clients,
        participants,
        rounds,
        int(sizes.min()),
        exposures,
        batch_size,
        training.epochs,
        training.lr,
        n_parameters=scenario.model.layout(scenario.data.shape, scenario.data.classes).n_parameters,
        rate=scenario.protocol.knobs().rate,
        equal_weights=_equal_weights(scenario, sizes),
    )
    return context, counts


def _equal_weights(scenario: Scenario, sizes: NDArray[np.int64]) -> bool:
    """Whether no update can weigh more than 1/n in a mean of n."""
    knobs, defence = scenario.protocol.knobs(), scenario.defence
    return (
        isinstance(defence.rule, Mean)
        # A detector may weigh updates, and correct the model by earlier ones.
        and defence.detector is None
        and knobs.reading in ("delta", "mix")
        and (knobs.weighting != "samples" or len(np.unique(sizes)) == 1)
        # Divided by the sum of the weights, a fresh update among stale ones counts for more.
        and (knobs.divisor == "buffer" or isinstance(knobs.staleness, ConstantStaleness))
    )


def split_root(
    data: FederatedData, samples: int, streams: Streams
) -> tuple[FederatedData, tuple[NDArray[np.float32], NDArray[np.int64]] | None]:
    """The data without the server's root set, and the root set (images, labels); None where it has none.

    The root set is drawn from the test set, and taken out of it.
    """
    if not samples:
        return data, None
    chosen = streams.generator("root_set").permutation(len(data.test_labels))
    root, rest = np.sort(chosen[:samples]), np.sort(chosen[samples:])
    offsets = np.searchsorted(rest, data.test_offsets)
    smaller = replace(
        data, test_images=data.test_images[rest], test_labels=data.test_labels[rest], test_offsets=offsets
    )
    return smaller, (data.test_images[root], data.test_labels[root])


def defence_plan(
    scenario: Scenario,
    data: FederatedData,
    learner: Learner,
    context: PrivacyContext,
    root: tuple[NDArray[np.float32], NDArray[np.int64]] | None,
    state: State | None = None,
) -> DefencePlan:
    """The server's defences, with what they know about the federation: of noise that varies, its first amount."""
    knobs, training, scheme = scenario.protocol.knobs(), scenario.training, scenario.privacy
    clip = getattr(scheme, "clip_norm", None)
    clip_norm = clip if isinstance(clip, float | int) else None
    firsts = [
        Contribution(client, int(size), 0, scheme.upload_epsilon(context, state, client, 0))
        for client, size in enumerate(data.sizes)
    ]

    def weigh(samples: NDArray[np.int64], staleness: NDArray[np.int64]) -> NDArray[np.float64]:
        counted = samples if knobs.weighting == "samples" else np.ones_like(samples)
        return knobs.rate * weights(counted, discount(knobs.staleness, staleness), knobs.divisor)

    known = DefenceContext(
        clients=data.clients,
        samples=data.sizes,
        n_parameters=learner.n_parameters,
        # What a unit of gradient moves the model in the long run: with momentum it is added again and again.
        lr=training.lr / (1 - training.momentum),
        gradient_clip=training.gradient_clip,
        steps=np.array([training.steps(int(size)) for size in data.sizes], dtype=np.int64),
        upload_std=np.array([scheme.upload_std(context, clip_norm, first) for first in firsts]),
        root_gradient=None if root is None else partial(_root_gradient, learner, *root),
        weigh=weigh,
    )
    return DefencePlan(scenario.defence.rule, scenario.defence.detector, scenario.defence.strikes, known)


def _root_gradient(learner: Learner, images: NDArray[np.float32], labels: NDArray[np.int64], model: Vector) -> Vector:
    return learner.gradient(model, images, labels)


def _plan(
    scenario: Scenario,
    sizes: NDArray[np.int64],
    initial: Vector,
    streams: Streams,
    noise: ServerNoise | None,
    defence: DefencePlan,
) -> ServerPlan:
    return ServerPlan(
        scenario.protocol.knobs(),
        sizes,
        initial,
        streams,
        defence=defence,
        noise=noise,
        aggregate_s=scenario.world.aggregate_s,
        score_s=scenario.world.score_s,
    )


def _server_noise(
    path: TaskPath, model: Vector, version: int, tasks: tuple[int, ...], clip_norm: float | None
) -> tuple[Vector, float]:
    """The model with the noise that the scheme wants the server to add; see `Scheme.server_std`."""
    scheme = path.scheme
    # A server that replays a recording has no path that trained: only a scheme with a state would miss it.
    contributions = [path.contributions[task] for task in tasks if task in path.contributions]
    path.entered, path.entered_clip_norm = tuple(contributions), clip_norm
    std = scheme.server_std(path.context, clip_norm, path.state, contributions)
    add_noise(scheme.server_distribution, model, std, path.streams, "server_noise", task=version)
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
        spent=None if driver.meter is None else driver.spent,
    )


def _described(data: FederatedData) -> dict[str, Any]:
    return {"source": data.source, "provenance": data.provenance, "original": data.original}
