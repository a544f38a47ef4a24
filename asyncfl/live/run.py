"""One seed of a scenario as a live federation, from the draw of its data to its end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

from asyncfl.base.errors import ScenarioError
from asyncfl.base.messages import Judged, Publish
from asyncfl.base.streams import Streams
from asyncfl.client import Attackers, TaskPath
from asyncfl.compression import compressor_of
from asyncfl.federation.conclusion import conclude, seed_run
from asyncfl.federation.prepare import Federation, learner_of, prepare
from asyncfl.federation.resolve import ResolvedSeed
from asyncfl.federation.round_recorder import RoundRecorder
from asyncfl.federation.round_rows import Row
from asyncfl.federation.seed_run import SeedRun
from asyncfl.federation.traffic import Traffic
from asyncfl.federation.workload import workload_of
from asyncfl.learning import Learner
from asyncfl.learning.personal_layers import PersonalLayers, SharedPartLearner
from asyncfl.live.client import LiveClient
from asyncfl.live.errands import Craft
from asyncfl.live.faults import live_faults
from asyncfl.live.host import Host
from asyncfl.live.members import Members
from asyncfl.live.serving import serving_faults, without_samples
from asyncfl.live.terms import Terms
from asyncfl.live.transport import Connect
from asyncfl.live.unseen import unseen_faults, unseen_notes
from asyncfl.live.vocabulary import Welcome
from asyncfl.live.wire import client_decoder
from asyncfl.live.work import Workshop
from asyncfl.server import Server
from asyncfl.server.recording import RecordedServer, Recording

WAITING = 4
"""Versions that wait to be evaluated before the server waits for them."""

Progress: TypeAlias = Callable[[Row, int], None]
"""Is told each row of the table of rounds when it is complete, and the number of tasks in flight when it began."""
Round: TypeAlias = Callable[[Host], Awaitable[None]]
"""Everything around a host: connections and clients. Ends when they have."""


@dataclass
class Evaluations:
    """Has published versions evaluated, one after another in a thread, while the run goes on."""

    rounds: RoundRecorder
    in_flight: Callable[[], int]
    progress: Progress | None
    diverged: Callable[[str], None]
    personal: PersonalLayers | None = None
    """What clients make of their own layers; None: nothing, or nobody here knows."""
    _waiting: list[tuple[Row, Publish, int, PersonalLayers | None]] = field(default_factory=list)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def judged(self, judged: Judged) -> None:
        """See `Watcher`."""
        self.rounds.judged(judged)

    def published(self, time_s: float, publish: Publish, traffic: Traffic) -> str | None:
        """See `Watcher`. That a run diverges is told later, when it has been found out."""
        personal = None if self.personal is None else self.personal.copy()
        self._waiting.append((self.rounds.begin(time_s, publish, traffic), publish, self.in_flight(), personal))
        self._changed.set()
        return None

    async def keep_up(self) -> None:
        """Wait while too many versions wait."""
        while len(self._waiting) > WAITING:
            self._changed.clear()
            await self._changed.wait()

    async def run(self) -> None:
        """Evaluate what comes, until it is cancelled."""
        with ThreadPoolExecutor(1, "evaluation") as executor:
            while True:
                await self._next(executor)

    async def finish(self) -> None:
        """Evaluate what still waits."""
        with ThreadPoolExecutor(1, "evaluation") as executor:
            while self._waiting:
                await self._next(executor)

    async def _next(self, executor: ThreadPoolExecutor) -> None:
        while not self._waiting:
            self._changed.clear()
            await self._changed.wait()
        row, publish, in_flight, personal = self._waiting[0]
        evaluated = asyncio.get_running_loop().run_in_executor(executor, self.rounds.evaluate, row, publish, personal)
        # Also where the run ends meanwhile: a version is evaluated once.
        await asyncio.shield(evaluated)
        reason = evaluated.result()
        self._waiting.pop(0)
        self._changed.set()
        if self.progress is not None:
            self.progress(row, in_flight)
        if reason is not None:
            self.diverged(reason)


async def hold(
    resolved: ResolvedSeed,
    terms: Terms,
    tokens: dict[str, str],
    around: Callable[[Federation], Round],
    *,
    secret: int,
    at_least: int | None = None,
    known: bool = True,
    here: bool = True,
    progress: Progress | None = None,
    federation: Federation | None = None,
    rounds: RoundRecorder | None = None,
) -> SeedRun:
    """Hold one seed to its end.

    `tokens`: name -> token of the clients. `around`: what makes the connections, and clients that are here.
    `secret`: what the server's noise is drawn from; with `terms.shape` it is the scenario's seed. `at_least`: clients
    that are waited for before it begins; None: all. `known`: whether the clients' samples are those of the scenario;
    else they bring samples of their own, and come and go. `here`: whether clients are in this process, so that layers
    that are their own can be looked at; those that bring samples are not. `federation`, `rounds`: where they are others
    than the scenario's. Raises ScenarioError for what no live federation can do.
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
        faults += unseen_faults(scenario)
    if faults:
        raise ScenarioError(faults)
    if strangers:
        federation = without_samples(federation)
    if not terms.shape:
        federation.path.streams = Streams(secret)
    plan = replace(federation.plan, all_present=known)
    server: Server = Server(plan)
    recording = None
    if scenario.evaluation.record != "none":
        recording = Recording.of(plan, scenario.evaluation.record, resolved.seed)
        server = RecordedServer(plan, recording)
    if rounds is None:
        rounds = RoundRecorder(scenario, resolved.seed, federation)
    if apart:
        # Half a model cannot be judged.
        rounds.evaluator = None
    if rounds.evaluator is not None:
        # Of its own: it evaluates while others train and aggregate.
        rounds.evaluator.learner = learner_of(scenario, federation.data)
    is_prepared = time.perf_counter()
    fewest = 1 if not strangers or scenario.privacy.off else federation.path.context.smallest_samples
    n_parameters, packing = federation.learner.n_parameters, scenario.compression
    members = Members(scenario.data.clients, tokens, n_parameters, fewest_samples=fewest, packing=packing)
    with ThreadPoolExecutor(1, "aggregation") as executor:
        watcher = Evaluations(rounds, lambda: host.in_flight, progress, lambda reason: host.end(reason))
        watcher.personal = None if apart else federation.path.personal
        host = Host(federation, server, members, executor, terms, watcher=watcher, keep_up=watcher.keep_up)
        evaluating = asyncio.ensure_future(watcher.run())
        surroundings = asyncio.ensure_future(around(federation)(host))
        running = asyncio.ensure_future(host.run(scenario.data.clients if at_least is None else at_least))
        try:
            await asyncio.wait([evaluating, surroundings, running], return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                # What went wrong with the others is raised below.
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
        await watcher.finish()
    spent = None if federation.path.scheme.stop_at is None else host.spent
    events = host.event_log.recorder.table()
    run = seed_run(host, rounds, stopped, events, host.trained, server.samples, spent)
    conclude(run, federation, server, recording)
    run.notes.extend(_notes(terms, host))
    if strangers:
        run.domains = ()
        run.notes.append(OWN_SAMPLES)
    if apart:
        run.notes.extend(unseen_notes(members.renewed))
    # On virtual time one process is the whole federation, as in a simulation.
    run.seed_known = terms.shape and not terms.virtual
    total = time.perf_counter() - began
    run.seconds = {"preparation": is_prepared - began, "evaluation": rounds.seconds, "total": total}
    return run


OWN_SAMPLES = (
    "live: clients trained on samples of their own, which nobody else has: there is no training loss of the published "
    "models, and of clients that never came the number of samples is the scenario's"
)


def _notes(terms: Terms, host: Host) -> list[str]:
    notes = [
        f"live: clients trained {'on virtual' if terms.virtual else 'in real'} time; "
        + (
            "devices and links were those of the scenario's world"
            if terms.shape
            else "devices and links were what they are"
        )
    ]
    if terms.shape and not terms.virtual:
        notes.append(
            "live: clients drew their noise from the scenario's seed, which the server knows: it can subtract it"
        )
    if terms.speedup != 1:
        notes.append(f"live: {terms.speedup:g} s of the scenario passed in each second")
    if host.reports.ahead:
        notes.append(
            f"live: {len(host.reports.ahead)} clients told of more time than had passed: what they told of is put "
            "before the message that it came with"
        )
    scenario = host.federation.resolved.scenario
    tap, renewed = scenario.world.tap, sorted(host.members.renewed)
    if not terms.shape and (tap.uplink or tap.downlink or tap.scoring):
        notes.append("live: every message on a tapped link counts as overheard, since nobody knows which were")
    if renewed and host.federation.path.scheme.stop_at is not None:
        notes.append(
            f"live: clients {', '.join(map(str, renewed))} came back as other processes, whose budgets began at zero; "
            "the ledger counts what all processes of a client sent, which may exceed stop_at"
        )
    if renewed and scenario.compression.remembers:
        notes.append(
            f"live: clients {', '.join(map(str, renewed))} came back as other processes, without what compression had "
            "left of their updates"
        )
    return notes


def workshop_of(federation: Federation, streams: Streams) -> Workshop:
    """Where clients train that are in the process of their server. `streams`: what they draw from."""
    scenario, data, context = federation.resolved.scenario, federation.data, federation.path.context

    def make_path(attackers: Attackers | None) -> TaskPath:
        learner: Learner = learner_of(scenario, data)
        if isinstance(federation.learner, SharedPartLearner):
            learner = federation.learner.with_learner(learner)
        compressor = compressor_of(scenario.compression, streams)
        return TaskPath(
            data, learner, scenario.training, scenario.privacy, context, streams, attackers, compressor=compressor
        )

    return Workshop(make_path, scenario.threats, federation.path.personal)


def local_clients(
    federation: Federation,
    terms: Terms,
    tokens: dict[str, str],
    connect: Connect,
    executor: Any,
    streams: Streams,
    observe: Callable[[int, int, str, int, int, str], None] | None = None,
) -> list[LiveClient]:
    """All clients of a federation, in this process.

    `executor`: where they train; `streams`: what they draw from; `observe`: see `Host.observe`, on virtual time.
    """
    scenario, data = federation.resolved.scenario, federation.data
    clock_streams = federation.resolved.streams
    world = scenario.world.start(data.clients, clock_streams, data.sizes) if terms.shape else None
    load = workload_of(scenario, data.sizes)
    workshop = workshop_of(federation, streams)

    def prepare_client(welcome: Welcome) -> Craft:
        budgets = federation.budget_tracker()
        decoder = client_decoder(federation.learner.n_parameters, scenario.download_compression)
        observer = None if observe is None else partial(observe, welcome.client)
        reports_losses, threats = scenario.reports_losses, scenario.threats
        return Craft(
            welcome.client, workshop, executor, load, world, threats, budgets, decoder, reports_losses, observer
        )

    return [
        LiveClient(
            name,
            token,
            connect,
            prepare_client,
            samples=data.samples(int(name)),
            n_parameters=federation.learner.n_parameters,
        )
        for name, token in tokens.items()
    ]
