"""Simulate one seed of a scenario, from its data to its end.

`simulate_seed` trains. `simulate_clock` runs the same timeline without data, models or training.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

import numpy as np

from asyncfl.base.instrument import Instrument, Instruments
from asyncfl.data import FederatedData
from asyncfl.privacy.release import Upload
from asyncfl.protocol import Server
from asyncfl.protocol.recording import RecordedServer, Recording
from asyncfl.scenario import Scenario
from asyncfl.simulation.checkpoint import Checkpoints, UnderWay
from asyncfl.simulation.clients import SimulatedClients, TrainingClients
from asyncfl.simulation.driver import Driver
from asyncfl.simulation.phases import Workload
from asyncfl.simulation.pool import TrainingPool
from asyncfl.simulation.prepare import (
    Federation,
    ResolvedSeed,
    attackers_of,
    data_of,
    prepare,
    privacy_context,
    resolve,
    server_plan,
    streams_of,
    with_exposures,
)
from asyncfl.simulation.round_recorder import LateDivergenceError, RoundRecorder
from asyncfl.simulation.seed_run import SeedRun, conclude, seed_run
from asyncfl.simulation.timeline_recorder import TimelineRecorder
from asyncfl.simulation.workers import TrainingWorkers

KEPT_BYTES = 2**30
"""Samples kept for other runs of a process, in bytes."""


class SimulatedRuns:
    """Work that several runs of a process share: uploads of runs on which others depend, and built samples."""

    def __init__(self) -> None:
        self._uploads: dict[tuple[str, int], Sequence[Upload]] = {}
        self._data: dict[str, FederatedData] = {}

    def data(self, resolved: ResolvedSeed) -> FederatedData:
        """Build the samples of a seed, or return those that a run with the same data had. Raises DataError."""
        scenario = resolved.scenario
        if scenario.data.own is not None:  # may lie in memory already, or be larger than it
            return data_of(scenario, resolved.streams)
        about = (
            scenario.data.resolve_source(),
            scenario.data.content_digest(),
            scenario.defence.root_samples,
            resolved.seed,
        )
        key = json.dumps([scenario.data.model_dump(mode="json"), scenario.seeding.model_dump(mode="json"), *about])
        if key not in self._data:
            data = data_of(scenario, resolved.streams)
            if sum(one.images.nbytes + one.test_images.nbytes for one in [*self._data.values(), data]) > KEPT_BYTES:
                self._data.clear()
            self._data[key] = data
        return self._data[key]

    def uploads(self, scenario: Scenario, seed: int) -> Sequence[Upload]:
        """Return the uploads of the run of `scenario` with `seed`, simulating it the first time; see
        `SeedRun.uploads`."""
        key = scenario.digest(), seed
        if key not in self._uploads:
            self._uploads[key] = simulate_seed(scenario, seed, prior=self).uploads
        return self._uploads[key]

    def most_overheard(self, scenario: Scenario, seed: int) -> int:
        """Simulate that run's clock without training, and return the greatest number of updates overheard from one
        client."""
        return max(simulate_clock(scenario, seed, self).traffic.overheard_up.values(), default=0)


log = logging.getLogger(__name__)


def prepared(scenario: Scenario, seed: int, prior: SimulatedRuns | None = None) -> Federation:
    """Prepare one seed after the runs on which it depends, which `prior` simulates or remembers. The result is the same
    each time."""
    prior = prior or SimulatedRuns()
    resolved = resolve(scenario, seed, prior)
    return prepare(resolved, prior.data(resolved))


def simulate_seed(
    scenario: Scenario,
    seed: int,
    instruments: Iterable[Instrument] = (),
    prior: SimulatedRuns | None = None,
    workers: TrainingWorkers | None = None,
    checkpoints: Checkpoints | None = None,
) -> SeedRun:
    """Simulate one seed to its end with training, and return its results. `prior`: runs on which it may depend.

    `instruments`: follow the seed from `begin_seed` to `end_seed`. `workers`: train and evaluate; None: this process
    does. `checkpoints`: where to begin, if a seed was interrupted, and to leave checkpoints; None: none. Raises
    PausedError where they say so.
    """
    simulated = partial(_simulated, scenario, seed, Instruments(instruments), prior, workers, checkpoints)
    try:
        return simulated()
    except LateDivergenceError as late:
        log.info("seed %d: version %d has diverged; the seed is simulated again", seed, late.args[0])
        if checkpoints is not None:
            checkpoints.clear()
        return simulated(evaluate_elsewhere=False)


def _simulated(
    scenario: Scenario,
    seed: int,
    instrument: Instrument,
    prior: SimulatedRuns | None,
    workers: TrainingWorkers | None,
    checkpoints: Checkpoints | None,
    evaluate_elsewhere: bool = True,
) -> SeedRun:
    began = time.perf_counter()
    reading, beginning = f"data of seed {seed}", f"beginning of seed {seed}"
    instrument.progress(reading, 0, 1)
    federation = prepared(scenario, seed, prior)
    instrument.progress(reading, 1, 1)
    instrument.begin_seed(federation)
    data = federation.data
    sizes = seed, data.clients, len(data.labels), data.provenance, len(data.test_labels)
    log.info("seed %d: %d clients hold %d samples of %s, tested on %d; %s", *sizes, federation.learner.log_line)
    instrument.progress(beginning, 0, 1)  # workers are started, and the initial model is evaluated
    fresh = _begun(federation, instrument)
    state = fresh if checkpoints is None else checkpoints.load(fresh) or fresh
    driver, rounds, clients = state.driver, state.rounds, state.clients
    is_prepared = time.perf_counter()
    with ExitStack() as stack:
        pool = None
        if workers is not None:
            pool = TrainingPool.of(workers, state.federation)
            stack.callback(pool.close)
            rounds.evaluators = pool if evaluate_elsewhere else None
        clients.train_elsewhere(pool, driver.clock.now, driver.clock.world)
        if state is fresh:
            driver.begin()
        else:
            for row in rounds.rows:
                instrument.row(row)
        instrument.progress(beginning, 1, 1)
        _take_steps(state, checkpoints)
        if checkpoints is not None:
            checkpoints.ended = state
        stopped = driver.end()
        rounds.finish()
    run = _seed_run(driver, rounds, stopped)
    conclude(run, state.federation, driver.server, getattr(driver.server, "recording", None))
    run.seconds = {
        "preparation": is_prepared - began,
        "training": clients.seconds,
        "evaluation": rounds.seconds,
        "total": time.perf_counter() - began,
    }
    if pool is not None:
        run.workers = {"number": pool.number, "again": pool.again, "in_vain": pool.in_vain, "deaths": pool.deaths}
    parts = ", ".join(f"{name} {took:.2f} s" for name, took in run.seconds.items())
    versions = len(rounds.rows) - 1
    log.info("seed %d: %s after %d versions, %d tasks trained; %s", seed, run.stopped, versions, run.trained, parts)
    instrument.end_seed(run)
    return run


def _take_steps(state: UnderWay, checkpoints: Checkpoints | None) -> None:
    """Simulate a seed to the end of its clock, and leave the checkpoints that are due."""
    driver, clock = state.driver, state.driver.clock
    if checkpoints is None:
        while driver.goes_on:
            clock.step()
        return
    version, interrupts = clock.version, checkpoints.interrupts
    with interrupts.waiting():
        while driver.goes_on:
            clock.step()
            if interrupts.came is not None:
                checkpoints.leave(state)
            if clock.version != version and not clock.stopped:
                version = clock.version
                checkpoints.at(version, state)


def _begun(federation: Federation, instrument: Instrument) -> UnderWay:
    """Return a seed before its first step."""
    federation.path.instrument = instrument
    plan = replace(federation.plan, instrument=Instruments((federation.plan.instrument, instrument)))
    scenario, streams, seed = federation.resolved.scenario, federation.resolved.streams, federation.resolved.seed
    server: Server = Server(plan)
    if scenario.evaluation.record != "none":
        recording = Recording.of(plan, scenario.evaluation.record, seed)
        server = RecordedServer(plan, recording)
    rounds = RoundRecorder(scenario, seed, federation, instrument)
    driver = Driver(
        server,
        scenario.world.start(scenario.data.clients, streams, federation.data.sizes),
        TimelineRecorder(seed),
        TrainingClients(federation, server),
        instruments=(instrument, rounds),
        mixing_node=federation.path.scheme.mixing_node,
    )
    rounds.event_log = driver.clock
    return UnderWay(driver, rounds, federation)


def simulate_clock(
    scenario: Scenario,
    seed: int,
    prior: SimulatedRuns | None = None,
    whole: bool = True,
    instruments: Iterable[Instrument] = (),
) -> SeedRun:
    """Simulate the timeline of one seed without training, and return it: which clients were asked, what arrived when,
    what was overheard. Flooding attackers flood, but nothing is judged, so no client is banned. `whole`: see
    `Recorder`. `instruments`: receive the rows of the table of rounds."""
    began = time.perf_counter()
    streams = streams_of(scenario, seed)
    sizes = scenario.data.client_sizes(streams)
    server = Server(server_plan(scenario, sizes, np.empty(0, dtype=np.float32), streams))
    rounds = RoundRecorder(scenario, seed, instrument=Instruments(instruments))
    attackers = attackers_of(scenario, streams)
    budgets = None
    if scenario.privacy.stop_at is not None:
        context = privacy_context(with_exposures(scenario, seed, prior or SimulatedRuns()), sizes)
        # Without training no loss is known: budgets that depend on losses keep their initial values.
        budgets = scenario.budget_tracker(context, sizes)
    driver = Driver(
        server,
        scenario.world.start(scenario.data.clients, streams, sizes),
        TimelineRecorder(seed, whole),
        SimulatedClients(server, Workload.of(scenario, sizes), attackers=attackers, budgets=budgets),
        instruments=(rounds,),
        mixing_node=scenario.privacy.mixing_node,
    )
    run = _seed_run(driver, rounds, driver.run())
    run.seconds = {"total": time.perf_counter() - began}
    return run


def _seed_run(driver: Driver, rounds: RoundRecorder, stopped: str) -> SeedRun:
    clients, events = driver.clients, driver.clock.recorder.table()
    spent = None if clients.budgets is None else driver.processes.spent
    return seed_run(driver, rounds, stopped, events, clients.trained, clients.load.samples, spent, clients.attackers)
