"""Connections of a server: who is let in, what it says, and whether it is still there."""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from msgspec.structs import replace as replaced

from asyncfl.base.errors import MessageError
from asyncfl.base.messages import Action, Vector
from asyncfl.federation.prepare import Federation
from asyncfl.live.clock import LiveClock, Terms
from asyncfl.live.members import Member, Members, RefusedError, deliver
from asyncfl.live.transport import Connection, EndedError
from asyncfl.live.vocabulary import FromClient, Hello, Over, Ping, Pong, Refused, Welcome
from asyncfl.live.wire import Decoder, WireError, encode, server_decoder
from asyncfl.server import Server

log = logging.getLogger("asyncfl.live")

PATIENCE_S = 10.0
"""Real seconds that a new connection has to introduce itself, and clients to say goodbye."""
STRANGERS = 64
"""Connections that may be there without having said who they are, besides one of each client; the oldest of more are
dropped, so that who says it gets in."""
BEATS_MISSED = 3
"""Heartbeats without a sign of life after which a connection is taken for lost."""


class SessionHandler(Protocol):
    """The server's half of a live federation, as far as connections need it."""

    stopped: str | None
    clock: LiveClock
    server: Server

    def tell(self, step: Callable[[], list[Action]]) -> None:
        """Have something happen before messages that wait."""
        ...

    async def hear(self, member: Member, message: FromClient, models: Vector) -> None:
        """Handle a message. Raises AsyncflError for one that cannot be true."""
        ...

    def disconnected(self, member: Member) -> list[Action]:
        """Handle that the client's connection has ended."""
        ...

    def left(self, member: Member) -> list[Action]:
        """Handle that the client takes part no longer."""
        ...

    def returned(self, member: Member, hello: Hello) -> list[Action]:
        """Handle that the client is connected again."""
        ...


def welcome_of(federation: Federation, members: Members, terms: Terms) -> Welcome:
    """The welcome of every client, without its own number, time and tasks."""
    return Welcome(
        client=0,
        run=secrets.token_hex(8),
        scenario=federation.resolved.scenario.to_yaml(),
        seed=federation.resolved.seed,
        clients=members.clients,
        smallest_samples=federation.path.context.smallest_samples,
        exposures=federation.resolved.exposures,
        shape=terms.shape,
        speedup=terms.speedup,
        now_s=-1.0,
        heartbeat_s=terms.heartbeat_s,
        gone=(),
    )


