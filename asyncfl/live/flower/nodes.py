"""The nodes of a Flower grid as clients of a live server.

Flower starts a process for each message, which ends with its reply: a node has no connection to the server. So its side
of the conversation is here. While a node is on the grid it has a connection within this process, on which it speaks the
wire of `serve` and `join`; the server admits, checks and refuses it as it does any client.

    from the server   to the node      from the node                          to the server
    Task              train            frames, or a model                     Update, Gone
                                       an error of the app, or nothing        Gone, dropped_out
                                       no reply before the message expires    Gone, lost_up
                                       the node is not on the grid            (the connection ends)
    Judge             query.scores     frames, or scores                      Scores
                                       any error, or nothing                  Scores, none

A grid does not notify: every `POLL_S` seconds the list of nodes is read, messages are sent, and replies fetched.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec.structs import replace as replaced

from asyncfl.base.errors import AsyncflError, shortened
from asyncfl.base.messages import Fate, Vector
from asyncfl.federation.prepare import ResolvedSeed
from asyncfl.federation.seed_run import SeedRun
from asyncfl.live import wire
from asyncfl.live.clock import Terms
from asyncfl.live.connections import EndedError
from asyncfl.live.flower import records
from asyncfl.live.flower.records import FlowerError, GridError, GridMessages, LostError, flower
from asyncfl.live.host import Host
from asyncfl.live.run import run_live
from asyncfl.trace import Kind

if TYPE_CHECKING:
    from flwr.app import RecordDict
    from flwr.serverapp import Grid

log = logging.getLogger("asyncfl.live")

POLL_S = 0.5

Given: TypeAlias = wire.Task | wire.Judge
Read: TypeAlias = Callable[["RecordDict"], list[bytes]]
"""Returns the client's frames in a reply."""


@dataclass(frozen=True)
class Dialect:
    """Messages to asyncfl's own ClientApp, which hold frames of the live wire. Messages to other apps override it."""

    welcome: bytes = b""
    """Frame of the welcome to all clients."""

    def query(self, **more: Any) -> dict[str, Any] | None:
        """Return the records by which a node is asked to introduce itself; None: it need not."""
        return {records.CONFIG: flower().ConfigRecord({"welcome": self.welcome, **more})}

    def introduction(self, content: RecordDict | None) -> tuple[wire.Hello, wire.Ready]:
        """Return the introduction in the reply to the query; without a name the node may be any client.

        Raises AsyncflError where there is none.
        """
        match [wire.server_decoder(0).decode(frame)[0] for frame in _frames(content)]:
            case [wire.Hello() as hello, wire.Ready() as ready]:
                return hello, ready
        raise FlowerError("its ClientApp must be asyncfl's, of the version of the server")

    def translate(self, given: Given, models: Vector, frame: bytes) -> tuple[dict[str, Any], Read]:
        """Return the records of a task or request, and what reads the reply. `frame`: that it came in."""
        return self.query(frame=frame) or {}, _frames


def _frames(content: RecordDict) -> list[bytes]:
    frames = content.config_records.get(records.CONFIG, {}).get("frames")
    return [one for one in frames if one and isinstance(one, bytes)] if isinstance(frames, list) else []


