"""The nodes of a Flower grid as clients of a live server.

Flower starts a process for each message, which ends with its reply: a node has no connection to the server. So its side
of the conversation is here. While a node is on the grid it has a connection within this process, over which the server
hears it, checks what it says, and refuses it.

    from the server      to the node    from the node                         to the server
    Task                 train          frames, or a model                    Update, Gone
                                        an error of the app, or nothing       Gone, dropped_out
                                        no reply before the message expires   Gone, lost_up
                                        the node is not on the grid           (the connection ends)
    ClientScoreRequest   query.scores   frames, or scores                     Scores
                                        any error, or nothing                 Scores, none

A grid does not notify: every `POLL_S` seconds the list of nodes is read, messages are sent, and replies fetched.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec.structs import replace as replaced

from asyncfl.base.arrays import Vector
from asyncfl.base.errors import AsyncflError, MessageError, shortened
from asyncfl.extras.live.client_messages import (
    ClientEvent,
    ClientScoreRequest,
    FromClient,
    FromServer,
    Gone,
    Hello,
    Scores,
    Task,
    Update,
    Welcome,
)
from asyncfl.extras.live.clock import LiveTiming
from asyncfl.extras.live.flower import records
from asyncfl.extras.live.flower.frames import HELLOS, Decoder, answer_decoder, encode
from asyncfl.extras.live.flower.records import FlowerError, GridError, GridMessages, GridThread, LostError, flower
from asyncfl.extras.live.host import NO_MODELS, Connection, Host
from asyncfl.extras.live.live_run import run_live
from asyncfl.protocol.events import Kind
from asyncfl.protocol.messages import Download, Fate, Stop
from asyncfl.simulation.prepare import ResolvedSeed
from asyncfl.simulation.seed_run import SeedRun

if TYPE_CHECKING:
    from flwr.app import RecordDict
    from flwr.serverapp import Grid

log = logging.getLogger("asyncfl.extras.live")

POLL_S = 0.5
LAST_CALL_S = 5.0
"""Seconds that a call to the grid has left once the run is over."""

Given: TypeAlias = Task | ClientScoreRequest
Answers: TypeAlias = list[tuple[FromClient, Vector]]
"""Messages of a client, each with the models (rows, columns) that come with it."""
Read: TypeAlias = Callable[["RecordDict"], Answers]
"""Returns the client's messages in a reply. Raises MessageError for what cannot be a message."""


@dataclass(frozen=True)
class Dialect:
    """Messages to asyncfl's own ClientApp, which hold frames. Messages to other apps override it."""

    welcome: bytes = b""
    """Frame of the welcome to all clients."""
    decoder: Decoder[FromClient] | None = None
    """Reads the answers of asyncfl's own ClientApp."""

    @classmethod
    def of(cls, resolved: ResolvedSeed, n_parameters: int) -> Dialect:
        """Return the messages of a seed with models of `n_parameters`."""
        scenario = resolved.scenario
        welcome = Welcome(scenario.to_yaml(), resolved.seed, resolved.exposures)
        return cls(encode(welcome), answer_decoder(n_parameters, scenario.compression, scenario.payloads.uploads))

    def query(self, **more: Any) -> dict[str, Any] | None:
        """Return the records by which a node is asked to introduce itself; None: it need not."""
        return {records.CONFIG: flower().ConfigRecord({"welcome": self.welcome, **more})}

    def introduction(self, content: RecordDict | None) -> Hello:
        """Return the introduction in the reply to the query. Raises AsyncflError where there is none."""
        match [HELLOS.decode(frame)[0] for frame in _frames(content)]:
            case [hello]:
                return hello
        raise FlowerError("its ClientApp must be asyncfl's, of the version of the server")

    def translate(self, given: Given, models: Vector | Download) -> tuple[dict[str, Any], Read]:
        """Return the records of a task or request, and what reads the reply."""
        return self.query(frame=encode(given, models)) or {}, self._answers

    def _answers(self, content: RecordDict) -> Answers:
        assert self.decoder is not None
        return [self.decoder.decode(frame) for frame in _frames(content)]


