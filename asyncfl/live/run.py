"""One seed of a scenario as a live federation, from the draw of its data to its end."""

from __future__ import annotations

import asyncio
import logging
import secrets
import ssl
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

from asyncfl.base.errors import ScenarioError
from asyncfl.base.streams import Streams, unknown_seed
from asyncfl.federation.phases import Workload
from asyncfl.federation.prepare import Federation, ResolvedSeed, learner_of, prepare
from asyncfl.federation.round_recorder import RoundRecorder
from asyncfl.federation.seed_run import SeedRun, conclude, seed_run
from asyncfl.live.client import LiveClient
from asyncfl.live.clock import LiveClock, StepClock, Terms
from asyncfl.live.conduct import MOST_SAMPLES, with_share
from asyncfl.live.connection_limits import ConnectionLimits
from asyncfl.live.connections import Connect, Memory, listening
from asyncfl.live.evaluations import Evaluations, Progress
from asyncfl.live.faults import live_faults, personal_faults, serving_faults
from asyncfl.live.host import Host
from asyncfl.live.interrupts import INTERRUPTED, Interrupts
from asyncfl.live.joining import without_samples
from asyncfl.live.journal import Found, Journal
from asyncfl.live.live_federation import LiveFederation
from asyncfl.live.local_training import LocalTraining
from asyncfl.live.saved_live import restore_live
from asyncfl.live.task_runner import ClientSetup
from asyncfl.live.wire import HELLO_BYTES, Noted, Welcome
from asyncfl.server import Server
from asyncfl.server.recording import RecordedServer, Recording

log = logging.getLogger("asyncfl.live")

Surroundings: TypeAlias = Callable[[Host], Awaitable[None]]
"""Connections and clients around a host. Ends when they have ended."""


async def run_live(
    resolved: ResolvedSeed,
    terms: Terms,
    tokens: dict[str, str],
    around: Surroundings,
    *,
    secret: int | None = None,
    interrupts: Interrupts | None = None,
    at_least: int | None = None,
    known: bool = True,
    here: bool = True,
    progress: Progress | None = None,
    federation: Federation | None = None,
    rounds: RoundRecorder | None = None,
    journal: Journal | None = None,
    samples_at_most: int | None = None,
) -> SeedRun:
    """Run one seed to its end. Raises ScenarioError for settings that are impossible in a live federation, and RunError
    for a journal that cannot be gone on from.

    Args:
        resolved: The scenario and its seed.
        terms: How the run relates to real time.
        tokens: Name -> token of the clients.
        around: Makes the connections, and the clients in this process.
        secret: Seed of the server's noise; None: an unpredictable one. A shaped run with clients in this process is a
            simulation, and takes the scenario's.
        interrupts: Signals that end the run like its time limit; None: they break it off.
        at_least: Clients to wait for before the run begins; None: all.
        known: Whether the clients' samples are those of the scenario; otherwise they bring their own, and come and go.
        here: Whether clients are in this process, so that their own layers are known.
        progress: Called for each version.
        federation: In place of the scenario's.
        rounds: In place of the scenario's evaluation.
        journal: Where the run is written as it goes; one that an earlier process has begun is gone on from. None: it is
            lost with this process.
        samples_at_most: Samples that a client may bring; None: `MOST_SAMPLES` times those of the scenario's largest.
    """
    began = time.perf_counter()
    strangers = federation is None and not known
    if federation is None:
        federation = await asyncio.get_running_loop().run_in_executor(None, prepare, resolved)
    scenario = federation.resolved.scenario
    faults = list(live_faults(scenario, federation.path.context, terms.shape))
    if strangers:
        faults += serving_faults(scenario, shape=terms.shape)
    apart = scenario.model.personal and (strangers or not here)
    if apart:
        faults += personal_faults(scenario)
    if faults:
        raise ScenarioError(faults)
    if strangers:
        federation = without_samples(federation)
    if strangers or not terms.shape:
        federation.path.streams = Streams(unknown_seed() if secret is None else secret)
    plan = replace(federation.plan, all_present=known)
    if strangers:
        plan = replace(plan, protocol=with_share(scenario.protocol, at_least or scenario.data.clients))
        samples_at_most = samples_at_most or MOST_SAMPLES * int(plan.samples.max())
        log.info("a client may have at most %d samples (--samples-at-most)", samples_at_most)
        if (share := plan.protocol.per_client) is not None:
            log.info("a buffer takes at most %d updates of one client (protocol.per_client)", share)
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
    fewest = 1 if not strangers or scenario.privacy.off else federation.path.context.smallest_samples
    live = LiveFederation(
        *(federation, server, StepClock(), terms, tokens), fewest_samples=fewest, most_samples=samples_at_most
    )
    with ThreadPoolExecutor(1, "aggregation") as executor, ExitStack() as stack:
        live.watcher = watcher = Evaluations(
            rounds, lambda: host.live.in_flight, progress, lambda reason: host.end(reason)
        )
        watcher.personal = None if apart else federation.path.personal
        host = Host(live, LiveClock(terms.speedup), executor, watcher, journal)
        to_the_end = host.run(scenario.data.clients if at_least is None else at_least)
        if journal is not None:
            stack.callback(journal.close)
        if journal is not None and (found := journal.load()) is not None:
            to_the_end.close()
            to_the_end = await _go_on(host, found)
        if interrupts is not None:
            stack.enter_context(interrupts.ending(partial(host.end, INTERRUPTED)))
        evaluating = asyncio.ensure_future(watcher.run())
        surroundings = asyncio.ensure_future(around(host))
        running = asyncio.ensure_future(to_the_end)
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
        await watcher.run(forever=False)
    live, rounds = host.live, watcher.rounds
    federation, server = live.federation, live.server
    spent = None if federation.path.scheme.stop_at is None else live.spent
    events = live.event_log.table()
    run = seed_run(live, rounds, stopped, events, live.trained, server.samples, spent, federation.attackers)
    run.in_real_time = not terms.virtual
    if terms.shape and not terms.virtual:
        run.rounds = live.reports.with_downloads(run.rounds)
    conclude(run, federation, server, server.recording if isinstance(server, RecordedServer) else None)
    run.notes.extend(_notes(terms, live, strangers=strangers, apart=apart))
    if strangers:
        run.domains = ()
    total = time.perf_counter() - began
    run.seconds = {"preparation": is_prepared - began, "evaluation": rounds.seconds, "total": total}
    return run


