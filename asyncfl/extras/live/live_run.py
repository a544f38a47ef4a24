"""One seed of a scenario as a live federation, from the draw of its data to its end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

from asyncfl.base.errors import ScenarioError
from asyncfl.base.streams import Streams, unknown_seed
from asyncfl.extras.live.client import LiveClient
from asyncfl.extras.live.clock import LiveClock, LiveTiming, StepClock
from asyncfl.extras.live.evaluations import Evaluations, OnRow
from asyncfl.extras.live.faults import live_faults, personal_faults
from asyncfl.extras.live.host import Host
from asyncfl.extras.live.interrupts import INTERRUPTED, Interrupts
from asyncfl.extras.live.live_federation import LiveFederation
from asyncfl.extras.live.local_training import LocalTraining
from asyncfl.extras.live.task_runner import ClientSetup
from asyncfl.protocol import Server
from asyncfl.protocol.recording import RecordedServer, Recording
from asyncfl.simulation.phases import Workload
from asyncfl.simulation.prepare import Federation, ResolvedSeed, learner_of, prepare
from asyncfl.simulation.round_recorder import RoundRecorder
from asyncfl.simulation.seed_run import SeedRun, conclude, seed_run

Surroundings: TypeAlias = Callable[[Host], Awaitable[None]]
"""Clients around a host. Ends when they have ended."""


async def run_live(
    resolved: ResolvedSeed,
    timing: LiveTiming,
    around: Surroundings,
    *,
    secret: int | None = None,
    interrupts: Interrupts | None = None,
    known: bool = True,
    here: bool = True,
    progress: OnRow | None = None,
    federation: Federation | None = None,
    rounds: RoundRecorder | None = None,
) -> SeedRun:
    """Run one seed to its end. Raises ScenarioError for settings that are impossible in a live federation.

    Args:
        resolved: The scenario and its seed.
        timing: How the run relates to real time.
        around: Connects the clients.
        secret: Seed of the server's noise; None: an unpredictable one. A shaped run is a simulation, and takes the
            scenario's.
        interrupts: Signals that end the run like its time limit; None: they break it off.
        known: Whether clients have the numbers of samples of the scenario; otherwise they tell theirs.
        here: Whether clients are in this process, so that their own layers are known.
        progress: Called for each version.
        federation: In place of the scenario's.
        rounds: In place of the scenario's evaluation.
    """
    began = time.perf_counter()
    if federation is None:
        federation = await asyncio.get_running_loop().run_in_executor(None, prepare, resolved)
    scenario = federation.resolved.scenario
    faults = list(live_faults(scenario, federation.path.context, timing.shape))
    apart = federation.path.personal is not None and not here
    if apart:
        faults += personal_faults(scenario)
    if faults:
        raise ScenarioError(faults)
    if not timing.shape:
        federation.path.streams = Streams(unknown_seed() if secret is None else secret)
    plan = replace(federation.plan, all_present=known)
    server: Server = Server(plan)
    if scenario.evaluation.record != "none":
        server = RecordedServer(plan, Recording.of(plan, scenario.evaluation.record, resolved.seed))
    if rounds is None:
        rounds = RoundRecorder(scenario, resolved.seed, federation)
    if apart:
        # The server has only the shared layers.
        rounds.evaluator = None
    if rounds.evaluator is not None:
        # It evaluates while others train and aggregate: with a learner of its own.
        rounds.evaluator.learner = learner_of(scenario, federation.data)
    is_prepared = time.perf_counter()
    live = LiveFederation(federation, server, StepClock(), timing)
    with ThreadPoolExecutor(1, "aggregation") as executor, ExitStack() as stack:
        evaluations = Evaluations(rounds, lambda: live.in_flight, progress, lambda reason: host.end(reason))
        live.instruments = (evaluations,)
        evaluations.personal = None if apart else federation.path.personal
        host = Host(live, LiveClock(timing.speedup), executor, evaluations)
        if interrupts is not None:
            stack.enter_context(interrupts.ending(partial(host.end, INTERRUPTED)))
        evaluating = asyncio.ensure_future(evaluations.run())
        surroundings = asyncio.ensure_future(around(host))
        running = asyncio.ensure_future(host.run())
        try:
            await asyncio.wait([evaluating, surroundings, running], return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                # Raise what went wrong with the others.
                for one in (evaluating, surroundings):
                    if one.done() and one.exception() is not None:
                        await one
            stopped = await running
            await surroundings
        finally:
            together = asyncio.gather(evaluating, surroundings, running, return_exceptions=True)
            together.cancel()
            with suppress(asyncio.CancelledError):
                await together
        await evaluations.run(forever=False)
    spent = None if federation.path.scheme.stop_at is None else live.spent
    events = live.event_log.table()
    run = seed_run(live, rounds, stopped, events, live.trained, server.samples, spent, federation.attackers)
    run.in_real_time = not timing.virtual
    if timing.shape and not timing.virtual:
        run.rounds = live.reports.with_downloads(run.rounds)
    conclude(run, federation, server, server.recording if isinstance(server, RecordedServer) else None)
    run.notes.extend(_notes(timing, live, apart=apart))
    total = time.perf_counter() - began
    run.seconds = {"preparation": is_prepared - began, "evaluation": rounds.seconds, "total": total}
    return run


def _notes(timing: LiveTiming, live: LiveFederation, *, apart: bool) -> Iterator[str]:
    """Yield the notes that a reader of the run's numbers needs."""
    scenario = live.federation.resolved.scenario
    tap = scenario.world.tap
    renewed = ", ".join(map(str, live.renewed))
    again = f"live: other nodes took the place of clients {renewed}"
    time_is = "on virtual" if timing.virtual else "in real"
    links = "those of the scenario's world" if timing.shape else "what they are"
    yield f"live: clients trained {time_is} time; devices and links were {links}"
    if timing.speedup != 1:
        yield f"live: {timing.speedup:g} s of the scenario passed in each second"
    if not timing.shape and (tap.uplink or tap.downlink or tap.scoring):
        yield "live: every message on a tapped link counts as overheard, since nobody knows which were"
    if renewed and live.federation.path.scheme.stop_at is not None:
        yield (
            f"{again}, whose budgets began at zero; the ledger counts what all nodes of a client sent, which may "
            "exceed stop_at"
        )
    if renewed and scenario.compression.remembers:
        yield f"{again}, without what compression had left of their updates"
    if renewed and scenario.training.state == "kept":
        yield f"{again}, and began with a fresh state of the optimiser"
    if apart:
        own = "layers" if scenario.model.personal else "models"
        yield (
            f"live: {own} stay with the clients, so no version is judged: what is known "
            "are the losses that clients report of their own training (train_loss in clients.parquet), without privacy "
            "or where protocol.selection needs them"
        )
    if apart and renewed:
        yield f"{again}, and began with its initial personal layers or model again"


