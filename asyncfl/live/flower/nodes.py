"""The nodes of a Flower grid as clients of a live server, from the first connected node to the end of the run.

Flower starts a process for each message, which ends with its reply. So a node's side of the conversation is here:

    from the server   to the node      from the node                          to the server
    Task              train            frames, or a model                     Update, Gone
                                       an error of the app                    Gone, dropped_out
                                       no answer before the message expires   Gone, lost_up
                                       the node is not connected              (the connection ends)
    Judge             query.scores     frames, or scores                      Scores
                                       any error                              Scores, none

A grid does not notify: every `POLL_S` seconds waiting messages are sent and replies fetched, and every `NODES_S`
seconds the list of connected nodes is read. All calls to the grid run in one thread, one at a time.
"""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias, TypeVar

import numpy as np
from msgspec.structs import replace as replaced

from asyncfl.base.errors import AsyncflError, MessageError, shortened
from asyncfl.base.messages import Download, Fate, Vector
from asyncfl.federation.prepare import ResolvedSeed
from asyncfl.federation.seed_run import SeedRun
from asyncfl.live.clock import Terms
from asyncfl.live.flower.records import QUERY, SCORES, TRAIN, Failure, FlowerError, FlowerMessage, GridTransport, Reply
from asyncfl.live.host import Host
from asyncfl.live.live_federation import RefusedError
from asyncfl.live.remote_client import RemoteClient
from asyncfl.live.run import run_live
from asyncfl.live.wire import (
    Decoder,
    FromClient,
    Gone,
    Hello,
    Judge,
    Message,
    Noted,
    Ready,
    Scores,
    Task,
    Update,
    Welcome,
    WireError,
    encode,
)
from asyncfl.trace import Kind

log = logging.getLogger("asyncfl.live")

T = TypeVar("T")

POLL_S, NODES_S = 0.2, 2.0
GRID_ENDED = "Flower's grid answers no more"
"""Beginning of the stop reason of a run that was stopped in Flower (`flwr stop`), or whose SuperLink is gone."""


class GridError(AsyncflError):
    """The grid cannot be reached, or has ended the run."""


EXAMPLES, LOSS, SECONDS = "num-examples", "train_loss", "train-s"
"""Metrics that a ClientApp may report: training samples, mean loss of the last epoch, seconds of training."""


@dataclass(frozen=True)
class FrameDialect:
    """Messages of asyncfl's own ClientApp, which exchanges frames of the live wire."""

    welcome: Welcome
    decoder: Decoder[FromClient]

    @property
    def query(self) -> Mapping[str, Any]:
        """Configuration of the query that a node introduces itself by."""
        return {"welcome": encode(self.welcome)}

    def introduced(self, reply: Reply) -> tuple[Hello, Ready]:
        """Return the introduction in a reply to the query, without token. Raises FlowerError and WireError."""
        match [self.decoder.decode(frame)[0] for frame in self.frames(None, reply)]:
            case [Hello() as hello, Ready() as ready]:
                return hello, ready
        raise FlowerError("its ClientApp must be asyncfl's, of the version of the server")

    def message_to(self, node: int, message: Task | Judge, models: Vector | Download) -> FlowerMessage:
        """Return the message to a node for a task or request."""
        kind, of = (TRAIN, message.task) if isinstance(message, Task) else (SCORES, message.request)
        return FlowerMessage(node, kind, {**self.query, "frame": encode(message, models)}, of=of)

    def frames(self, sent: FlowerMessage | None, reply: Reply, took_s: float = 0.0) -> list[bytes]:
        """Return the frames in a reply."""
        frames = reply.config.get("frames")
        return [one for one in frames if isinstance(one, bytes)] if isinstance(frames, list) else []