class Node:
    """A node of the grid: the client's end of one connection to the server after another (see `Connection`)."""

    def __init__(self, number: int, manager: NodeManager) -> None:
        """`number`: Flower's identifier."""
        self.number, self.peer, self._manager = number, f"node {number}", manager
        self.query: asyncio.Future[RecordDict] | None = None
        self.introduction: tuple[wire.Hello, wire.Ready] | None = None
        self.name = ""
        """Name of the client that it was last; empty: none."""
        self.session: asyncio.Task[None] | None = None
        """Its connection at the server; None: it has had none."""
        self.is_open = self.is_out = self.waits = False
        """Whether the server has let it in; whether it takes no part any more; whether the log says that it waits."""
        self.work: dict[asyncio.Future[RecordDict], int] = {}
        """Replies to its tasks and requests -> number of the task; -1: a request."""
        self._frames: asyncio.Queue[bytes] = asyncio.Queue()
        """Frames to the server; an empty one ends the connection."""

    def connect(self, hello: wire.Hello, *more: wire.Message) -> Node:
        """Begin a new connection with these messages."""
        self.name, self._frames = hello.name, asyncio.Queue()
        tasks = tuple(sorted(task for task in self.work.values() if task >= 0))
        self.say(*map(wire.encode, (replaced(hello, tasks=tasks, instance=self.peer), *more)))
        return self

    def say(self, *frames: bytes) -> None:
        """Send frames to the server."""
        for frame in frames:
            self._frames.put_nowait(frame)

    async def receive(self) -> bytes:
        if frame := await self._frames.get():
            return frame
        raise EndedError("the connection has ended")

    async def send(self, frame: bytes) -> None:
        """Do what the server says."""
        message, models = self._manager.decoder.decode(frame)
        match message:
            case wire.Welcome():
                self.is_open = True
                for reply, task in list(self.work.items()):
                    if task in message.gone:
                        reply.cancel()
            case wire.Task() | wire.Judge():
                self._manager.begin(self, message, models, frame)
            case wire.Ping():
                self.say(wire.encode(wire.Pong()))
            case wire.Refused() | wire.Over():
                self.is_out = True
                self.drop()

    async def close(self, reason: str = "") -> None:
        self.drop()

    def drop(self) -> None:
        self.is_open = False
        self.say(b"")

    def allow(self, frame_bytes: int) -> None:
        pass


class NodeManager:
    """Connects the nodes of a grid with the server of one live federation."""

    def __init__(self, host: Host, messages: GridMessages, tokens: Mapping[str, str], dialect: Dialect) -> None:
        """`tokens`: name -> token of every client."""
        self._host, self._messages, self._tokens, self._dialect = host, messages, tokens, dialect
        federation = host.live.federation
        packing = federation.resolved.scenario.download_compression
        self.decoder = wire.client_decoder(federation.learner.n_parameters, packing)
        self._nodes: dict[int, Node] = {}
        self._there: set[int] = set()
        """Nodes on the grid, as far as is known."""

    async def run(self) -> None:
        """Exchange messages until the run is over. Raises FlowerError where an app cannot take part."""
        try:
            while self._host.stopped is None:
                self._there = await self._messages.nodes()
                self._tend_nodes()
                # A node that was given a name is heard while it has a connection.
                heard = {node.number for node in self._nodes.values() if node.is_open or not node.name}
                await self._messages.exchange(self._there & heard)
                await asyncio.sleep(POLL_S)
        except GridError as error:
            # The run so far is kept.
            log.warning("%s", error)
            self._host.end(str(error)[:1000])
        await self._host.over.wait()

    def _tend_nodes(self) -> None:
        """Take the next step of each node: its introduction, then its connection, after an absence another one."""
        for number in self._there - set(self._nodes):
            self._nodes[number] = Node(number, self)
        for number, node in sorted(self._nodes.items()):
            if number not in self._there and (node.is_out or not node.name):
                del self._nodes[number]
            elif number not in self._there and node.is_open:
                log.warning("%s: is away", node.peer)
                node.drop()
            elif number in self._there and not node.is_out and (node.session is None or node.session.done()):
                if node.introduction is None:
                    self._introduce(node)
                if node.introduction is not None:
                    self._connect(node, *node.introduction)

    def _introduce(self, node: Node) -> None:
        """Query a node, or read its introduction. Raises FlowerError."""
        query = self._dialect.query()
        if query is not None and node.query is None:
            node.query = self._messages.ask(node.number, records.QUERY, query)
        if node.query is not None and not node.query.done():
            return
        try:
            node.introduction = self._dialect.introduction(node.query and node.query.result())
        except LostError:
            node.query = None
        except AsyncflError as error:
            if not self._host.clock.has_begun:
                # The run would wait for it in vain.
                raise FlowerError(f"{node.peer} cannot take part: {_one_line(error)}") from None
            log.warning("%s: cannot take part: %s", node.peer, _one_line(error))
            node.is_out = True

    def _connect(self, node: Node, hello: wire.Hello, ready: wire.Ready) -> None:
        """Connect a node as the client that it wants to be, else any, unless that has another node."""
        clients = self._host.live.clients.by_name
        others = [one for one in self._nodes.values() if one.number in self._there and one is not node]
        used = {other.name for other in others if not other.is_out}
        # The server takes a moment to see that a connection has ended.
        used |= {name for name, client in clients.items() if client.link is not None}
        names = [hello.name] if hello.name else sorted(self._tokens, key=lambda name: name != node.name)
        name = next((name for name in names if name not in used), None)
        if name is None:
            if not node.waits:
                who = f"client {hello.name} is" if hello.name else f"all {len(self._tokens)} clients are"
                log.warning("%s: %s there already, it waits", node.peer, who)
            node.waits = True
            return
        log.info("%s is client %s, %d samples", node.peer, name, hello.samples)
        client = clients.get(name)
        is_known = client is not None and client.instance == node.peer and client.is_prepared
        hello = replaced(hello, name=name, token=self._tokens.get(name, ""))
        node.session = asyncio.ensure_future(self._host.serve(node.connect(hello, *([] if is_known else [ready]))))

    def begin(self, node: Node, given: Given, models: Vector, frame: bytes) -> None:
        """Send a task or request to a node. `frame`: that it came in, with its models."""
        content, read = self._dialect.translate(given, models, frame)
        task, kind = (given.task, records.TRAIN) if isinstance(given, wire.Task) else (-1, records.SCORES)
        reply = self._messages.ask(node.number, kind, content)
        node.work[reply] = task
        reply.add_done_callback(partial(_answered, node, given, read, asyncio.get_running_loop().time()))