async def _go_on(host: Host, found: Found) -> Coroutine[Any, Any, str]:
    """Bring a host to where an earlier process was. Returns the rest of its run."""
    assert host.evaluations is not None
    restore_live(found.content, host.inputs, host.evaluations)
    work = await asyncio.get_running_loop().run_in_executor(None, host.inputs.replay, found.inputs)
    live = host.live
    if not live.shape:
        # After a loss of power the journal may lack what was published: the same noise may not be drawn again.
        live.federation.path.streams = Streams(unknown_seed())
    live.times_killed += 1
    live.away_s += found.passed_s
    at_s = live.clock.now + found.passed_s * host.clock.speedup
    return host.go_on(at_s, work)


def _notes(terms: Terms, live: LiveFederation, *, strangers: bool, apart: bool) -> Iterator[str]:
    """Yield the notes that a reader of the run's numbers needs."""
    scenario = live.federation.resolved.scenario
    tap = scenario.world.tap
    renewed = ", ".join(map(str, live.clients.renewed))
    again = f"live: clients {renewed} came back as other processes"
    time_is = "on virtual" if terms.virtual else "in real"
    links = "those of the scenario's world" if terms.shape else "what they are"
    yield f"live: clients trained {time_is} time; devices and links were {links}"
    if terms.speedup != 1:
        yield f"live: {terms.speedup:g} s of the scenario passed in each second"
    if not terms.shape and (tap.uplink or tap.downlink or tap.scoring):
        yield "live: every message on a tapped link counts as overheard, since nobody knows which were"
    for client in live.clients.by_number.values():
        if client.conduct.banned is not None:
            yield f"live: client {client.name} was banned for the run: {client.conduct.banned}"
    if strangers and scenario.protocol.per_client is None and live.server.protocol.per_client is not None:
        share = live.server.protocol.per_client
        yield (
            f"live: no client entered more than {share} updates of a buffer, as a simulation does with "
            f"protocol.per_client: {share}"
        )
    if live.times_killed:
        yield (f"live: the server was started again {live.times_killed} times; {live.away_s:.1f} s passed without it")
    if renewed and live.federation.path.scheme.stop_at is not None:
        yield (
            f"{again}, whose budgets began at zero; the ledger counts what all processes of a client sent, which may "
            "exceed stop_at"
        )
    if renewed and scenario.compression.remembers:
        yield f"{again}, without what compression had left of their updates"
    if strangers:
        yield (
            "live: clients trained on samples of their own, which nobody else has: there is no training loss of the "
            "published models, and of clients that never came the number of samples is the scenario's"
        )
    if apart:
        yield (
            "live: model.personal leaves the server the shared layers alone, so no version is judged: what is known "
            "are the losses that clients report of their own training (train_loss in clients.parquet), without privacy "
            "or where protocol.selection needs them"
        )
    if apart and renewed:
        yield f"{again}, and began with the initial personal layers again"


