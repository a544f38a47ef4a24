"""The nodes of a Flower grid as clients of a live server, from the first connected node to the end of the run.

Flower starts a process for each message, which ends with its reply. So a node's side of the conversation is here:

    from the server   to the node      from the node                          to the server
    Task              train            a model                                Update
                                       an error of the app                    Gone, dropped_out
                                       no answer before the message expires   Gone, lost_up
                                       the node is not connected              (the connection ends)
    Judge             query.scores     scores                                 Scores
                                       any error                              Scores, none

A grid does not notify: every `POLL_S` seconds waiting messages are sent and replies fetched, and every `NODES_S`
seconds the list of connected nodes is read. All calls to the grid run in one thread, one at a time.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias, TypeVar

import numpy as np

from asyncfl.base.errors import AsyncflError, MessageError, ScenarioError, shortened
from asyncfl.base.messages import Download, Fate, Vector
from asyncfl.base.streams import unknown_seed
from asyncfl.federation.prepare import Federation, ResolvedSeed
from asyncfl.federation.seed_run import SeedRun
from asyncfl.live import vocabulary
from asyncfl.live.clock import Terms
from asyncfl.live.faults import flower_faults
from asyncfl.live.flower.records import (
    EXAMPLES,
    LOSS,
    QUERY,
    READY,
    SCORES,
    SECONDS,
    TRAIN,
    Failure,
    FlowerError,
    FlowerMessage,
    GridTransport,
    Reply,
    Value,
)
from asyncfl.live.host import Host
from asyncfl.live.interrupts import INTERRUPTED, Interrupts
from asyncfl.live.live_federation import RefusedError
from asyncfl.live.remote_client import RemoteClient
from asyncfl.live.run import Progress, Round, run_live
from asyncfl.live.vocabulary import Noted
from asyncfl.live.wire import WireError, encode, server_decoder
from asyncfl.trace import Kind

log = logging.getLogger("asyncfl.live")

T = TypeVar("T")

Answer: TypeAlias = tuple[vocabulary.Message, Vector | None]
"""A message to the server, and the model (1, length) that comes with it."""

POLL_S, NODES_S = 0.2, 2.0
GRID_ENDED = "Flower's grid answers no more"
"""Beginning of the stop reason of a run that was stopped in Flower (`flwr stop`), or whose SuperLink is gone."""


class GridError(AsyncflError):
    """The grid cannot be reached, or has ended the run."""


@dataclass(frozen=True)
class GridSettings:
    """Settings of the exchange with a grid."""

    ours: bool = True
    """Whether the nodes run asyncfl's ClientApp, which gets the scenario, clips and adds noise itself; otherwise the
    user's own, which answers `train` at least."""
    asks: Mapping[str, Value] | None = None
    """Configuration of the query for a node's number of samples; None: each node counts as one sample."""
    clip: Callable[[Vector, Vector], Vector] | None = None
    """Clips the model of the user's own ClientApp, given the model that it was sent; None: nothing is clipped."""


