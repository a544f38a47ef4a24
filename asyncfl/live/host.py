"""The asyncio shell of a live run: connections bring messages, which are handled one after another; timers fire.

A connection introduces itself, is heard message by message, and shows signs of life. Collecting and aggregating happen
in a thread, so that connections are kept and heartbeats answered meanwhile. Messages wait in a queue of limited length;
where that is full, connections are not read, and clients wait.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from contextlib import suppress
from functools import partial
from typing import Any

from asyncfl.base.errors import AsyncflError, MessageError
from asyncfl.base.messages import Action, Download, Vector
from asyncfl.federation.action_executor import Work
from asyncfl.live.connections import Connection, EndedError
from asyncfl.live.live_federation import LiveFederation, RefusedError
from asyncfl.live.remote_client import Handling, RemoteClient
from asyncfl.live.wire import (
    Decoder,
    FromClient,
    Hello,
    Message,
    Over,
    Ping,
    Pong,
    Refused,
    WireError,
    encode,
    server_decoder,
)

log = logging.getLogger("asyncfl.live")

MESSAGES_WAITING = 64
"""Messages that wait for the server before connections are no longer read."""
PATIENCE_S = 10.0
"""Real seconds that a new connection has to introduce itself, and clients to say goodbye."""
STRANGERS = 64
"""Connections that may be there without having said who they are, besides one of each client; the oldest of more are
dropped, so that who says it gets in."""
HEARTBEAT_S = 5.0
"""Real seconds between two signs of life of a client."""
BEATS_MISSED = 3
"""Heartbeats without a sign of life after which a connection is taken for lost."""


class Host(LiveFederation):
    """Drives the server's half of one seed."""

    def __init__(
        self,
        *given: Any,
        executor: Executor,
        keep_up: Callable[[], Awaitable[None]] | None = None,
        **options: Any,
    ) -> None:
        """`given`, `options`: of `LiveFederation`. `executor`: where updates are collected and aggregated. `keep_up`:
        waits until evaluations have caught up."""
        super().__init__(*given, **options)
        self._executor, self._keep_up = executor, keep_up
        self._ending: str | None = None
        scenario = self.federation.resolved.scenario
        self.decoder = server_decoder(self.federation.learner.n_parameters, scenario.compression)
        self.sessions = Sessions(self, self.decoder, scenario.data.clients)
        self.serve = self.sessions.serve
        self._messages: asyncio.Queue[Handling] = asyncio.Queue(MESSAGES_WAITING)
        self._timers: list[asyncio.TimerHandle] = []
        self._something = asyncio.Event()
        self.wake = self._something.set
        self.over = asyncio.Event()
        """Set when the run is over, and all clients have been told."""

    async def run(self, at_least: int) -> str:
        """Wait for `at_least` clients, then run to the end. Returns why it ended."""
        while self._ending is None and sum(one.link is not None for one in self.clients.prepared) < at_least:
            await self._something.wait()
            self._something.clear()
            while not self._messages.empty():
                # Handled, but no actions are carried out yet.
                deque(self._messages.get_nowait(), maxlen=0)
        try:
            self.clock.begin()
            await self._do(self.beginning())
            # Begin is on its way to all clients before the first task is.
            await asyncio.sleep(0)
            await self._do(self.starting())
            if self._ending is not None:
                await self._do(self.stopping(self._ending))
            while self.stopped is None:
                await self._do(await self._next())
                if self._keep_up is not None:
                    await self._keep_up()
        finally:
            for timer in self._timers:
                timer.cancel()
        self.say_goodbye()
        hearing = asyncio.ensure_future(self._hear_the_rest())
        await self.sessions.end()
        hearing.cancel()
        await asyncio.gather(hearing, return_exceptions=True)
        self.over.set()
        while not self._messages.empty():
            deque(self._messages.get_nowait(), maxlen=0)
        return str(self.stopped)

    def end(self, reason: str) -> None:
        """Have the run stop as soon as the current actions are carried out."""
        self._ending = reason
        self.handle_later(self.stopping(reason))

    async def _next(self) -> Handling:
        while True:
            if self.later:
                return self.later.popleft()
            with suppress(asyncio.QueueEmpty):
                return self._messages.get_nowait()
            self._something.clear()
            await self._something.wait()

    async def _do(self, handling: Handling) -> None:
        steps = self.carry_out(handling)
        work = next(steps, None)
        loop = asyncio.get_running_loop()
        while work is not None:
            answers = await loop.run_in_executor(self._executor, _without_stop_iteration, work)
            try:
                work = steps.send(answers)
            except StopIteration:
                break
        alarms, self.alarms = self.alarms, []
        for time_s, alarm in alarms:
            self._timers.append(self.clock.at(time_s, partial(self.handle_later, alarm)))
        self._timers = [timer for timer in self._timers if timer.when() > loop.time()] if alarms else self._timers

    async def _hear_the_rest(self) -> None:
        while True:
            deque(await self._messages.get(), maxlen=0)

    async def hear(self, client: RemoteClient, message: FromClient, models: Vector) -> None:
        """Put a message into the queue, and wait until it is handled. Raises AsyncflError as `receive` does."""
        if self.over.is_set():
            return
        handled: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        await self._messages.put(_taken_in(client.receive(message, models, self.clock.now), handled))
        self._something.set()
        await handled


