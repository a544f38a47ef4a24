"""Exchange messages with the nodes of a Flower grid, from the first connected node to the end of the run.

A grid does not notify: every `poll_s` seconds waiting messages are sent and replies fetched, and every `nodes_s`
seconds the list of connected nodes is read. All calls to the grid run in one thread, one at a time.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from asyncfl.base.errors import AsyncflError, ScenarioError, shortened
from asyncfl.base.streams import unknown_seed
from asyncfl.federation.prepare import Federation
from asyncfl.federation.resolve import ResolvedSeed
from asyncfl.federation.seed_run import SeedRun
from asyncfl.live.clock import Terms
from asyncfl.live.faults import flower_faults
from asyncfl.live.flower.messages import (
    EXAMPLES,
    QUERY,
    READY,
    Failure,
    FlowerError,
    FlowerMessage,
    FlowerTransport,
    Reply,
    Value,
)
from asyncfl.live.flower.node import Node, NodeConnection, SentMessage, UpdateClipping, whole_number_of
from asyncfl.live.host import Host
from asyncfl.live.interrupts import INTERRUPTED, Interrupts
from asyncfl.live.run import Progress, Round, run_live
from asyncfl.live.transport import Connection
from asyncfl.live.vocabulary import Ready

log = logging.getLogger("asyncfl.live")

T = TypeVar("T")

GRID_ENDED = "Flower's grid answers no more"
"""Beginning of the stop reason of a run that was stopped in Flower (`flwr stop`), or whose SuperLink is gone."""


class GridError(AsyncflError):
    """The grid cannot be reached, or has ended the run."""


@dataclass(frozen=True)
class GridSettings:
    """Settings of the exchange with a grid."""

    ours: bool = True
    """Whether the nodes run asyncfl's ClientApp; otherwise the user's own, which answers `train` at least."""
    asks_samples: bool = True
    """Whether nodes are asked for their number of samples (Flower's `query`); otherwise each counts as one."""
    asks: Mapping[str, Value] = field(default_factory=dict)
    """Configuration sent with that query."""
    clips: UpdateClipping | None = None
    """Clipping of the updates of the user's own ClientApp, at the server."""
    poll_s: float = 0.2
    """Seconds between two requests for replies."""
    nodes_s: float = 2.0
    """Seconds between two readings of the list of connected nodes."""


@dataclass
class PendingNode:
    """A connected node that is not yet a client of the federation."""

    number: int
    asked: str | None = None
    """Identifier of the query sent to it; None: not sent."""
    samples: int | None = None
    """Training samples; None: not reported yet."""
    wants: str = ""
    """Client name that it asks for; empty: any."""
    told: bool = False
    """Whether the log says that it must wait for a free name."""


@dataclass
class NodeManager:
    """Connects the nodes of a grid with the server of one live federation."""

    transport: FlowerTransport
    serve: Callable[[Connection], Awaitable[None]]
    """`Host.serve`: handles a connection until it ends."""
    tokens: Mapping[str, str]
    """Name -> token of every client."""
    n_parameters: int
    settings: GridSettings = field(default_factory=GridSettings)
    stopped: Callable[[], str | None] = lambda: None
    """`Host.stopped`: returns why the run is over; None while it runs."""
    end: Callable[[str], None] = lambda reason: None
    """`Host.end`: ends the run for a reason."""
    _nodes: dict[int, Node] = field(default_factory=dict)
    _pending: dict[int, PendingNode] = field(default_factory=dict)
    _served: set[asyncio.Task[None]] = field(default_factory=set)

    async def run(self) -> None:
        """Exchange messages until the run is over. Raises FlowerError where an app cannot take part."""
        loop = asyncio.get_running_loop()
        looked_s = -self.settings.nodes_s
        try:
            with ThreadPoolExecutor(1, "grid") as executor:
                while self.stopped() is None:
                    if loop.time() - looked_s >= self.settings.nodes_s:
                        looked_s = loop.time()
                        await self._update_connections(await self._call(executor, self.transport.nodes))
                        await self._ask(executor)
                        await self._admit()
                    await self._send(executor)
                    await self._fetch(executor)
                    await asyncio.sleep(self.settings.poll_s)
        except GridError as error:
            # The run so far is kept.
            log.warning("%s", error)
            self.end(str(error)[:1000])
        finally:
            for node in self._nodes.values():
                if node.connection is not None:
                    await node.connection.close()
            while self._served:
                await asyncio.wait(self._served)

    async def _call(self, executor: ThreadPoolExecutor, do: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(executor, do)
        except FlowerError:
            raise
        except Exception as error:
            # Any other exception of a grid means that it is gone, or that the run was stopped there.
            raise GridError(f"{GRID_ENDED}: {shortened(f'{type(error).__name__}: {error}', 300)}") from error

    # --- connected nodes ----------------------------------------------------------------------------------------------

    async def _update_connections(self, connected: Collection[int]) -> None:
        for number, node in self._nodes.items():
            if node.connection is not None and number not in connected:
                log.warning("node %d: is away", number)
                await node.connection.close()
            elif node.connection is None and number in connected:
                await self._connect(node)
        for number in sorted(connected):
            if number not in self._nodes and number not in self._pending:
                samples = None if self.settings.asks_samples else 1
                self._pending[number] = PendingNode(number, samples=samples)
        for number in [one for one in self._pending if one not in connected]:
            del self._pending[number]

    async def _ask(self, executor: ThreadPoolExecutor) -> None:
        asked = [one for one in self._pending.values() if one.samples is None and one.asked is None]
        if asked:
            names = await self._call(
                executor,
                partial(self.transport.send, [FlowerMessage(one.number, QUERY, self.settings.asks) for one in asked]),
            )
            for one, name in zip(asked, names, strict=True):
                one.asked = name

    async def _admit(self) -> None:
        for one in list(self._pending.values()):
            if one.samples is None:
                continue
            name = self._place(one.wants)
            if name is None:
                if not one.told:
                    who = f"client {one.wants} is" if one.wants else f"all {len(self.tokens)} clients are"
                    log.warning("node %d: %s there already, it waits", one.number, who)
                one.told = True
                continue
            del self._pending[one.number]
            settings = self.settings
            node = Node(
                one.number, name, self.tokens[name], one.samples, self.n_parameters, settings.ours, settings.clips
            )
            # A node that had the name before was another process of the same client, and has ended.
            self._nodes = {number: other for number, other in self._nodes.items() if other.name != name}
            self._nodes[node.number] = node
            log.info("node %d is client %s, %d samples", node.number, name, node.samples)
            await self._connect(node)

    def _place(self, wants: str) -> str | None:
        """Return a client name for a new node, or None: the name it asks for, else one without a connected node."""
        there = {node.name for node in self._nodes.values() if node.connection is not None}
        known = {node.name for node in self._nodes.values()}
        if wants:
            # The node holds that client's data.
            return wants if wants in self.tokens and wants not in there else None
        free = [name for name in self.tokens if name not in known] or [
            name for name in self.tokens if name not in there
        ]
        return free[0] if free else None

    async def _connect(self, node: Node) -> None:
        node.connection = connection = NodeConnection(node)
        served = asyncio.ensure_future(self.serve(connection))
        self._served.add(served)
        served.add_done_callback(self._served.discard)
        await connection.introduce()

    # --- messages ---------------------------------------------------------------------------------------------------

    async def _send(self, executor: ThreadPoolExecutor) -> None:
        messages: list[tuple[Node, FlowerMessage, int]] = []
        for node in self._nodes.values():
            messages += [(node, message, of) for message, of in node.outgoing]
            node.outgoing = []
        if not messages:
            return
        names = await self._call(executor, partial(self.transport.send, [message for _, message, _ in messages]))
        now_s = asyncio.get_running_loop().time()
        for (node, message, of), name in zip(messages, names, strict=True):
            size = 0 if message.models is None else message.models.nbytes
            sent = SentMessage(of, message.kind, size, now_s)
            if name is not None:
                node.sent[name] = sent
            elif node.connection is not None:
                await node.connection.answer(sent, Reply("", Failure.EXPIRED, "it was not taken"), now_s)

    async def _fetch(self, executor: ThreadPoolExecutor) -> None:
        # Replies of disconnected nodes cannot be fetched; they may follow once the node is connected again.
        waiting = {name: node for node in self._nodes.values() if node.connection is not None for name in node.sent}
        asked = {one.asked: one for one in self._pending.values() if one.asked is not None}
        if not waiting and not asked:
            return
        replies = await self._call(executor, partial(self.transport.fetch, [*waiting, *asked]))
        now_s = asyncio.get_running_loop().time()
        for reply in replies:
            if (pending_node := asked.get(reply.message)) is not None:
                self._record_introduction(pending_node, reply)
                continue
            node = waiting[reply.message]
            if node.connection is None:
                continue
            if reply.failure == Failure.AWAY:
                log.warning("node %d: is away", node.number)
                await node.connection.close()
            elif (sent := node.sent.pop(reply.message, None)) is not None:
                if sent.kind == READY:
                    await self._prepared(node, reply)
                else:
                    await node.connection.answer(sent, reply, now_s)
        await self._admit()

    def _record_introduction(self, one: PendingNode, reply: Reply) -> None:
        """Record a node's answer to the query: its samples and the client name it asks for."""
        one.asked = None
        if reply.failure is not None:
            if reply.failure not in list(Failure):
                raise FlowerError(
                    f"node {one.number} cannot say who it is: {shortened(' '.join(reply.reason.split()), 500)}"
                )
            return
        samples = whole_number_of(reply.metrics, EXAMPLES)
        if not samples:
            told = shortened(reply.metrics.get(EXAMPLES), 100)
            raise FlowerError(
                f"node {one.number} must answer a query with metric {EXAMPLES}, a whole number >= 1, got {told}"
            )
        one.samples = samples
        one.wants = str(reply.config.get("name", ""))

    async def _prepared(self, node: Node, reply: Reply) -> None:
        if reply.failure is not None and reply.failure not in list(Failure):
            raise FlowerError(f"node {node.number} cannot take part: {shortened(' '.join(reply.reason.split()), 500)}")
        if reply.failure is not None:
            # Ask again.
            node.write(READY, -1, {})
        elif node.connection is not None:
            await node.connection.say(Ready(True, str(reply.config.get("spent", ""))[:1000] or None))


def grid_round(
    transport: FlowerTransport,
    tokens: Mapping[str, str],
    n_parameters: int,
    settings: GridSettings,
    interrupts: Interrupts | None = None,
) -> Round:
    """Return the function that serves one seed over a grid. `interrupts`: of several seeds; None: of this one alone."""

    async def serve_nodes(host: Host) -> None:
        manager = NodeManager(transport, host.serve, tokens, n_parameters, settings, lambda: host.stopped, host.end)
        with ExitStack() as stack:
            requested = interrupts or stack.enter_context(Interrupts())
            stack.enter_context(requested.ending(partial(host.end, INTERRUPTED)))
            await manager.run()

    return serve_nodes


def client_tokens(clients: int) -> dict[str, str]:
    """Draw a secret token for each client name, 0..clients-1."""
    return {str(client): secrets.token_urlsafe(16) for client in range(clients)}


async def run_on_grid(
    resolved: ResolvedSeed,
    transport: FlowerTransport,
    *,
    progress: Progress | None = None,
    settings: GridSettings | None = None,
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
    asks: dict[str, Value] = {"scenario": scenario.to_yaml(), "seed": resolved.seed}
    using = settings or GridSettings(asks=asks)
    tokens = client_tokens(scenario.data.clients)

    def around(federation: Federation) -> Round:
        return grid_round(transport, tokens, federation.learner.n_parameters, using, interrupts)

    run = await run_live(resolved, Terms(), tokens, around, secret=unknown_seed(), here=False, progress=progress)
    run.notes.append("live: over Flower, where a client is started for each message")
    return run