@dataclass(frozen=True)
class ArrayDialect:
    """Messages of a user's ClientApp, which is sent arrays and replies with arrays. Methods as of `FrameDialect`."""

    query: Mapping[str, Any] | None
    """None: nodes are not asked for their number of samples, and count as one."""
    clip: Callable[[Vector, Vector], Vector] | None
    """Clips a model, given the model that was sent; None: nothing is clipped."""

    def introduced(self, reply: Reply) -> tuple[Hello, Ready]:
        """Return the introduction, whose name is empty: the node may be any client. Raises FlowerError."""
        samples = 1 if self.query is None else reply.metrics.get(EXAMPLES)
        if not isinstance(samples, int) or not 1 <= samples <= 2**53:
            got = shortened(samples, 100)
            raise FlowerError(f"it must answer a query with metric {EXAMPLES}, a whole number >= 1, got {got}")
        return Hello("", "-", samples), Ready(True, None)

    def message_to(self, node: int, message: Task | Judge, models: Vector | Download) -> FlowerMessage:
        """Return the message to a node for a task or request."""
        if isinstance(message, Judge):
            return FlowerMessage(node, SCORES, {}, np.asarray(models), message.request)
        assert isinstance(models, Download)
        return FlowerMessage(node, TRAIN, {"server-round": message.version}, models.model[None], message.task)

    def frames(self, sent: FlowerMessage, reply: Reply, took_s: float) -> list[bytes]:
        """Translate a reply to frames. `took_s`: seconds that it took."""
        if sent.kind == SCORES:
            scores = reply.metrics.get("scores")
            if scores is None:
                return []
            return [encode(Scores(sent.of, tuple(map(float, scores if isinstance(scores, list) else [scores])), ()))]
        model, base = reply.model, sent.models
        if model is None or base is None:
            return []
        if self.clip is not None and len(model) == base.shape[1]:
            model = self.clip(base[0], model)
        loss, seconds = (reply.metrics.get(name) for name in (LOSS, SECONDS))
        # Without a metric, training is assumed to have taken all the time.
        trained_s = max(0.0, seconds) if isinstance(seconds, int | float) and math.isfinite(seconds) else took_s
        report = (
            Noted(0.0, Kind.DOWNLOADED, base.nbytes, 1, "down"),
            Noted(0.0, Kind.TRAINING_STARTED),
            Noted(trained_s, Kind.TRAINED),
            Noted(trained_s, Kind.UPLOAD_STARTED, model.nbytes),
            Noted(trained_s, Kind.UPLOADED, model.nbytes, 1, "up"),
        )
        told = float(loss) if isinstance(loss, int | float) else None
        return [encode(Update(sent.of, told, 0.0, None, report), model[None])]


Dialect: TypeAlias = FrameDialect | ArrayDialect


@dataclass(eq=False)
class Node:
    """One node of the grid: the link of its client while it is connected."""

    number: int
    """Flower's identifier of the node."""
    dialect: Dialect
    hello: Hello | None = None
    """Its introduction; None: there is none yet."""
    ready: Ready | None = None
    """Message of the node when it was first admitted."""
    name: str = ""
    """Name of the client that it is; empty: of none yet."""
    waits: bool = False
    """Whether the log says that it must wait for a free name."""
    client: RemoteClient | None = None
    """The client while the node is connected."""
    messages: list[FlowerMessage] = field(default_factory=list)
    """Messages without an answer, sent or to be sent."""

    @property
    def peer(self) -> str:
        """See `ClientLink`."""
        return f"node {self.number}"

    @property
    def tasks(self) -> tuple[int, ...]:
        """Tasks whose update has not arrived, in ascending order."""
        return tuple(sorted(one.of for one in self.messages if one.kind == TRAIN))

    def write(self, message: Message, models: Vector | Download | None = None) -> None:
        """See `ClientLink`."""
        match message:
            case Welcome():
                self.messages = [one for one in self.messages if one.kind != TRAIN or one.of not in message.gone]
            case Task() | Judge():
                assert models is not None
                self.messages.append(self.dialect.message_to(self.number, message, models))

    def end(self, reason: str) -> None:
        """See `ClientLink`."""
        self.client = None


