"""Connections of a server: each introduces itself, is heard message by message, and shows signs of life."""

from __future__ import annotations

import asyncio
import logging
import math
from contextlib import suppress
from typing import Protocol

from asyncfl.base.errors import MessageError
from asyncfl.base.messages import Download, Vector
from asyncfl.live.live_federation import RefusedError
from asyncfl.live.remote_client import Link, RemoteClient
from asyncfl.live.transport import Connection, EndedError
from asyncfl.live.vocabulary import FromClient, Hello, Message, Over, Ping, Pong, Refused
from asyncfl.live.wire import Decoder, WireError, encode

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

    @property
    def stopped(self) -> str | None:
        """Reason why the run ended; None while it runs."""
        ...

    def connect(self, hello: Hello, link: Link) -> RemoteClient:
        """Let a client in. Raises RefusedError."""
        ...

    def disconnect(self, client: RemoteClient, link: Link) -> None:
        """Record that a client's connection has ended."""
        ...

    async def hear(self, client: RemoteClient, message: FromClient, models: Vector) -> None:
        """Handle a message. Raises MessageError and WireError for one that cannot be true."""
        ...


class Session:
    """A connection of one client: the end of its link."""

    def __init__(self, connection: Connection) -> None:
        self.connection, self.peer = connection, connection.peer
        self.outbox: asyncio.Queue[bytes] = asyncio.Queue()
        self.heard_s = asyncio.get_running_loop().time()
        """Time of the loop at which the client was heard last; inf: it waits for the server."""
        self.closing: asyncio.Task[None] | None = None

    def write(self, message: Message, models: Vector | Download | None = None) -> None:
        """See `Link`."""
        self.outbox.put_nowait(encode(message, models))

    def end(self, reason: str) -> None:
        """See `Link`."""
        self.closing = asyncio.ensure_future(self.connection.close(reason))

    async def deliver(self) -> None:
        """Send what is written, one frame after another, until the connection ends."""
        with suppress(EndedError):
            while True:
                await self.connection.send(await self.outbox.get())


class Sessions:
    """The connections of one server."""

    def __init__(self, handler: SessionHandler, decoder: Decoder[FromClient], heartbeat_s: float, clients: int) -> None:
        """`heartbeat_s`: real seconds between two signs of life; `clients`: of the federation."""
        self._handler, self._decoder, self._heartbeat_s, self._clients = handler, decoder, heartbeat_s, clients
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
        serving = asyncio.current_task()
        assert serving is not None
        # The end of the run waits for it.
        self._running.add(serving)
        serving.add_done_callback(self._running.discard)
        client: RemoteClient | None = None
        session, helpers = Session(connection), list[asyncio.Task[None]]()
        try:
            client = self._handler.connect(await self._introduced(connection), session)
            if self._handler.stopped is not None:
                await connection.send(encode(Over(self._handler.stopped[:1000])))
                return
            helpers += [asyncio.ensure_future(session.deliver()), asyncio.ensure_future(self._beat(client, session))]
            await self._listen(client, session)
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
            if client is not None:
                self._handler.disconnect(client, session)
            await connection.close()
            if session.closing is not None:
                await session.closing

    async def _introduced(self, connection: Connection) -> Hello:
        """Return the first that a connection says. Raises TimeoutError, WireError and EndedError."""
        self._strangers[id(connection)] = connection
        if len(self._strangers) > STRANGERS + self._clients:
            oldest = next(iter(self._strangers.values()))
            log.warning("%s: has not said who it is, and many others wait: dropped", oldest.peer)
            del self._strangers[id(oldest)]
            oldest.drop()
        try:
            async with asyncio.timeout(PATIENCE_S):
                message, models = self._decoder.decode(await connection.receive())
        finally:
            self._strangers.pop(id(connection), None)
        if not isinstance(message, Hello):
            raise WireError(f"a connection begins with Hello, got {type(message).__name__}")
        if len(models):
            raise WireError(f"Hello comes without models, got {len(models)}")
        return message

    async def _listen(self, client: RemoteClient, session: Session) -> None:
        """Hear messages one after another. One that cannot be true ends its connection."""
        loop = asyncio.get_running_loop()
        while True:
            message, models = self._decoder.decode(await session.connection.receive())
            session.heard_s = loop.time()
            if not isinstance(message, Pong):
                # Meanwhile nothing is read of it: it waits for us, not we for it.
                session.heard_s = math.inf
                try:
                    await self._handler.hear(client, message, models)
                finally:
                    session.heard_s = loop.time()

    async def _beat(self, client: RemoteClient, session: Session) -> None:
        loop, number = asyncio.get_running_loop(), 0
        session.heard_s = loop.time()
        while True:
            before_s = loop.time()
            await asyncio.sleep(self._heartbeat_s)
            if (slept_s := loop.time() - before_s) > 2 * self._heartbeat_s:
                # Nobody could be heard: that is no fault of theirs.
                session.heard_s = loop.time()
                if session.heard_s - self._stood_still_s > slept_s / 2:
                    log.warning("the clock of this machine jumped by %.3g s, or it stood still for so long", slept_s)
                self._stood_still_s = session.heard_s
            if loop.time() - session.heard_s > BEATS_MISSED * self._heartbeat_s:
                log.warning("client %s: no sign of life", client.name)
                await session.connection.close("no sign of life")
                return
            if session.outbox.empty():
                session.write(Ping(number))
                number += 1