def _frames(content: RecordDict | None) -> list[bytes]:
    frames = content and content.config_records.get(records.CONFIG, {}).get("frames")
    return [one for one in frames if one and isinstance(one, bytes)] if isinstance(frames, list) else []


class Node:
    """A node of the grid: the client's end of one connection to the server after another."""

    def __init__(self, number: int, manager: NodeManager) -> None:
        """`number`: Flower's identifier."""
        self.number, self.name, self._manager = number, f"node {number}", manager
        self.query: asyncio.Future[RecordDict] | None = None
        self.introduction: Hello | None = None
        self.client = -1
        """Number of the client that it was last; -1: none."""
        self.connection: Connection | None = None
        """None: it has none now."""
        self.is_out = self.waits = False
        """Whether it takes no part any more; whether the log says that it waits."""
        self.work: dict[asyncio.Future[RecordDict], int] = {}
        """Replies to its tasks and requests -> number of the task; -1: a request."""

    def connect(self, host: Host, client: int, hello: Hello) -> None:
        """Begin a new connection as this client."""
        self.client = client
        tasks = tuple(sorted(task for task in self.work.values() if task >= 0))
        hello = replaced(hello, client=client, online=True, tasks=tasks, instance=self.name)
        self.connection = host.connect(hello, self)
        for reply, task in list(self.work.items()):
            if task >= 0 and task not in host.live.tasks.unanswered_of(client):
                reply.cancel()

    def receive(self, message: FromServer, models: Vector | Download | None) -> None:
        """See `ClientEnd`."""
        if isinstance(message, Task | ClientScoreRequest):
            assert models is not None
            self._manager.begin(self, message, models)
        elif isinstance(message, Stop):
            self.is_out = True
            self.disconnect()

    def refused(self, reason: str) -> None:
        """See `ClientEnd`."""
        log.warning("%s: %s", self.name, reason)
        self.is_out, self.connection = True, None

    def disconnect(self) -> None:
        """End the connection."""
        if self.connection is not None:
            self.connection.close()
            self.connection = None


class NodeManager:
    """Connects the nodes of a grid with the server of one live federation."""

    def __init__(self, host: Host, messages: GridMessages, dialect: Dialect) -> None:
        self._host, self._messages, self._dialect = host, messages, dialect
        self._clients = len(host.live.server.samples)
        self._nodes: dict[int, Node] = {}
        self._there: set[int] = set()
        """Nodes on the grid, as far as is known."""

    async def run(self) -> None:
        """Exchange messages until the run is over. Raises FlowerError where an app cannot take part."""
        exchanging, over = asyncio.ensure_future(self._exchange()), asyncio.ensure_future(self._host.over.wait())
        try:
            await asyncio.wait([exchanging, over], return_when=asyncio.FIRST_COMPLETED)
            if exchanging.done():
                await exchanging
            await over
            # A call to a grid that is gone may never return.
            await asyncio.wait([exchanging], timeout=LAST_CALL_S)
        finally:
            exchanging.cancel()
            over.cancel()
            await asyncio.gather(exchanging, over, return_exceptions=True)

    async def _exchange(self) -> None:
        try:
            while self._host.stopped is None:
                self._there = await self._messages.nodes()
                self._tend_nodes()
                # A node that was a client is heard while it has a connection.
                heard = {node.number for node in self._nodes.values() if node.connection is not None or node.client < 0}
                await self._messages.exchange(self._there & heard)
                await asyncio.sleep(POLL_S)
        except GridError as error:
            # The run so far is kept.
            log.warning("%s", error)
            self._host.end(str(error)[:1000])

    def _tend_nodes(self) -> None:
        """Take the next step of each node: its introduction, then its connection, after an absence another one."""
        for number in self._there - set(self._nodes):
            self._nodes[number] = Node(number, self)
        for number, node in sorted(self._nodes.items()):
            if number not in self._there and (node.is_out or node.client < 0):
                del self._nodes[number]
            elif number not in self._there and node.connection is not None:
                log.warning("%s: is away", node.name)
                node.disconnect()
            elif number in self._there and not node.is_out and node.connection is None:
                if node.introduction is None:
                    self._introduce(node)
                if node.introduction is not None:
                    self._connect(node, node.introduction)

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
                raise FlowerError(f"{node.name} cannot take part: {_one_line(error)}") from None
            log.warning("%s: cannot take part: %s", node.name, _one_line(error))
            node.is_out = True

    def _connect(self, node: Node, hello: Hello) -> None:
        """Connect a node as the client that it wants to be, else any, unless that has another node."""
        others = [one for one in self._nodes.values() if one.number in self._there and one is not node]
        used = {other.client for other in others if not other.is_out}
        # The server takes a moment to see that a connection has ended.
        used |= {number for number, client in self._host.live.clients.items() if client.link is not None}
        wanted = (
            [hello.client] if hello.client >= 0 else sorted(range(self._clients), key=lambda one: one != node.client)
        )
        client = next((one for one in wanted if one not in used), None)
        if client is None:
            if not node.waits:
                who = f"client {hello.client} is" if hello.client >= 0 else f"all {self._clients} clients are"
                log.warning("%s: %s there already, it waits", node.name, who)
            node.waits = True
            return
        log.info("%s is client %d, %d samples", node.name, client, hello.samples)
        node.connect(self._host, client, hello)

    def begin(self, node: Node, given: Given, models: Vector | Download) -> None:
        """Send a task or request to a node."""
        content, read = self._dialect.translate(given, models)
        task, kind = (given.task, records.TRAIN) if isinstance(given, Task) else (-1, records.SCORES)
        reply = self._messages.ask(node.number, kind, content)
        node.work[reply] = task
        reply.add_done_callback(partial(_answered, node, given, read, asyncio.get_running_loop().time()))


