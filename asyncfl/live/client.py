"""The client's half: it introduces itself, carries out what it is given, and comes back when its connection is lost.

A task goes on while there is no connection. What the client says is kept until the server has heard it, and said again
on a new connection: the server hears it once. With a shape, the client waits as devices and links of the scenario's
world say, loses what they lose, and is away while it is offline there; what it was at then is given up.
"""

from __future__ import annotations

import asyncio
import math
import secrets
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from msgspec.structs import replace as replaced

from asyncfl.base.messages import Download, Vector
from asyncfl.federation.event_order import EventOrder, Priority
from asyncfl.live import wire
from asyncfl.live.agreement import DisagreementError
from asyncfl.live.client_memory import ClientMemory, ClientMemoryFile
from asyncfl.live.clock import LiveClock
from asyncfl.live.connections import Connect, Connection, EndedError, FrameTooLongError
from asyncfl.live.task_runner import Activity, ClientSetup, TaskRunner
from asyncfl.live.wire import Decoder, WireError, client_decoder, encode
from asyncfl.trace import Kind
from asyncfl.world import WorldState

LEFT = "left"
"""Why it is over for a client that takes part no longer."""
MOST_UNHEARD = 16
"""Messages that the server has not heard, after which a client takes no more work of it."""
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
        instance: str | None = None,
        memory_file: ClientMemoryFile | None = None,
    ) -> None:
        """`prepare`: sets the client up when it is let in for the first time.

        `patience_s`: real seconds without a server after which it gives up. `tell`: is told what happens, in sentences.
        `instance`: name of its process; None: a random one.
        `memory_file`: of what it must not forget; None: that ends with this process. Raises ClientMemoryError for a
        file that cannot be read.
        """
        self._file = memory_file
        self._memory = ClientMemory() if memory_file is None else memory_file.load()
        self._remembers = False
        self.name, self.token, self.samples = name, token, samples
        self.over: str | None = None
        """Why the run is over, for this client at least; None: it is not."""
        self.ended_well = False
        """Whether the server has said that the run is over, or the client has left."""
        self._connect, self._prepare = connect, prepare
        self._patience_s = patience_s
        self._tell = tell or (lambda _: None)
        self._instance = instance or secrets.token_hex(8)
        self._run = ""
        self._failure: BaseException | None = None
        self._decoder: Decoder[wire.FromServer] = client_decoder(0)
        self._connection: Connection | None = None
        self._online = asyncio.Event()
        self._online.set()
        self._setup: ClientSetup | None = None
        self._runner: TaskRunner | None = None
        self._is_ready = False
        """Whether it has told the server that it is prepared."""
        self._clock = LiveClock()
        self._activities: dict[int, Activity] = {}
        self._unheard: dict[int, tuple[wire.Numbered, bytes]] = {}
        """Number -> message that the server has not heard yet as far as is known, and its frame."""
        self._said = self._sent = 0
        """Numbers of the last message, and of the last that was sent on this connection."""
        self._sending = asyncio.Lock()
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
                connection.allow(self._decoder.frame_bytes)
                try:
                    await self._converse(connection)
                except FrameTooLongError as error:
                    self.over = str(error)
                except EndedError as error:
                    if self._online.is_set() and self.over is None:
                        self._tell(str(error))
                        await asyncio.sleep(wait_s)
                except WireError as error:
                    self.over = f"the server cannot be understood: {error}"
                finally:
                    self._connection = None
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
        answered = (one.task for one, _ in self._unheard.values() if isinstance(one, wire.Update | wire.Gone))
        at = tuple(dict.fromkeys((*(number for number in self._activities if number >= 0), *answered)))
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
                    try:
                        self._start(message, models)
                    except DisagreementError as error:
                        self.over = str(error)
                        await self._say(wire.Leaving())
                case wire.Heard():
                    self._forget(message.number)
                case wire.Ping():
                    await connection.send(encode(wire.Pong()))
                case wire.Refused():
                    self.over = message.reason
                case wire.Over():
                    for one in self._activities.values():
                        await self._say(wire.Trace(one.number, one.report(self._clock.now)))
                    self.over, self.ended_well = message.reason, True

    async def leave(self) -> None:
        """Take part no longer."""
        self.over, self.ended_well = LEFT, True
        connection = self._connection
        await self._say(wire.Leaving())
        if connection is not None:
            await connection.close()
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
            connection.allow(self._decoder.frame_bytes)
            self._memory = memory = self._memory.of_run(welcome.run)
            self._remembers = bool(memory.turns)
            if memory.earlier:
                self._tell(f"{memory.earlier} updates were sent in earlier runs, which privacy.stop_at does not count")
            save = None if self._file is None else self._file.save
            self._runner = TaskRunner(setup, self._clock, self._say, self._tell, memory, save)
        if not self._is_ready and self._runner is not None:
            setup = self._setup
            online = setup.world is None or setup.world.online(setup.number, max(0.0, welcome.now_s))
            self._store(wire.Ready(online, self._runner.why_spent, self._remembers))
            self._is_ready = True
        if welcome.now_s >= 0 and not self._clock.has_begun:
            self._begin(welcome.now_s)
        for task in welcome.gone:
            self._drop(task)
        self._forget(welcome.heard)
        for number, (answer, _) in self._unheard.items():
            if isinstance(answer, wire.Update | wire.Gone) and answer.task in welcome.gone:
                # Nobody waits for it any more; the server still counts all messages.
                trace = wire.Trace(answer.task, answer.report, number=number)
                self._unheard[number] = trace, encode(trace)
        self._sent = welcome.heard
        self._connection = connection
        await self._send()

    async def _say(self, message: wire.Numbered, models: Vector | Download | None = None) -> None:
        """Send a message, and again on each new connection until the server has heard it."""
        self._store(message, models)
        with suppress(EndedError):
            await self._send()

    def _store(self, message: wire.Numbered, models: Vector | Download | None = None) -> None:
        self._said += 1
        message = replaced(message, number=self._said)
        self._unheard[self._said] = message, encode(message, models)
        if isinstance(message, wire.Update | wire.Gone):
            # The server may give the next task before this one's coroutine has ended.
            self._activities.pop(message.task, None)

    async def _send(self) -> None:
        """Send what was not sent on this connection yet. Raises EndedError."""
        async with self._sending:
            while self._connection is not None and self._sent < self._said:
                self._sent += 1
                if self._sent in self._unheard:
                    await self._connection.send(self._unheard[self._sent][1])

    def _forget(self, number: int) -> None:
        """The server has heard all messages up to this one."""
        self._unheard = {one: message for one, message in self._unheard.items() if one > number}

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
            await self._clock.until(until_s, EventOrder(Priority.PRESENCE, client))

    async def _vanish(self) -> None:
        self._online.clear()
        connection, now_s = self._connection, self._clock.now
        # The task before the request for scores.
        for one in sorted(self._activities.values(), key=lambda one: -one.number):
            size = attempt = -1
            if one.sending is not None:
                size, attempt = one.sending.broken_off(now_s - one.sent_s)
            if one.number >= 0:
                one.note(now_s, Kind.WENT_OFFLINE, size, attempt)
            elif one.sending is not None:
                one.note(now_s, wire.SENT, size, detail=one.sending.way)
            await self._say(wire.Trace(one.number, one.report(now_s)))
            self._drop(one.number)
        if connection is not None:
            await connection.close()

    # --- what it is at ---------------------------------------------------------------------------------------------

    def _start(self, given: wire.Task | wire.Judge, models: Vector) -> None:
        """Begin a task or a request, which replaces another request.

        Raises WireError for one that cannot be, and DisagreementError for one that the server may not give, or whose
        answers it does not hear.
        """
        if self._runner is None or self._setup is None:
            raise WireError("it gives work to a client that it has not let in")
        if len(self._unheard) >= MOST_UNHEARD:
            raise DisagreementError(f"the server gives work and has not heard {MOST_UNHEARD} messages")
        number = given.task if isinstance(given, wire.Task) else -1
        if isinstance(given, wire.Task):
            order = EventOrder(Priority.TASK, number)
        else:
            order = EventOrder(Priority.SCORING, given.request)
        activity = Activity(number, self._clock.now, self._setup.observer, order)
        work = self._runner.begin(given, models, activity)
        if number >= 0 and any(at >= 0 for at in self._activities):
            work.close()
            raise DisagreementError("the server gives a task before the one before it is done")
        self._drop(number)
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