def training_of(federation: Federation, streams: Streams) -> LocalTraining:
    """Return the training of clients in the process of their server. `streams`: source of their randomness."""
    return LocalTraining(federation.resolved.scenario, federation.data, federation.path, streams)


def local_clients(host: Host, executor: Executor, streams: Streams) -> list[LiveClient]:
    """Return all clients of a federation, in this process.

    `executor`: where they train. `streams`: source of their randomness.
    """
    federation, timing = host.live.federation, host.live.timing
    scenario, data, path = federation.resolved.scenario, federation.data, federation.path
    world = scenario.world.start(data.clients, federation.resolved.streams, data.sizes) if timing.shape else None
    load, training = Workload.of(scenario, data.sizes), training_of(federation, streams)
    clients = list[LiveClient]()
    for number in range(data.clients):
        budgets = scenario.budget_tracker(path.context, data.sizes, path.state, path.states)
        observer = partial(host.observe, number) if timing.virtual else None
        setup = ClientSetup(number, scenario, training, executor, load, world, budgets, observer)
        clients.append(LiveClient(setup, host, data.samples(number)))
    return clients


async def run_here(resolved: ResolvedSeed, timing: LiveTiming, workers: int = 2, **options: Any) -> SeedRun:
    """Run one seed with clients in this process, `workers` of which train at the same time.

    `options`: of `run_live`, which says what is raised.
    """

    async def clients(host: Host) -> None:
        streams = host.live.federation.resolved.streams if timing.shape else Streams(unknown_seed())
        with ThreadPoolExecutor(workers, "training") as executor:
            await asyncio.gather(*[client.run() for client in local_clients(host, executor, streams)])

    return await run_live(resolved, timing, clients, **options)