class NodeManager:
    """Connects the nodes of a grid with the server of one live federation."""

    def __init__(self, host: Host, grid: GridTransport, tokens: Mapping[str, str], dialect: Dialect) -> None:
        """`tokens`: name -> token of every client."""
        self._host, self._grid, self._tokens, self._dialect = host, grid, tokens, dialect
        self._nodes: dict[int, Node] = {}

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
            node = self._nodes.setdefault(number, Node(number, self._dialect))
            if node.hello is not None or node.messages:
                continue
            if self._dialect.query is None:
                node.hello, node.ready = self._dialect.introduced(Reply())
            else:
                node.messages.append(FlowerMessage(number, QUERY, self._dialect.query))
        await self._admit()

    def _disconnect(self, node: Node, why: object) -> None:
        log.warning("%s: %s", node.peer, why)
        if node.client is not None:
            self._host.disconnect(node.client, node)
            node.client = None

    async def _admit(self) -> None:
        """Give names to the nodes that have introduced themselves."""
        for node in list(self._nodes.values()):
            if node.name or node.hello is None:
                continue
            name = self._name_for(node.hello.name)
            if name is None:
                if not node.waits:
                    wanted = node.hello.name
                    who = f"client {wanted} is" if wanted else f"all {len(self._tokens)} clients are"
                    log.warning("%s: %s there already, it waits", node.peer, who)
                node.waits = True
                continue
            # A node that had the name before was another process of the same client, and has ended.
            self._nodes = {number: other for number, other in self._nodes.items() if other.name != name}
            node.name = name
            log.info("%s is client %s, %d samples", node.peer, name, node.hello.samples)
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
        assert node.hello is not None
        hello = replaced(node.hello, name=node.name, token=self._tokens[node.name], tasks=node.tasks)
        try:
            node.client = self._host.connect(hello, node)
        except RefusedError as error:
            log.warning("%s: %s", node.peer, error)
            return
        if node.ready is not None:
            ready, node.ready = node.ready, None
            await self._hear(node, [encode(ready)])

    async def _hear(self, node: Node, frames: list[bytes]) -> bool:
        """Pass messages to the server on behalf of a node; return whether one of them ends a task or a request.

        One that cannot be true ends the node's connection.
        """
        ended = False
        for frame in frames:
            try:
                message, models = self._host.decoder.decode(frame)
                ended |= isinstance(message, Update | Gone | Scores)
                if node.client is not None:
                    await self._host.hear(node.client, message, models)
            except (WireError, MessageError) as error:
                self._disconnect(node, error)
        return ended

    # --- messages --------------------------------------------------------------------------------------------------

    async def _send(self) -> None:
        new = [(node, one) for node in self._nodes.values() for one in node.messages if one.name is None]
        if not new:
            return
        names = await self._call(partial(self._grid.send, [message for _, message in new]))
        now_s = asyncio.get_running_loop().time()
        for (node, message), name in zip(new, names, strict=True):
            # The configuration may hold a model.
            message.name, message.sent_s, message.config = name, now_s, {}
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
        if message.kind == QUERY:
            # One that was lost is repeated when nodes are looked for.
            if not reply.is_lost:
                node.hello, node.ready = self._introduced(node, reply, reason)
            return
        took_s = max(0.0, asyncio.get_running_loop().time() - message.sent_s)
        if reply.failure is None and await self._hear(node, self._dialect.frames(message, reply, took_s)):
            return
        if not reply.is_lost:
            log.warning("%s: its ClientApp failed (%s)", node.peer, shortened(reason or "its reply holds nothing", 300))
        fate, event = (Fate.LOST_UP, Noted(took_s, Kind.LOST, detail="up"))
        if not reply.is_lost:
            fate, event = Fate.DROPPED_OUT, Noted(took_s, Kind.DROPPED_OUT, detail="app")
        ended = Scores(message.of, None, ()) if message.kind == SCORES else Gone(message.of, fate.value, (event,))
        await self._hear(node, [encode(ended)])

    def _introduced(self, node: Node, reply: Reply, reason: str) -> tuple[Hello, Ready]:
        """Return the introduction of a node. Raises FlowerError."""
        if reply.failure is not None:
            raise FlowerError(f"{node.peer} cannot take part: {reason}")
        try:
            return self._dialect.introduced(reply)
        except (FlowerError, WireError) as error:
            raise FlowerError(f"{node.peer} cannot take part: {error}") from None


async def serve_nodes(
    resolved: ResolvedSeed, grid: GridTransport, dialect: Callable[[Host], Dialect], **options: Any
) -> SeedRun:
    """Run one seed over a grid. `options`: of `run_live`."""
    tokens = {str(client): secrets.token_urlsafe(16) for client in range(resolved.scenario.data.clients)}

    async def serve(host: Host) -> None:
        await NodeManager(host, grid, tokens, dialect(host)).run()

    return await run_live(resolved, Terms(), tokens, serve, **options)


async def run_on_grid(resolved: ResolvedSeed, grid: GridTransport, **options: Any) -> SeedRun:
    """Run one seed over a grid whose nodes run asyncfl's ClientApp, and return its results.

    The run begins when all clients of the scenario are connected. `flwr stop` ends it, with the versions so far.
    `options`: of `run_live`. Raises ScenarioError for settings that no live federation can carry out, FlowerError where
    a node's app cannot take part.
    """

    def dialect(host: Host) -> Dialect:
        return FrameDialect(host.live.welcome, host.decoder)

    run = await serve_nodes(resolved, grid, dialect, here=False, **options)
    run.notes.append("live: over Flower, where a client is started for each message")
    return run