def _answered(node: Node, given: Given, read: Read, began_s: float, reply: asyncio.Future[RecordDict]) -> None:
    """Pass on the reply of a node."""
    del node.work[reply]
    if reply.cancelled() or node.connection is None:
        return
    fate, answers = Fate.DROPPED_OUT, Answers()
    try:
        answers = read(reply.result())
        if not any(isinstance(message, Update | Gone | Scores) for message, _ in answers):
            answers = Answers()
            raise FlowerError("its reply holds no answer")
    except LostError:
        fate = Fate.LOST_UP
    except MessageError as error:
        node.connection.refuse(str(error))
    except Exception as error:
        # Whatever an app replies, the run goes on.
        log.warning("%s: its ClientApp failed (%s)", node.name, _one_line(error))
    if node.connection is not None:
        for message, models in answers or [(_no_answer(given, reply.get_loop().time() - began_s, fate), NO_MODELS)]:
            node.connection.say(message, models)


def _one_line(error: Exception) -> str:
    return shortened(" ".join(str(error).split()) or type(error).__name__, 500)


def _no_answer(given: Given, took_s: float, fate: Fate) -> FromClient:
    if isinstance(given, ClientScoreRequest):
        return Scores(given.request, None, ())
    kind, detail = (Kind.LOST, "up") if fate is Fate.LOST_UP else (Kind.DROPPED_OUT, "app")
    return Gone(given.task, fate, (ClientEvent(took_s, kind, detail=detail),))


async def run_on_grid(
    resolved: ResolvedSeed, grid: Grid, timeout_s: float, dialect: Dialect | None = None, **options: Any
) -> SeedRun:
    """Run one seed over a grid, and return its results. `flwr stop` ends it, with the versions so far.

    The run begins when all clients of the scenario are connected. `timeout_s`: seconds after which a message without a
    reply counts as a lost upload. `dialect`: of the ClientApp; None: it is asyncfl's. `options`: of `run_live`. Raises
    ScenarioError for settings that no live federation can carry out, FlowerError where a node's app cannot take part.
    """

    async def nodes(host: Host) -> None:
        spoken = dialect or Dialect.of(resolved, host.live.federation.learner.n_parameters)
        with GridThread() as executor:
            await NodeManager(host, GridMessages(grid, timeout_s, executor), spoken).run()

    run = await run_live(resolved, LiveTiming(), nodes, here=dialect is not None, **options)
    app = "where a client is started for each message"
    if dialect is not None:
        app = "with a ClientApp of the user's own; updates are clipped by the server"
    run.notes.append(f"live: over Flower, {app}")
    return run