@dataclass(eq=False)
class Node:
    """One node of the grid: the link of its client while it is connected."""

    number: int
    """Flower's identifier of the node."""
    settings: GridSettings = field(default_factory=GridSettings)
    samples: int | None = None
    """Training samples; None: not reported yet."""
    wants: str = ""
    """Name of the client that it asks to be; empty: any."""
    name: str = ""
    """Name of the client that it is; empty: of none yet."""
    waits: bool = False
    """Whether the log says that it must wait for a free name."""
    client: RemoteClient | None = None
    """The client while the node is connected."""
    is_prepared: bool = False
    """Whether it was asked to prepare itself."""
    config: Mapping[str, Value] = field(default_factory=dict)
    """Configuration sent with each message: the client's process starts anew for each."""
    messages: list[FlowerMessage] = field(default_factory=list)
    """Messages without an answer, sent or to be sent."""
    bases: dict[int, Vector] = field(default_factory=dict)
    """Task -> model that was sent, where the server clips."""

    @property
    def peer(self) -> str:
        """See `ClientLink`."""
        return f"node {self.number}"

    @property
    def tasks(self) -> tuple[int, ...]:
        """Tasks whose update has not arrived, in ascending order."""
        return tuple(sorted(one.of for one in self.messages if one.kind == TRAIN))

    def queue(self, kind: str, config: Mapping[str, Value], models: Vector | None = None, of: int = -1) -> None:
        """Queue a message for the node."""
        self.messages.append(FlowerMessage(self.number, kind, {**config, **self.config}, models, of))

    def write(self, message: vocabulary.Message, models: Vector | Download | None = None) -> None:
        """See `ClientLink`."""
        match message:
            case vocabulary.Welcome():
                if self.settings.ours:
                    self.config = {"client": message.client, "welcome": encode(message)}
                for task in message.gone:
                    self._forget(task)
            case vocabulary.Task():
                assert isinstance(models, Download)
                model = np.array(models.model[None], dtype=np.float32)
                if self.settings.clip is not None:
                    self.bases[message.task] = model[0]
                config: dict[str, Value] = {"server-round": message.version}
                if self.settings.ours:
                    config |= {"task": message.task, "turn": message.turn, "attacks": message.attacks}
                self.queue(TRAIN, config, model, message.task)
            case vocabulary.Judge():
                judge: dict[str, Value] = {"turn": message.turn, "attacks": message.attacks}
                judge |= {"last-version": message.last_version, "last-turn": message.last_turn}
                models = np.array(models, dtype=np.float32)
                self.queue(SCORES, judge if self.settings.ours else {}, models, message.request)

    def _forget(self, task: int) -> None:
        """Ignore the answer to a task."""
        self.bases.pop(task, None)
        self.messages = [one for one in self.messages if (one.kind, one.of) != (TRAIN, task)]

    def end(self, reason: str) -> None:
        """See `ClientLink`."""
        self.client = None

    # --- answers ---------------------------------------------------------------------------------------------------

    def messages_of(self, sent: FlowerMessage, reply: Reply, now_s: float) -> Iterator[Answer]:
        """Translate a reply to the client's messages. `now_s`: time of the event loop."""
        if reply.failure is not None and not reply.is_lost:
            log.warning("%s: its ClientApp failed (%s)", self.peer, shortened(" ".join(reply.reason.split()), 300))
        if sent.kind == SCORES:
            scores = reply.metrics.get("scores") if reply.failure is None else None
            told = None if scores is None else tuple(map(float, scores if isinstance(scores, list) else [scores]))
            yield vocabulary.Scores(sent.of, told, ()), None
            return
        base, took_s = self.bases.pop(sent.of, None), max(0.0, now_s - sent.sent_s)
        # Metrics of another ClientApp may have these names and mean something else.
        ours, model = reply if self.settings.ours else Reply(), reply.model
        spent, stopped, done = reply.text("spent"), ours.text("stopped"), ours.whole_number("epochs")
        ended: tuple[Fate, Kind, str] | None = None
        if reply.is_lost:
            ended = Fate.LOST_UP, Kind.LOST, "up"
        elif reply.failure is not None:
            ended = Fate.DROPPED_OUT, Kind.DROPPED_OUT, "app"
        elif model is None and (spent or stopped):
            ended = Fate.DROPPED_OUT, Kind.DROPPED_OUT, stopped or "budget"
        elif "epochs" in ours.metrics and not done:
            told_epochs = shortened(ours.metrics["epochs"], 100)
            log.warning("%s: its epochs must be a whole number >= 1, got %s", self.peer, told_epochs)
            ended = Fate.DROPPED_OUT, Kind.DROPPED_OUT, "app"
        if spent:
            yield vocabulary.Spent(spent), None
        if ended is not None:
            fate, kind, detail = ended
            yield vocabulary.Gone(sent.of, fate.value, (Noted(took_s, kind, detail=detail),)), None
            return
        if model is None:
            log.warning("%s: its reply holds no model", self.peer)
            # The server rejects a model of the wrong length.
            model = np.zeros(sent.bytes_down // 4 + 1, dtype=np.float32)
        elif self.settings.clip is not None and base is not None and len(model) == len(base):
            model = self.settings.clip(base, model)
        added_std, epsilon = ours.number("added-std") or 0.0, ours.number("epsilon")
        report = report_of(reply, sent, model.nbytes, took_s, stopped)
        yield vocabulary.Update(sent.of, reply.number(LOSS), added_std, epsilon, report, done), model[None]


def report_of(reply: Reply, sent: FlowerMessage, bytes_up: int, took_s: float, stopped: str = "") -> vocabulary.Report:
    """Return the events of a task at a client, from the metrics of its reply.

    `took_s`: seconds from the message to its answer; `stopped`: epochs after which the client stopped, as text. Without
    a metric for the seconds of training, training is assumed to have taken all of them.
    """
    began_s = max(0.0, reply.number("began-s") or 0.0)
    seconds = reply.number(SECONDS)
    ended_s = max(began_s, took_s) if seconds is None else began_s + max(0.0, seconds)
    spent = reply.text("spent")
    return (
        Noted(0.0, Kind.DOWNLOADED, sent.bytes_down, 1, "down"),
        Noted(began_s, Kind.TRAINING_STARTED),
        Noted(ended_s, Kind.TRAINED, detail=stopped),
        Noted(ended_s, Kind.UPLOAD_STARTED, bytes_up),
        *((Noted(ended_s, Kind.BUDGET_SPENT, detail=spent),) if spent else ()),
        Noted(ended_s, Kind.UPLOADED, bytes_up, 1, "up"),
    )


class NodeManager:
    """Connects the nodes of a grid with the server of one live federation."""

    def __init__(
        self,
        host: Host,
        grid: GridTransport,
        tokens: Mapping[str, str],
        n_parameters: int,
        settings: GridSettings,
    ) -> None:
        """`tokens`: name -> token of every client."""
        self._host, self._grid, self._tokens = host, grid, tokens
        self._n_parameters, self._settings = n_parameters, settings
        self._nodes: dict[int, Node] = {}
        self._decoder = server_decoder(n_parameters)

    async def run(self) -> None:
        """Exchange messages until the run is over. Raises FlowerError where an app cannot take part."""
        loop, looked_s = asyncio.get_running_loop(), -NODES_S
        try:
            with ThreadPoolExecutor(1, "grid") as self._executor:
                while self._host.stopped is None:
                    if loop.time() - looked_s >= NODES_S:
                        looked_s = loop.time()
                        await self._look_for_nodes()
                    await self._send()
                    await self._fetch()
                    await asyncio.sleep(POLL_S)
        except GridError as error:
            # The run so far is kept.
            log.warning("%s", error)
            self._host.end(str(error)[:1000])

    async def _call(self, do: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, do)
        except FlowerError:
            raise
        except Exception as error:
            # Any other exception of a grid means that it is gone, or that the run was stopped there.
            raise GridError(f"{GRID_ENDED}: {shortened(f'{type(error).__name__}: {error}', 300)}") from error

    # --- connected nodes -------------------------------------------------------------------------------------------

    async def _look_for_nodes(self) -> None:
        connected: Collection[int] = await self._call(self._grid.nodes)
        for number, node in list(self._nodes.items()):
            if number not in connected and not node.name:
                del self._nodes[number]
            elif number not in connected and node.client is not None:
                self._disconnect(node, "is away")
            elif number in connected and node.client is None and node.name:
                await self._connect(node)
        for number in sorted(connected):
            if number not in self._nodes:
                self._nodes[number] = Node(number, self._settings, 1 if self._settings.asks is None else None)
        for node in self._nodes.values():
            if node.samples is None and not node.messages:
                node.queue(QUERY, self._settings.asks or {})
        await self._admit()

    def _disconnect(self, node: Node, why: object) -> None:
        log.warning("%s: %s", node.peer, why)
        if node.client is not None:
            node.client.disconnect(node)
            node.client = None

    async def _admit(self) -> None:
        """Give names to the nodes that have introduced themselves."""
        for node in list(self._nodes.values()):
            if node.name or node.samples is None:
                continue
            name = self._name_for(node.wants)
            if name is None:
                if not node.waits:
                    who = f"client {node.wants} is" if node.wants else f"all {len(self._tokens)} clients are"
                    log.warning("node %d: %s there already, it waits", node.number, who)
                node.waits = True
                continue
            # A node that had the name before was another process of the same client, and has ended.
            self._nodes = {number: other for number, other in self._nodes.items() if other.name != name}
            node.name = name
            log.info("node %d is client %s, %d samples", node.number, name, node.samples)
            await self._connect(node)

    def _name_for(self, wants: str) -> str | None:
        """Return a client name for a new node, or None: the name it asks for, else one without a connected node."""
        there = {node.name for node in self._nodes.values() if node.client is not None}
        if wants:
            # The node holds that client's data.
            return wants if wants in self._tokens and wants not in there else None
        known = {node.name for node in self._nodes.values()}
        return next((name for names in (known, there) for name in self._tokens if name not in names), None)

    async def _connect(self, node: Node) -> None:
        hello = vocabulary.Hello(node.name, self._tokens[node.name], self._n_parameters, node.samples or 0, node.tasks)
        try:
            node.client = self._host.connect(hello, node)
        except RefusedError as error:
            log.warning("%s: %s", node.peer, error)
            return
        if not node.is_prepared:
            node.is_prepared = True
            if self._settings.ours:
                node.queue(READY, {})
            else:
                await self._say(node, vocabulary.Ready(True, None))

    async def _say(self, node: Node, message: vocabulary.Message, model: Vector | None = None) -> None:
        """Pass a message to the server on behalf of a node. One that cannot be true ends the node's connection."""
        if node.client is not None:
            try:
                await self._host.hear(node.client, *self._decoder.decode(encode(message, model)))
            except (WireError, MessageError) as error:
                self._disconnect(node, error)

    # --- messages --------------------------------------------------------------------------------------------------

    async def _send(self) -> None:
        new = [(node, one) for node in self._nodes.values() for one in node.messages if one.name is None]
        if not new:
            return
        names = await self._call(partial(self._grid.send, [message for _, message in new]))
        now_s = asyncio.get_running_loop().time()
        for (node, message), name in zip(new, names, strict=True):
            message.name, message.sent_s = name, now_s
            if message.models is not None:
                message.bytes_down, message.models = message.models.nbytes, None
            if name is None:
                await self._answered(node, message, Reply("", Failure.EXPIRED, "it was not taken"))

    async def _fetch(self) -> None:
        # Replies of disconnected nodes cannot be fetched; they may follow once the node is connected again.
        nodes = [node for node in self._nodes.values() if node.client is not None or not node.name]
        waiting = {one.name: (node, one) for node in nodes for one in node.messages if one.name is not None}
        if not waiting:
            return
        for reply in await self._call(partial(self._grid.fetch, list(waiting))):
            node, message = waiting[reply.message]
            if node.client is None and node.name:
                continue
            if reply.failure == Failure.AWAY and node.name:
                self._disconnect(node, "is away")
            elif message in node.messages:
                await self._answered(node, message, reply)
        await self._admit()

    async def _answered(self, node: Node, message: FlowerMessage, reply: Reply) -> None:
        node.messages.remove(message)
        reason = shortened(" ".join(reply.reason.split()), 500)
        if message.kind in (TRAIN, SCORES):
            for told, model in node.messages_of(message, reply, asyncio.get_running_loop().time()):
                await self._say(node, told, model)
        elif reply.is_lost:
            if message.kind == READY:
                # Ask again; a query is repeated when nodes are looked for.
                node.queue(READY, {})
        elif reply.failure is not None:
            what = "take part" if message.kind == READY else "say who it is"
            raise FlowerError(f"node {node.number} cannot {what}: {reason}")
        elif message.kind == READY:
            await self._say(node, vocabulary.Ready(True, reply.text("spent") or None))
        else:
            samples = reply.whole_number(EXAMPLES)
            if not samples:
                got = shortened(reply.metrics.get(EXAMPLES), 100)
                raise FlowerError(
                    f"node {node.number} must answer a query with metric {EXAMPLES}, a whole number >= 1, got {got}"
                )
            node.samples, node.wants = samples, reply.text("name")


async def serve_nodes(
    resolved: ResolvedSeed,
    grid: GridTransport,
    settings: GridSettings,
    interrupts: Interrupts | None = None,
    **options: Any,
) -> SeedRun:
    """Run one seed over a grid. `interrupts`: of several seeds; None: of this one alone. `options`: of `run_live`."""
    tokens = {str(client): secrets.token_urlsafe(16) for client in range(resolved.scenario.data.clients)}

    def around(federation: Federation) -> Round:
        async def serve(host: Host) -> None:
            with ExitStack() as stack:
                requested = interrupts or stack.enter_context(Interrupts())
                stack.enter_context(requested.ending(partial(host.end, INTERRUPTED)))
                await NodeManager(host, grid, tokens, federation.learner.n_parameters, settings).run()

        return serve

    return await run_live(resolved, Terms(), tokens, around, secret=unknown_seed(), **options)


async def run_on_grid(
    resolved: ResolvedSeed,
    grid: GridTransport,
    *,
    progress: Progress | None = None,
    interrupts: Interrupts | None = None,
) -> SeedRun:
    """Run one seed over a grid whose nodes run asyncfl's ClientApp, and return its results.

    The run begins when all clients of the scenario are connected. Ctrl-C and `flwr stop` end it, with the versions so
    far. `interrupts`: of several seeds; None: of this one alone. Raises ScenarioError for settings that no live
    federation can carry out, FlowerError where a node's app cannot take part.
    """
    scenario = resolved.scenario
    if faults := list(flower_faults(scenario)):
        raise ScenarioError(faults)
    settings = GridSettings(asks={"scenario": scenario.to_yaml(), "seed": resolved.seed})
    run = await serve_nodes(resolved, grid, settings, interrupts, here=False, progress=progress)
    run.notes.append("live: over Flower, where a client is started for each message")
    return run