def training_of(federation: Federation, streams: Streams) -> LocalTraining:
    """Return the training of clients in the process of their server. `streams`: source of their randomness."""
    path = federation.path
    return LocalTraining(federation.resolved.scenario, federation.data, path.context, streams, path.personal)


def local_clients(
    federation: Federation,
    terms: Terms,
    tokens: dict[str, str],
    connect: Connect,
    executor: Executor,
    streams: Streams,
    observe: Callable[[int, int, Noted], None] | None = None,
) -> list[LiveClient]:
    """Return all clients of a federation, in this process.

    `executor`: where they train. `streams`: source of their randomness. `observe`: see `Host.observe`, on virtual time.
    """
    scenario, data = federation.resolved.scenario, federation.data
    world = scenario.world.start(data.clients, federation.resolved.streams, data.sizes) if terms.shape else None
    load, training = Workload.of(scenario, data.sizes), training_of(federation, streams)

    def prepare_client(welcome: Welcome) -> ClientSetup:
        number, path = welcome.client, federation.path
        budgets = scenario.budget_tracker(path.context, data.sizes, path.state)
        observer = None if observe is None else partial(observe, number)
        return ClientSetup(number, scenario, training, executor, load, world, budgets, observer)

    return [
        LiveClient(
            name,
            token,
            connect,
            prepare_client,
            samples=data.samples(int(name)),
        )
        for name, token in tokens.items()
    ]


async def run_here(resolved: ResolvedSeed, terms: Terms, workers: int = 2, **options: Any) -> SeedRun:
    """Run one seed with clients in this process, `workers` of which train at the same time.

    `options`: of `run_live`, which says what is raised.
    """
    tokens = {str(client): secrets.token_urlsafe() for client in range(resolved.scenario.data.clients)}

    async def clients(host: Host) -> None:
        memory, observe = Memory(host.serve), host.observe if terms.virtual else None
        streams = host.live.federation.resolved.streams if terms.shape else Streams(unknown_seed())
        with ThreadPoolExecutor(workers, "training") as executor:
            made = local_clients(host.live.federation, terms, tokens, memory.connect, executor, streams, observe)
            await asyncio.gather(*[client.run() for client in made])
        await memory.close()

    return await run_live(resolved, terms, tokens, clients, **options)


async def run_served(
    resolved: ResolvedSeed,
    terms: Terms,
    tokens: dict[str, str],
    address: tuple[str, int, ssl.SSLContext],
    listens: Callable[[int], None],
    **options: Any,
) -> SeedRun:
    """Run one seed with the clients that connect to `address`: host, port (0: any that is free) and TLS context.

    `listens`: called with the port. `options`: of `run_live`, which says what is raised, besides PortError.
    """

    async def listen(host: Host) -> None:
        name, port, tls = address
        limits = ConnectionLimits.of(resolved.scenario.data.clients)
        async with listening(host.serve, name, port, HELLO_BYTES, tls, limits) as found:
            listens(found)
            await host.over.wait()

    return await run_live(resolved, terms, tokens, listen, known=False, **options)