def _taken_in(handling: Handling, handled: asyncio.Future[None]) -> Handling:
    """Yield a handling's actions. `handled` learns of its first step, and of its error in place of the run."""
    actions: list[Action] = []
    try:
        actions = next(handling, [])
    except AsyncflError as error:
        if not handled.done():
            handled.set_exception(error)
    finally:
        if not handled.done():
            handled.set_result(None)
    yield actions
    yield from handling


def _without_stop_iteration(work: Work) -> list[Action]:
    """Do `work`. A StopIteration becomes a RuntimeError: futures cannot hold it, and their awaiter would hang."""
    try:
        return work()
    except StopIteration as error:
        raise RuntimeError("work raised StopIteration") from error


class Session:
    """A connection of one client: the end of its link."""

    def __init__(self, connection: Connection) -> None:
        self.connection, self.peer = connection, connection.peer
        self.outbox: asyncio.Queue[bytes] = asyncio.Queue()
        self.heard_s = asyncio.get_running_loop().time()
        """Time of the loop at which the client was heard last; inf: it waits for the server."""
        self.closing: asyncio.Task[None] | None = None

    def write(self, message: Message, models: Vector | Download | None = None) -> None:
        """See `ClientLink`."""
        self.outbox.put_nowait(encode(message, models))

    def end(self, reason: str) -> None:
        """See `ClientLink`."""
        self.closing = asyncio.ensure_future(self.connection.close(reason))

    async def deliver(self) -> None:
        """Send what is written, one frame after another, until the connection ends."""
        with suppress(EndedError):
            while True:
                await self.connection.send(await self.outbox.get())


class Sessions:
    """The connections of one server."""

    def __init__(
        self, handler: Host, decoder: Decoder[FromClient], clients: int, heartbeat_s: float = HEARTBEAT_S
    ) -> None:
        """`heartbeat_s`: real seconds between two signs of life; `clients`: of the federation."""
        self._handler, self._decoder, self._heartbeat_s, self._clients = handler, decoder, heartbeat_s, clients
        self._running: set[asyncio.Task[None]] = set()
        self._strangers: dict[int, Connection] = {}

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
                client.disconnect(session)
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
        loop = asyncio.get_running_loop()
        session.heard_s = loop.time()
        while True:
            before_s = loop.time()
            await asyncio.sleep(self._heartbeat_s)
            if loop.time() - before_s > 2 * self._heartbeat_s:
                # This machine stood still, or its clock jumped: nobody could be heard.
                session.heard_s = loop.time()
            if loop.time() - session.heard_s > BEATS_MISSED * self._heartbeat_s:
                log.warning("client %s: no sign of life", client.name)
                await session.connection.close("no sign of life")
                return
            if session.outbox.empty():
                session.write(Ping())
