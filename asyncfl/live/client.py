"""The client's half: it introduces itself, carries out what it is given, and comes back when its connection is lost.

A task goes on while there is no connection, and its update is sent when there is one again: the server says then
whether it still waits for it. With a shape, the client waits as devices and links of the scenario's world say, loses
what they lose, and is away while it is offline there; what it was at then is given up.
"""

from __future__ import annotations

import asyncio
import math
import secrets
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from asyncfl.base.messages import Download, Vector
from asyncfl.live import wire
from asyncfl.live.clock import LiveClock
from asyncfl.live.connections import Connect, Connection, EndedError
from asyncfl.live.task_runner import Activity, ClientSetup, RepeatedError, TaskRunner
from asyncfl.live.wire import Decoder, WireError, client_decoder, encode
from asyncfl.trace import Kind
from asyncfl.world import WorldState

LEFT = "left"
"""Why it is over for a client that takes part no longer."""
RETRY_S = (0.1, 5.0)
"""Real seconds between two attempts to connect: at first, and at most."""


class LiveClient:
    """One client of a federation."""

    def __init__(
        self,
        name: str,
        token: str,
        connect: Connect,
        prepare: Callable[[wire.Welcome], ClientSetup],
        *,
        samples: int,
        patience_s: float = math.inf,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        """`prepare`: sets the client up when it is let in for the first time.

        `patience_s`: real seconds without a server after which it gives up. `tell`: is told what happens, in sentences.
        """
        self.name, self.token, self.samples = name, token, samples
        self.over: str | None = None
        """Why the run is over, for this client at least; None: it is not."""
        self.ended_well = False
        """Whether the server has said that the run is over, or the client has left."""
        self._connect, self._prepare = connect, prepare
        self._patience_s = patience_s
        self._tell = tell or (lambda _: None)
        self._instance = secrets.token_hex(8)
        self._run = ""
        self._failure: BaseException | None = None
        self._decoder: Decoder[wire.FromServer] = client_decoder(0)
        self._connection: Connection | None = None
        self._connected, self._online = asyncio.Event(), asyncio.Event()
        self._online.set()
        self._setup: ClientSetup | None = None
        self._runner: TaskRunner | None = None
        self._is_ready = False
        """Whether it has told the server that it is prepared."""
        self._clock = LiveClock()
        self._activities: dict[int, Activity] = {}
        self._presence: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None

    # --- connections -----------------------------------------------------------------------------------------------

    async def run(self) -> str:
        """Take part until the run is over. Returns why it is over, or why the server refuses the client.

        Raises UntrustedError, and the error of a failed training.
        """
        loop, wait_s = asyncio.get_running_loop(), RETRY_S[0]
        missing_since_s: float | None = None
        try:
            while self.over is None:
                await self._online.wait()
                try:
                    connection = await self._connect()
                except EndedError as error:
                    if missing_since_s is None:
                        missing_since_s = loop.time()
                        self._tell(f"{error}; trying again")
                    if loop.time() - missing_since_s >= self._patience_s:
                        self.over = f"{error}; it was tried for {self._patience_s:g} s"
                        break
                    await asyncio.sleep(wait_s)
                    wait_s = min(2 * wait_s, RETRY_S[1])
                    continue
                missing_since_s, wait_s = None, RETRY_S[0]
                try:
                    await self._converse(connection)
                except EndedError as error:
                    if self._online.is_set() and self.over is None:
                        self._tell(str(error))
                        await asyncio.sleep(wait_s)
                except WireError as error:
                    self.over = f"the server cannot be understood: {error}"
                finally:
                    self._connection = None
                    self._connected.clear()
                    await connection.close()
            if self._failure is not None:
                raise self._failure
            return str(self.over)
        finally:
            running = [one for one in (*(at.running for at in self._activities.values()), self._presence) if one]
            for one in running:
                one.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            if self._closing is not None:
                await self._closing

    async def _converse(self, connection: Connection) -> None:
        at = tuple(number for number in self._activities if number >= 0)
        hello = wire.Hello(self.name, self.token, self.samples, at, self._instance)
        await connection.send(encode(hello))
        while self.over is None:
            message, models = self._decoder.decode(await connection.receive())
            match message:
                case wire.Welcome():
                    await self._welcomed(message, connection)
                case wire.Begin():
                    if not self._clock.has_begun:
                        self._begin(message.now_s)
                case wire.Task() | wire.Judge():
                    self._start(message, models)
                case wire.Ping():
                    await connection.send(encode(wire.Pong()))
                case wire.Refused():
                    self.over = message.reason
                case wire.Over():
                    for one in self._activities.values():
                        await connection.send(encode(wire.Trace(one.number, one.report(self._clock.now))))
                    self.over, self.ended_well = message.reason, True

    async def leave(self) -> None:
        """Take part no longer."""
        self.over, self.ended_well = LEFT, True
        if self._connection is not None:
            with suppress(EndedError):
                await self._connection.send(encode(wire.Leaving()))
            await self._connection.close()
        self._online.set()

    async def _welcomed(self, welcome: wire.Welcome, connection: Connection) -> None:
        if self._run not in ("", welcome.run):
            # What was drawn for the tasks of one run is not drawn again for those of another.
            self.over = "the server holds another run now; join again to take part in that"
            return
        self._run = welcome.run
        if self._setup is None:
            self._setup = setup = await asyncio.get_running_loop().run_in_executor(None, self._prepare, welcome)
            self._clock = LiveClock(welcome.speedup)
            self._decoder = setup.decoder
            self._runner = TaskRunner(setup, self._clock, self._say, self._tell)
        if not self._is_ready and self._runner is not None:
            setup = self._setup
            online = setup.world is None or setup.world.online(setup.number, max(0.0, welcome.now_s))
            await connection.send(encode(wire.Ready(online, self._runner.why_spent)))
            self._is_ready = True
        if welcome.now_s >= 0 and not self._clock.has_begun:
            self._begin(welcome.now_s)
        for task in welcome.gone:
            self._drop(task)
        self._connection = connection
        self._connected.set()

    async def _say(self, message: wire.Message, models: Vector | Download | None = None) -> None:
        """Send a message now, or as soon as there is a connection again."""
        frame = encode(message, models)
        while True:
            await self._connected.wait()
            connection = self._connection
            try:
                if connection is not None:
                    await connection.send(frame)
                    return
            except EndedError:
                self._connected.clear()

    # --- being there -----------------------------------------------------------------------------------------------

    def _begin(self, now_s: float) -> None:
        self._clock.begin(now_s)
        if self._setup is not None and self._setup.world is not None:
            self._presence = asyncio.ensure_future(self._come_and_go(self._setup.number, self._setup.world))

    async def _come_and_go(self, client: int, world: WorldState) -> None:
        while True:
            now_s = self._clock.now
            online, until_s = world.online(client, now_s), world.next_change(client, now_s)
            if not online:
                await self._vanish()
            elif not self._online.is_set():
                self._online.set()
            await self._clock.until(until_s)

    async def _vanish(self) -> None:
        self._online.clear()
        connection, now_s = self._connection, self._clock.now
        for one in sorted(self._activities.values(), key=lambda one: one.sent_s):
            size = attempt = -1
            if one.sending is not None:
                size, attempt = one.sending.broken_off(now_s - one.sent_s)
            if one.number >= 0:
                one.note(now_s, Kind.WENT_OFFLINE, size, attempt)
            elif one.sending is not None:
                one.note(now_s, wire.SENT, size, detail=one.sending.way)
            if connection is not None:
                with suppress(EndedError):
                    await connection.send(encode(wire.Trace(one.number, one.report(now_s))))
            self._drop(one.number)
        if connection is not None:
            await connection.close()

    # --- what it is at ---------------------------------------------------------------------------------------------

    def _start(self, given: wire.Task | wire.Judge, models: Vector) -> None:
        """Begin a task or a request. A repeated one ends the client. Raises WireError for one that cannot be."""
        if self._runner is None or self._setup is None:
            raise WireError("it gives work to a client that it has not let in")
        number = given.task if isinstance(given, wire.Task) else -1
        activity = Activity(number, self._clock.now, self._setup.observer)
        try:
            work = self._runner.begin(given, models, activity)
        except RepeatedError as error:
            self.over = str(error)
            return
        self._activities[number] = activity
        activity.running = asyncio.ensure_future(work)
        activity.running.add_done_callback(partial(self._done, activity))

    def _done(self, activity: Activity, running: asyncio.Task[None]) -> None:
        if self._activities.get(activity.number) is activity:
            del self._activities[activity.number]
        if not running.cancelled() and (error := running.exception()) is not None and self._failure is None:
            # Nobody can go on from here: whoever runs the client is to hear of it, and the server that it is gone.
            self._failure, self.over = error, f"failed: {error}"
            self._online.set()
            if self._connection is not None:
                self._closing = asyncio.ensure_future(self._connection.close("the client failed"))

    def _drop(self, number: int) -> None:
        activity = self._activities.pop(number, None)
        if activity is not None:
            activity.stop()
