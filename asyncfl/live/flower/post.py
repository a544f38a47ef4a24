"""Carries letters between the server and the nodes of a grid, from the first node to the end of the run.

A grid is asked, never heard from: every `poll_s` what waits is sent and what has been answered is fetched, every
`nodes_s` it is looked who is connected. The grid is called in a thread, one call at a time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from asyncfl.base.errors import AsyncflError, shortened
from asyncfl.live.flower.letters import (
    EXAMPLES,
    QUERY,
    READY,
    Failure,
    FlowerError,
    Letter,
    Mail,
    Reply,
    Value,
)
from asyncfl.live.flower.node import Clips, Node, NodeConnection, SentLetter, whole_number_of
from asyncfl.live.transport import Connection
from asyncfl.live.vocabulary import Ready

log = logging.getLogger("asyncfl.live")

T = TypeVar("T")

GRID_ENDED = "Flower's grid answers no more"
"""Beginning of the reason why a run is over that was stopped in Flower (`flwr stop`), or whose SuperLink is gone."""


class GridError(AsyncflError):
    """The grid is gone, or will have no more to do with the run."""


@dataclass(frozen=True)
class Habits:
    """How a grid is used."""

    ours: bool = True
    """Whether the nodes run our ClientApp; else somebody's own, which knows `train` at least."""
    asks_samples: bool = True
    """Whether nodes are asked how many samples they have (Flower's `query`); else all have one."""
    asks: Mapping[str, Value] = field(default_factory=dict)
    """What they are told then."""
    clips: Clips | None = None
    """What is done to the updates of somebody's own ClientApp."""
    poll_s: float = 0.2
    """Seconds between two looks for answers."""
    nodes_s: float = 2.0
    """Seconds between two looks at who is connected."""


@dataclass
class Newcomer:
    """A node that has not been let in."""

    number: int
    asked: str | None = None
    """Name of the letter that asks who it is; None: it must be asked."""
    samples: int | None = None
    """None: not told yet."""
    wants: str = ""
    """Name that it would like to have."""
    told: bool = False
    """Whether it was said that there is no place for it."""