class Sessions:
    """The connections of one server."""

    def __init__(self, handler: SessionHandler, members: Members, welcome: Welcome) -> None:
        """`welcome`: see `welcome_of`."""
        self._handler, self._members, self._welcome = handler, members, welcome
        self._decoder: Decoder[FromClient] = server_decoder(members.n_parameters, members.packing)
        self._running: set[asyncio.Task[None]] = set()
        self._strangers: dict[int, Connection] = {}
        self._stood_still_s = -math.inf

    async def end(self) -> None:
        """Wait until all connections have ended, and end those that do not."""
        if self._running:
            _, late = await asyncio.wait(self._running, timeout=PATIENCE_S)
            for connection in late:
                connection.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    async def serve(self, connection: Connection) -> None:
        """Take care of a connection until it ends."""
        self._keep(asyncio.current_task())
        member: Member | None = None
        helpers: list[asyncio.Task[None]] = []
        try:
            said, models = await self._introduced(connection)
            if not isinstance(said, Hello):
                raise WireError(f"a connection begins with Hello, got {type(said).__name__}")
            if len(models):
                raise WireError(f"Hello comes without models, got {len(models)}")
            member = self._let_in(said, connection)
            if self._handler.stopped is not None:
                await connection.send(encode(Over(self._handler.stopped[:1000])))
                return
            helpers = [
                asyncio.ensure_future(deliver(member, connection)),
                asyncio.ensure_future(self._beat(member, connection)),
            ]
            await self._listen(member, connection)
        except (WireError, RefusedError, MessageError) as error:
            log.warning("%s: %s", connection.peer, error)
            with suppress(EndedError):
                await connection.send(encode(Refused(str(error)[:1000])))
        except TimeoutError:
            log.warning("%s: said nothing for %g s", connection.peer, PATIENCE_S)
        except EndedError:
            pass
        finally:
            for helper in helpers:
                helper.cancel()
            await asyncio.gather(*helpers, return_exceptions=True)
            if member is not None and member.connection is connection:
                member.connection = None
                member.online = False
                self._handler.tell(lambda: self._handler.disconnected(member))
            await connection.close()

    async def _introduced(self, connection: Connection) -> tuple[FromClient, Vector]:
        """The first that a connection says. Raises TimeoutError, WireError and EndedError."""
        self._strangers[id(connection)] = connection
        if len(self._strangers) > STRANGERS + self._members.clients:
            oldest = next(iter(self._strangers.values()))
            log.warning("%s: has not said who it is, and many others wait: dropped", oldest.peer)
            del self._strangers[id(oldest)]
            oldest.drop()
        try:
            async with asyncio.timeout(PATIENCE_S):
                return self._decoder.decode(await connection.receive())
        finally:
            self._strangers.pop(id(connection), None)

    def _keep(self, task: asyncio.Task[None] | None) -> None:
        """Have the end of the run wait for this."""
        if task is not None:
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def _listen(self, member: Member, connection: Connection) -> None:
        loop = asyncio.get_running_loop()
        while True:
            said, models = self._decoder.decode(await connection.receive())
            member.heard_s = loop.time()
            if isinstance(said, Pong):
                continue
            # One after another; a message that cannot be true ends its connection. Meanwhile nothing is read of it: it
            # waits for us, not we for it.
            member.heard_s = math.inf
            try:
                await self._handler.hear(member, said, models)
            finally:
                member.heard_s = loop.time()

    async def _beat(self, member: Member, connection: Connection) -> None:
        loop, number = asyncio.get_running_loop(), 0
        member.heard_s = loop.time()
        while True:
            before_s = loop.time()
            await asyncio.sleep(self._welcome.heartbeat_s)
            if (slept_s := loop.time() - before_s) > 2 * self._welcome.heartbeat_s:
                # Nobody could be heard: that is no fault of theirs.
                member.heard_s = loop.time()
                self._tell_of_sleep(slept_s)
            if loop.time() - member.heard_s > BEATS_MISSED * self._welcome.heartbeat_s:
                log.warning("client %s: no sign of life", member.name)
                await connection.close("no sign of life")
                return
            if member.outbox.empty():
                member.say(Ping(number))
                number += 1

    def _tell_of_sleep(self, slept_s: float) -> None:
        now_s = asyncio.get_running_loop().time()
        if now_s - self._stood_still_s > slept_s / 2:
            log.warning("the clock of this machine jumped by %.3g s, or it stood still for so long", slept_s)
        self._stood_still_s = now_s

    def _let_in(self, hello: Hello, connection: Connection) -> Member:
        admitted = self._members.admit(hello, connection)
        member = admitted.member
        if admitted.before is not None:
            self._keep(asyncio.ensure_future(admitted.before.close("the client is back")))
        waiting = self._handler.server.tasks.unanswered_of(member.number)
        now_s = self._handler.clock.now if self._handler.clock.has_begun else -1.0
        gone = tuple(task for task in hello.tasks if task not in waiting)
        member.say(replaced(self._welcome, client=member.number, now_s=now_s, gone=gone))
        if admitted.new:
            log.info("client %s is number %d, with %d samples", member.name, member.number, member.samples)
            if member.ready:
                # Another process had its name: what that was at comes to nothing.
                member.ready = member.online = False
                self._handler.tell(lambda: self._handler.left(member))
        elif member.ready:
            member.online = True
            self._handler.tell(lambda: self._handler.returned(member, hello))
        return member
