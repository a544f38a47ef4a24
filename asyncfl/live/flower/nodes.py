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
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec.structs import replace as replaced

from asyncfl.base.errors import AsyncflError, shortened
from asyncfl.base.messages import Fate, Vector
from asyncfl.federation.prepare import ResolvedSeed
from asyncfl.federation.seed_run import SeedRun
from asyncfl.live import wire
from asyncfl.live.clock import Terms
from asyncfl.live.connections import EndedError, Pipe
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

FromServer: TypeAlias = wire.Decoder[wire.FromServer]
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
    return [one for one in frames if isinstance(one, bytes)] if isinstance(frames, list) else []


class Node:
    """A node of the grid: the client's end of one connection to the server after another (see `Connection`)."""

    def __init__(self, number: int, begin: Callable[[Node, Given, Vector, bytes], None], decoder: FromServer) -> None:
        """`number`: Flower's identifier. `begin`: called with a task or request, its models and its frame."""
        self.number, self.peer, self._begin, self._decoder = number, f"node {number}", begin, decoder
        self.life: asyncio.Task[None]
        """Takes part for it."""
        self.name = ""
        """Name of the client that it was last; empty: none."""
        self.is_open = self.is_over = False
        """Whether the server has let it in; whether the server has refused it, or the run is over."""
        self.work: dict[asyncio.Task[None], int] = {}
        """Tasks and requests that it is at -> number of the task; -1: a request."""
        self._frames = Pipe()

    async def connect(self, hello: wire.Hello, *more: wire.Message) -> None:
        """Begin a new connection with these messages."""
        self.name, self._frames = hello.name, Pipe()
        tasks = tuple(sorted(task for task in self.work.values() if task >= 0))
        await self.say(*map(wire.encode, (replaced(hello, tasks=tasks, instance=self.peer), *more)))

    async def say(self, *frames: bytes) -> None:
        """Send frames to the server while it listens."""
        with suppress(EndedError):
            for frame in frames:
                await self._frames.put(frame)

    async def receive(self) -> bytes:
        return await self._frames.get()

    async def send(self, frame: bytes) -> None:
        """Do what the server says."""
        message, models = self._decoder.decode(frame)
        match message:
            case wire.Welcome():
                self.is_open = True
                for work, task in self.work.items():
                    if task in message.gone:
                        work.cancel()
            case wire.Task() | wire.Judge():
                self._begin(self, message, models, frame)
            case wire.Ping():
                await self.say(wire.encode(wire.Pong()))
            case wire.Refused() | wire.Over():
                self.is_over = True
                self.drop()

    async def close(self, reason: str = "") -> None:
        self.drop()

    def drop(self) -> None:
        self.is_open = False
        self._frames.end()

    def allow(self, frame_bytes: int) -> None:
        pass


