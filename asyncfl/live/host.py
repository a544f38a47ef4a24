"""The asyncio shell of a live run: connections bring messages, which are handled one after another; timers fire.

A connection introduces itself, is heard message by message, and shows signs of life. Collecting and aggregating happen
in a thread, so that connections are kept and heartbeats answered meanwhile. Messages wait in a queue of limited length;
where that is full, connections are not read, and clients wait.
"""

from __future__ import annotations

import asyncio
import logging
import math
from concurrent.futures import Executor
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from asyncfl.base.errors import AsyncflError, MessageError, RunError
from asyncfl.base.messages import Action, Download, Vector
from asyncfl.federation.action_executor import Work
from asyncfl.federation.event_order import EventOrder, Priority
from asyncfl.live.clock import LiveClock
from asyncfl.live.connection_limits import PATIENCE_S
from asyncfl.live.connections import Connection, EndedError, FrameTooLongError
from asyncfl.live.evaluations import Evaluations
from asyncfl.live.inputs import LiveInputs
from asyncfl.live.journal import Journal
from asyncfl.live.live_federation import LiveFederation, RefusedError
from asyncfl.live.remote_client import RemoteClient
from asyncfl.live.run_context import ClientLink
from asyncfl.live.saved_live import saved_live
from asyncfl.live.wire import (
    Decoder,
    FromClient,
    Hello,
    Message,
    Noted,
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
HEARTBEAT_S = 5.0
"""Real seconds between two signs of life of a client."""
GRACE_S = 15.0
"""Real seconds that clients have to be back when a server that was killed goes on."""
DETECTION = EventOrder(Priority.DETECTION)
BEATS_MISSED = 3
"""Heartbeats without a sign of life after which a connection is taken for lost."""


class _Heard(NamedTuple):
    """A message that waits to be handled."""

    client: RemoteClient
    message: FromClient
    models: Vector
    frame: bytes
    arrived_s: float
    handled: asyncio.Future[None]


class Host:
    """Drives the server's half of one seed."""

    def __init__(
        self,
        live: LiveFederation,
        clock: LiveClock,
        executor: Executor,
        evaluations: Evaluations | None = None,
        journal: Journal | None = None,
    ) -> None:
        """`executor`: where updates are collected and aggregated. `journal`: None for none."""
        self.clock, self._executor, self.evaluations = clock, executor, evaluations
        self._ending: str | None = None
        self._has_started = False
        scenario = live.federation.resolved.scenario
        self.decoder = server_decoder(live.federation.learner.n_parameters, scenario.compression)
        self.inputs = LiveInputs(live, self.decoder, journal)
        self.sessions = Sessions(self, self.decoder)
        self.serve = self.sessions.serve
        self._messages: asyncio.Queue[_Heard] = asyncio.Queue(MESSAGES_WAITING)
        self._timers: dict[int, asyncio.TimerHandle] = {}
        self._alarms_set = 0
        self._something = asyncio.Event()
        self.over = asyncio.Event()
        """Set when the run is over, and all clients have been told."""

    @property
    def live(self) -> LiveFederation:
        """The server's half."""
        return self.inputs.live

    @property
    def stopped(self) -> str | None:
        """Why the run is over; None: it is not."""
        return self.live.stopped

    async def run(self, at_least: int) -> str:
        """Wait for `at_least` clients, then run to the end. Returns why it ended."""
        while self._ending is None and sum(one.link is not None for one in self.live.clients.prepared) < at_least:
            await self._something.wait()
            self._something.clear()
            while not self._messages.empty():
                self._hear(self._messages.get_nowait())
        self.clock.begin()
        await self._save()
        await self._finish(self.inputs.begin(self.clock.now))
        # Begin is on its way to all clients before the first task is.
        await asyncio.sleep(0)
        await self._finish(self.inputs.start(self.clock.now))
        return await self._run()

    async def go_on(self, at_s: float, work: Work | None) -> str:
        """Run to the end from where an earlier process was; `work`: that it had begun. Returns why it ended."""
        self.clock.begin(at_s)
        lost = self.inputs.restart(at_s + GRACE_S * self.clock.speedup)
        log.warning("a run is taken up again: its %d clients have %g s to be back", len(lost), GRACE_S)
        # Otherwise the next tasks would go to nobody.
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACE_S):
                while self._ending is None and any(client.link is None for client in lost):
                    self._something.clear()
                    await self._something.wait()
        if self.live.clock.has_begun:
            await self._finish(work)
        else:
            await self._finish(self.inputs.begin(self.clock.now))
        if not self.live.server.validator.is_started:
            await self._finish(self.inputs.start(self.clock.now))
        version, away_s = self.live.server.version, self.live.away_s
        log.warning("the run goes on after version %d; %.1f s passed without a server", version, away_s)
        return await self._run()

    async def _run(self) -> str:
        """Run to the end."""
        self._has_started = True
        if self._ending is not None:
            self.inputs.end(self._ending)
        try:
            while self.live.stopped is None:
                await self._save()
                await self._finish(await self._next())
                if self.evaluations is not None:
                    await self.evaluations.keep_up()
        finally:
            for timer in self._timers.values():
                timer.cancel()
        self.live.say_goodbye()
        hearing = asyncio.ensure_future(self._hear_the_rest())
        await self.sessions.end()
        hearing.cancel()
        await asyncio.gather(hearing, return_exceptions=True)
        self.over.set()
        while not self._messages.empty():
            self._hear(self._messages.get_nowait())
        return str(self.live.stopped)

    def end(self, reason: str) -> None:
        """Have the run stop as soon as the current actions are carried out."""
        self._ending = reason
        if self._has_started:
            self.inputs.end(reason)
        self._something.set()

    def connect(self, hello: Hello, link: ClientLink) -> RemoteClient:
        """Let a client in on a connection. Raises RefusedError."""
        client = self.inputs.connect(hello, link, self.clock.now)
        self._something.set()
        return client

    def disconnect(self, client: RemoteClient, link: ClientLink) -> None:
        """Record that a client's connection has ended."""
        self.inputs.disconnect(client, link)
        self._something.set()

    def refuse(self, client: RemoteClient, reason: str) -> None:
        """Record that a client sent a frame that is no message."""
        self.inputs.refuse(client, reason)
        self._something.set()

    def observe(self, client: int, number: int, event: Noted) -> None:
        """See `RemoteClient.observe`, for clients in this process."""
        self.live.clock.now = self.clock.now
        self.live.observe(client, number, event)

    async def hear(self, client: RemoteClient, message: FromClient, models: Vector, frame: bytes = b"") -> None:
        """Put a message into the queue, and wait until it is handled. Raises AsyncflError as `receive` does.

        `frame`: that the message and its models were decoded from.
        """
        if self.over.is_set():
            return
        handled: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        await self._messages.put(_Heard(client, message, models, frame, self.clock.now, handled))
        self._something.set()
        await handled

    async def _next(self) -> Work | None:
        """Wait for what comes next, and carry it out."""
        while True:
            if self.live.later and self.clock.has_come(DETECTION):
                return self.inputs.later(self.clock.now)
            if self.live.later:
                # On virtual time all clients first go offline or come online that do so now.
                self.clock.at(self.clock.now, DETECTION, self._something.set)
            if not self._messages.empty():
                return self._hear(self._messages.get_nowait())
            self._something.clear()
            await self._something.wait()

    def _hear(self, heard: _Heard) -> Work | None:
        """Handle a message. Its sender learns of its error in place of the run."""
        work, error = None, None
        try:
            work = self.inputs.say(self.clock.now, *heard[:3], heard.arrived_s, heard.frame)
        except AsyncflError as refused:
            error = refused
        if not heard.handled.done():
            if error is None:
                heard.handled.set_result(None)
            else:
                heard.handled.set_exception(error)
        return work

    async def _finish(self, work: Work | None) -> None:
        """Do the work of a step, and set the timers of its alarms."""
        loop = asyncio.get_running_loop()
        while work is not None:
            answers = await loop.run_in_executor(self._executor, _without_stop_iteration, work)
            work = self.inputs.worked(self.clock.now, answers)
        for alarm in range(self._alarms_set, self.live.alarms_set):
            if alarm in self.live.alarms:
                time_s, order, _ = self.live.alarms[alarm]
                self._timers[alarm] = self.clock.at(time_s, order, partial(self._ring, alarm))
        self._alarms_set = self.live.alarms_set

    def _ring(self, alarm: int) -> None:
        del self._timers[alarm]
        self.inputs.ring(alarm)
        self._something.set()

    async def _hear_the_rest(self) -> None:
        while True:
            self._hear(await self._messages.get())

    async def _save(self) -> None:
        """Write a checkpoint if one is due."""
        journal = self.inputs.journal
        if journal is None or not journal.is_due or self.evaluations is None:
            return
        async with self.evaluations.paused:
            # Nothing else happens meanwhile: what comes later belongs to the next journal.
            try:
                content = saved_live(self.inputs, self.evaluations)
            except RunError as error:
                journal.give_up()
                log.error("%s: the run goes on in memory, and would be lost with this process", error)
            else:
                journal.checkpoint(content)


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

    def __init__(self, handler: Host, decoder: Decoder[FromClient], heartbeat_s: float = HEARTBEAT_S) -> None:
        """`heartbeat_s`: real seconds between two signs of life."""
        self._handler, self._decoder, self._heartbeat_s = handler, decoder, heartbeat_s
        self._running: set[asyncio.Task[None]] = set()

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
            connection.allow(self._decoder.frame_bytes)
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
        except FrameTooLongError as error:
            log.warning("%s: %s", connection.peer, error)
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
        async with asyncio.timeout(PATIENCE_S):
            message, models = self._decoder.decode(await connection.receive())
        if not isinstance(message, Hello):
            raise WireError(f"a connection begins with Hello, got {type(message).__name__}")
        if len(models):
            raise WireError(f"Hello comes without models, got {len(models)}")
        return message

    async def _listen(self, client: RemoteClient, session: Session) -> None:
        """Hear messages one after another. One that cannot be true ends its connection."""
        loop = asyncio.get_running_loop()
        while True:
            frame = await session.connection.receive()
            try:
                message, models = self._decoder.decode(frame)
            except WireError as error:
                self._handler.refuse(client, str(error))
                raise
            session.heard_s = loop.time()
            if not isinstance(message, Pong):
                # Meanwhile nothing is read of it: it waits for us, not we for it.
                session.heard_s = math.inf
                try:
                    await self._handler.hear(client, message, models, frame)
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