def _answered(node: Node, given: Given, read: Read, began_s: float, reply: asyncio.Future[RecordDict]) -> None:
    """Pass on the reply of a node."""
    del node.work[reply]
    if reply.cancelled():
        return
    fate, frames = Fate.DROPPED_OUT, list[bytes]()
    try:
        frames = read(reply.result())
        if not frames:
            raise FlowerError("its reply holds nothing")
    except LostError:
        fate = Fate.LOST_UP
    except Exception as error:
        # Whatever an app replies, the run goes on.
        log.warning("%s: its ClientApp failed (%s)", node.peer, _one_line(error))
    node.say(*frames or [_no_answer(given, reply.get_loop().time() - began_s, fate)])


def _one_line(error: Exception) -> str:
    return shortened(" ".join(str(error).split()) or type(error).__name__, 500)


def _no_answer(given: Given, took_s: float, fate: Fate) -> bytes:
    if isinstance(given, wire.Judge):
        return wire.encode(wire.Scores(given.request, None, ()))
    kind, detail = (Kind.LOST, "up") if fate is Fate.LOST_UP else (Kind.DROPPED_OUT, "app")
    return wire.encode(wire.Gone(given.task, fate.value, (wire.Noted(took_s, kind, detail=detail),)))


async def run_on_grid(
    resolved: ResolvedSeed, grid: Grid, timeout_s: float, dialect: Dialect | None = None, **options: Any
) -> SeedRun:
    """Run one seed over a grid, and return its results. `flwr stop` ends it, with the versions so far.

    The run begins when all clients of the scenario are connected. `timeout_s`: seconds after which a message without a
    reply counts as a lost upload. `dialect`: of the ClientApp; None: it is asyncfl's. `options`: of `run_live`. Raises
    ScenarioError for settings that no live federation can carry out, FlowerError where a node's app cannot take part.
    """
    tokens = {str(client): secrets.token_urlsafe(16) for client in range(resolved.scenario.data.clients)}

    async def serve(host: Host) -> None:
        spoken = dialect or Dialect(wire.encode(host.live.welcome))
        with ThreadPoolExecutor(1, "grid") as executor:
            await NodeManager(host, GridMessages(grid, timeout_s, executor), tokens, spoken).run()

    run = await run_live(resolved, Terms(), tokens, serve, here=dialect is not None, **options)
    app = "where a client is started for each message"
    if dialect is not None:
        app = "with a ClientApp of the user's own; updates are clipped by the server"
    run.notes.append(f"live: over Flower, {app}")
    return run