class NodeManager:
    """Connects the nodes of a grid with the server of one live federation."""

    def __init__(self, host: Host, tokens: Mapping[str, str], dialect: Dialect) -> None:
        """`tokens`: name -> token of every client."""
        self._host, self._tokens, self._dialect = host, tokens, dialect
        federation = host.live.federation
        packing = federation.resolved.scenario.download_compression
        self._decoder = wire.client_decoder(federation.learner.n_parameters, packing)
        self._nodes: dict[int, Node] = {}
        self._there: set[int] = set()
        """Nodes on the grid, as far as is known."""

    async def run(self, grid: Grid, timeout_s: float) -> None:
        """Exchange messages until the run is over. Raises FlowerError where an app cannot take part.

        `timeout_s`: seconds after which a message without a reply expires.
        """
        try:
            with ThreadPoolExecutor(1, "grid") as executor:
                self._messages = GridMessages(grid, timeout_s, executor)
                async with asyncio.TaskGroup() as self._group:
                    await self._poll()
                    await self._host.over.wait()
                    for node in self._nodes.values():
                        node.life.cancel()
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None

    async def _poll(self) -> None:
        try:
            while self._host.stopped is None:
                await self._look_for_nodes()
                # A node that was given a name is heard while it has a connection.
                heard = {node.number for node in self._nodes.values() if node.is_open or not node.name}
                await self._messages.exchange(self._there & heard)
                await asyncio.sleep(POLL_S)
        except GridError as error:
            # The run so far is kept.
            log.warning("%s", error)
            self._host.end(str(error)[:1000])

    async def _look_for_nodes(self) -> None:
        self._there = await self._messages.nodes()
        for number in sorted(self._there - set(self._nodes)):
            node = self._nodes[number] = Node(number, self._begin, self._decoder)
            node.life = self._group.create_task(self._take_part(node))
        for number in set(self._nodes) - self._there:
            node = self._nodes[number]
            if node.life.done() or not node.name:
                node.life.cancel()
                del self._nodes[number]
            elif node.is_open:
                log.warning("%s: is away", node.peer)
                node.drop()

    # --- one node --------------------------------------------------------------------------------------------------

    async def _take_part(self, node: Node) -> None:
        """Take part for a node until the run is over, or it is refused."""
        try:
            hello, ready = await self._introduced(node)
            waits = False
            while not node.is_over:
                name = self._free_name(node, hello.name)
                if node.number in self._there and name:
                    log.info("%s is client %s, %d samples", node.peer, name, hello.samples)
                    client = self._host.live.clients.by_name.get(name)
                    is_known = client is not None and client.instance == node.peer and client.is_prepared
                    named = replaced(hello, name=name, token=self._tokens.get(name, ""))
                    await node.connect(named, *([] if is_known else [ready]))
                    # As a task of its own, whose end the server awaits.
                    await self._group.create_task(self._host.serve(node))
                elif not (name or waits):
                    waits, who = (
                        True,
                        f"client {hello.name} is" if hello.name else f"all {len(self._tokens)} clients are",
                    )
                    log.warning("%s: %s there already, it waits", node.peer, who)
                await asyncio.sleep(POLL_S)
        except AsyncflError as error:
            if not self._host.clock.has_begun:
                # The run would wait for it in vain.
                raise FlowerError(f"{node.peer} cannot take part: {_one_line(error)}") from None
            log.warning("%s: cannot take part: %s", node.peer, _one_line(error))
        finally:
            for work in node.work:
                work.cancel()

    async def _introduced(self, node: Node) -> tuple[wire.Hello, wire.Ready]:
        while True:
            query = self._dialect.query()
            with suppress(LostError):
                content = None if query is None else await self._messages.ask(node.number, records.QUERY, query)
                return self._dialect.introduction(content)
            await asyncio.sleep(POLL_S)

    def _free_name(self, node: Node, wanted: str) -> str:
        """Return the wanted client name, or any, that no other node on the grid has; empty: there is none."""
        used = {other.name for other in self._nodes.values() if other is not node and other.number in self._there}
        # The server takes a moment to see that a connection has ended.
        used |= {name for name, client in self._host.live.clients.by_name.items() if client.link is not None}
        names = [wanted] if wanted else sorted(self._tokens, key=lambda name: name != node.name)
        return next((name for name in names if name not in used), "")

    def _begin(self, node: Node, given: Given, models: Vector, frame: bytes) -> None:
        content, read = self._dialect.translate(given, models, frame)
        task, kind = (given.task, records.TRAIN) if isinstance(given, wire.Task) else (-1, records.SCORES)
        reply = self._messages.ask(node.number, kind, content)
        work = self._group.create_task(self._carry_out(node, given, reply, read))
        node.work[work] = task
        work.add_done_callback(node.work.pop)

    async def _carry_out(self, node: Node, given: Given, reply: asyncio.Future[RecordDict], read: Read) -> None:
        """Wait for the reply of a node, and pass it on."""
        loop, fate = asyncio.get_running_loop(), Fate.DROPPED_OUT
        began_s, frames = loop.time(), list[bytes]()
        try:
            frames = read(await reply)
            if not frames:
                raise FlowerError("its reply holds nothing")
        except LostError:
            fate = Fate.LOST_UP
        except Exception as error:
            # Whatever an app replies, the run goes on.
            log.warning("%s: its ClientApp failed (%s)", node.peer, _one_line(error))
        await node.say(*frames or [_no_answer(given, loop.time() - began_s, fate)])


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
        await NodeManager(host, tokens, spoken).run(grid, timeout_s)

    run = await run_live(resolved, Terms(), tokens, serve, here=dialect is not None, **options)
    app = "where a client is started for each message"
    if dialect is not None:
        app = "with a ClientApp of the user's own; updates are clipped by the server"
    run.notes.append(f"live: over Flower, {app}")
    return run