@dataclass
class Post:
    """The grid's side of one live federation."""

    mail: Mail
    serve: Callable[[Connection], Awaitable[None]]
    """Takes care of a connection: `Host.serve`."""
    tokens: Mapping[str, str]
    """Name -> token of the clients that there can be."""
    n_parameters: int
    habits: Habits = field(default_factory=Habits)
    stopped: Callable[[], str | None] = lambda: None
    """Why the run is over; None: it is not. `Host.stopped`."""
    end: Callable[[str], None] = lambda reason: None
    """Ends the run, for this reason: `Host.end`."""
    _nodes: dict[int, Node] = field(default_factory=dict)
    _newcomers: dict[int, Newcomer] = field(default_factory=dict)
    _served: set[asyncio.Task[None]] = field(default_factory=set)

    async def run(self) -> None:
        """Carry letters until the run is over. Raises FlowerError where an app cannot take part."""
        loop = asyncio.get_running_loop()
        looked_s = -self.habits.nodes_s
        try:
            with ThreadPoolExecutor(1, "grid") as executor:
                while self.stopped() is None:
                    if loop.time() - looked_s >= self.habits.nodes_s:
                        looked_s = loop.time()
                        await self._look_who_is_there(await self._call(executor, self.mail.nodes))
                        await self._ask(executor)
                        await self._let_in()
                    await self._send(executor)
                    await self._fetch(executor)
                    await asyncio.sleep(self.habits.poll_s)
        except GridError as error:
            # What was done is kept.
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
            # Whatever a grid raises: it is gone, or the run was stopped there.
            raise GridError(f"{GRID_ENDED}: {shortened(f'{type(error).__name__}: {error}', 300)}") from error

    # --- who is there ----------------------------------------------------------------------------------------------

    async def _look_who_is_there(self, connected: Collection[int]) -> None:
        for number, node in self._nodes.items():
            if node.connection is not None and number not in connected:
                log.warning("node %d: is away", number)
                await node.connection.close()
            elif node.connection is None and number in connected:
                await self._connect(node)
        for number in sorted(connected):
            if number not in self._nodes and number not in self._newcomers:
                samples = None if self.habits.asks_samples else 1
                self._newcomers[number] = Newcomer(number, samples=samples)
        for number in [one for one in self._newcomers if one not in connected]:
            del self._newcomers[number]

    async def _ask(self, executor: ThreadPoolExecutor) -> None:
        asked = [one for one in self._newcomers.values() if one.samples is None and one.asked is None]
        if asked:
            names = await self._call(
                executor, partial(self.mail.send, [Letter(one.number, QUERY, self.habits.asks) for one in asked])
            )
            for one, name in zip(asked, names, strict=True):
                one.asked = name

    async def _let_in(self) -> None:
        for one in list(self._newcomers.values()):
            if one.samples is None:
                continue
            name = self._place(one.wants)
            if name is None:
                if not one.told:
                    who = f"client {one.wants} is" if one.wants else f"all {len(self.tokens)} clients are"
                    log.warning("node %d: %s there already, it waits", one.number, who)
                one.told = True
                continue
            del self._newcomers[one.number]
            habits = self.habits
            node = Node(one.number, name, self.tokens[name], one.samples, self.n_parameters, habits.ours, habits.clips)
            # Whoever had the name before is another process of the same client, and gone.
            self._nodes = {number: other for number, other in self._nodes.items() if other.name != name}
            self._nodes[node.number] = node
            log.info("node %d is client %s, %d samples", node.number, name, node.samples)
            await self._connect(node)

    def _place(self, wants: str) -> str | None:
        """A name for a new node: the one it wants; else one that nobody has, or whose node is away."""
        there = {node.name for node in self._nodes.values() if node.connection is not None}
        known = {node.name for node in self._nodes.values()}
        if wants:
            # Its data are that client's: it can be no other.
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

    # --- letters ---------------------------------------------------------------------------------------------------

    async def _send(self, executor: ThreadPoolExecutor) -> None:
        letters: list[tuple[Node, Letter, int]] = []
        for node in self._nodes.values():
            letters += [(node, letter, of) for letter, of in node.outgoing]
            node.outgoing = []
        if not letters:
            return
        names = await self._call(executor, partial(self.mail.send, [letter for _, letter, _ in letters]))
        now_s = asyncio.get_running_loop().time()
        for (node, letter, of), name in zip(letters, names, strict=True):
            size = 0 if letter.models is None else letter.models.nbytes
            sent = SentLetter(of, letter.kind, size, now_s)
            if name is not None:
                node.sent[name] = sent
            elif node.connection is not None:
                await node.connection.answer(sent, Reply("", Failure.EXPIRED, "it was not taken"), now_s)

    async def _fetch(self, executor: ThreadPoolExecutor) -> None:
        # Of those who are away nothing can be fetched; they may come back with it.
        waiting = {name: node for node in self._nodes.values() if node.connection is not None for name in node.sent}
        asked = {one.asked: one for one in self._newcomers.values() if one.asked is not None}
        if not waiting and not asked:
            return
        replies = await self._call(executor, partial(self.mail.fetch, [*waiting, *asked]))
        now_s = asyncio.get_running_loop().time()
        for reply in replies:
            if (newcomer := asked.get(reply.letter)) is not None:
                self._told(newcomer, reply)
                continue
            node = waiting[reply.letter]
            if node.connection is None:
                continue
            if reply.failure == Failure.AWAY:
                log.warning("node %d: is away", node.number)
                await node.connection.close()
            elif (sent := node.sent.pop(reply.letter, None)) is not None:
                if sent.kind == READY:
                    await self._prepared(node, reply)
                else:
                    await node.connection.answer(sent, reply, now_s)
        await self._let_in()

    def _told(self, one: Newcomer, reply: Reply) -> None:
        """A node has said who it is."""
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
            # It is asked once more.
            node.write(READY, -1, {})
        elif node.connection is not None:
            await node.connection.say(Ready(True, str(reply.config.get("spent", ""))[:1000] or None))
