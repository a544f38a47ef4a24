"""One seed of a scenario, from the draw of its data to its end.

`simulate_seed` trains; `simulate_clock` runs the same timeline without data, models or training.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asyncfl.client import Attackers
from asyncfl.data import FederatedData
from asyncfl.messages import Fate
from asyncfl.privacy.ledger.budgets import stop_notes
from asyncfl.scenario import Scenario
from asyncfl.server import DefencePlan, Server
from asyncfl.server.recording import RecordedServer, Recording
from asyncfl.simulation.budgets import budget_columns
from asyncfl.simulation.calibration import privacy_context
from asyncfl.simulation.cast import attackers_of, budget_tracker, prepare_seed, server_plan, streams_of
from asyncfl.simulation.driver import Driver
from asyncfl.simulation.seed_run import SeedRun
from asyncfl.simulation.task import Load
from asyncfl.simulation.watch import Judge, Rounds
from asyncfl.simulation.worker import Worker
from asyncfl.trace import Kind, Recorder
from asyncfl.trace.query import select

Progress = Callable[[dict[str, Any]], None]
"""Is told each row of the table of rounds as soon as it is known."""

BYTES_PER_PARAMETER = 4
"""Models travel as float32."""


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
        Load(data.sizes, scenario.training.epochs, BYTES_PER_PARAMETER * learner.n_parameters),
        scoring=scenario.protocol.scoring,
        worker=worker,
        watcher=watcher,
        attackers=attackers,
        mixing_node=cast.path.scheme.mixing_node,
        meter=budget_tracker(cast.path.scheme, cast.context, data.sizes, cast.path.state),
    )
    run = _seed_run(driver, watcher, driver.run(), data.sizes)
    run.uploads = worker.uploads
    _tell_attackers(run, attackers)
    run.context = cast.context
    run.calibration = cast.calibration
    run.recording = recording
    run.learner = dict(learner.description)
    run.gemm = learner.gemm
    run.domains = tuple(data.domains[place] for place in data.client_domains) if len(data.domains) > 1 else ()
    run.data = _described(data)
    run.notes = [
        *cast.path.scheme.notes(cast.context),
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


def simulate_clock(scenario: Scenario, seed: int) -> SeedRun:
    """The timeline of one seed without training: who was asked, what arrived when, what was overheard.

    Attackers that flood do; nothing is judged, so nobody is banned.
    """
    began = time.perf_counter()
    streams = streams_of(scenario, seed)
    sizes = scenario.data.client_sizes(streams)
    server = Server(server_plan(scenario, sizes, np.empty(0, dtype=np.float32), streams, None, DefencePlan()))
    watcher = Rounds(seed, scenario.protocol.rounds, scenario.data.clients, scenario.evaluation, None, lambda: 0.0)
    layout = scenario.model.layout(scenario.data.shape, scenario.data.classes)
    attackers = attackers_of(scenario, streams)
    meter = None
    if scenario.privacy.stop_at is not None:
        context, _ = privacy_context(scenario, sizes, streams)
        # Without training no loss is known, so that budgets which follow it stay what they are at first.
        meter = budget_tracker(scenario.privacy, context, sizes, scenario.privacy.start(context))
    driver = Driver(
        server,
        scenario.world.start(scenario.data.clients, streams),
        Recorder(seed),
        Load(sizes, scenario.training.epochs, BYTES_PER_PARAMETER * layout.n_parameters),
        watcher=watcher,
        attackers=attackers,
        mixing_node=scenario.privacy.mixing_node,
        meter=meter,
    )
    run = _seed_run(driver, watcher, driver.run(), sizes)
    _tell_attackers(run, attackers)
    run.seconds = {"total": time.perf_counter() - began}
    return run


def _tell_attackers(run: SeedRun, attackers: Attackers | None) -> None:
    if attackers is not None:
        run.attackers = sorted(attackers.members)
        run.drawn = None if attackers.drawn is None else sorted(attackers.drawn)


def _seed_run(driver: Driver, watcher: Rounds, stopped: str, sizes: NDArray[np.int64]) -> SeedRun:
    if stopped.startswith("diverged"):
        # A buffer without one sound update publishes nothing: the last version is the one that was diverging.
        watcher.rows[-1]["diverged"] = True
    fates = {fate.value: driver.tasks.fates[fate] for fate in Fate}
    return SeedRun(
        seed=watcher.seed,
        stopped=stopped,
        rounds=watcher.rows,
        events=driver.clock.recorder.table(),
        fates=fates,
        traffic=driver.transfers.traffic,
        trained=driver.training.trained,
        used=driver.tasks.used,
        sizes=sizes,
        spent=None if driver.budgets.meter is None else driver.budgets.spent,
    )


def _described(data: FederatedData) -> dict[str, Any]:
    return {"source": data.source, "provenance": data.provenance, "original": data.original}
