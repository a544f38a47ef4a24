"""The asyncio shell of a live run: connections bring messages, which are handled one after another; timers fire.

Collecting and aggregating happen in a thread, so that connections are kept and heartbeats answered meanwhile. Messages
wait in a queue of limited length; where that is full, connections are not read, and clients wait.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Executor
from contextlib import suppress

from asyncfl.base.errors import AsyncflError
from asyncfl.base.messages import Action, Vector
from asyncfl.federation.action_executor import Watcher, Work
from asyncfl.federation.prepare import Federation
from asyncfl.live.clock import LiveClock, Terms
from asyncfl.live.live_federation import LiveFederation
from asyncfl.live.remote_client import Handling, Link, RemoteClient
from asyncfl.live.sessions import Sessions
from asyncfl.live.transport import Connection
from asyncfl.live.vocabulary import FromClient, Hello
from asyncfl.live.wire import server_decoder
from asyncfl.server import Server

MESSAGES_WAITING = 64
"""Messages that wait for the server before connections are no longer read."""


class Host(LiveFederation):
    """Drives the server's half of one seed."""

    def __init__(
        self,
        federation: Federation,
        server: Server,
        executor: Executor,
        terms: Terms,
        tokens: Mapping[str, str],
        *,
        fewest_samples: int = 1,
        watcher: Watcher | None = None,
        keep_up: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`executor`: where updates are collected and aggregated. `keep_up`: waits until evaluations have caught up."""
        clock = LiveClock(terms.speedup)
        super().__init__(federation, server, clock, terms, tokens, fewest_samples=fewest_samples, watcher=watcher)
        self._executor = executor
        self._keep_up = keep_up
        self._ending: str | None = None
        scenario = federation.resolved.scenario
        decoder = server_decoder(federation.learner.n_parameters, scenario.compression)
        self.sessions = Sessions(self, decoder, terms.heartbeat_s, scenario.data.clients)
        self._messages: asyncio.Queue[Handling] = asyncio.Queue(MESSAGES_WAITING)
        self._timers: set[asyncio.TimerHandle] = set()
        self._something = asyncio.Event()
        self.over = asyncio.Event()
        """Set when the run is over, and all clients have been told."""

    async def run(self, at_least: int) -> str:
        """Wait for `at_least` clients, then run to the end. Returns why it ended."""
        while self._ending is None and sum(one.link is not None for one in self.clients.prepared) < at_least:
            await self._something.wait()
            self._something.clear()
            while not self._messages.empty():
                self._hear_one(self._messages.get_nowait())
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
        self.event_log.flush(math.inf)
        self.over.set()
        while not self._messages.empty():
            self._hear_one(self._messages.get_nowait())
        return str(self.stopped)

    def end(self, reason: str) -> None:
        """Have the run stop as soon as the current actions are carried out."""
        self._ending = reason
        self._tell(self.stopping(reason))

    def _tell(self, handling: Handling) -> None:
        self.context.later.append(handling)
        self._something.set()

    async def _next(self) -> Handling:
        while True:
            if self.context.later:
                return self.context.later.popleft()
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
        alarms, self.context.alarms = self.context.alarms, []
        for time_s, alarm in alarms:
            self._set_alarm(time_s, alarm)

    def _set_alarm(self, time_s: float, handling: Handling) -> None:
        def fires() -> None:
            self._timers.discard(timer)
            self._tell(handling)

        timer = self.clock.at(time_s, fires)
        self._timers.add(timer)

    async def _hear_the_rest(self) -> None:
        while True:
            self._hear_one(await self._messages.get())

    def _hear_one(self, handling: Handling) -> None:
        """Have a handling happen while no actions are carried out."""
        for _ in handling:
            pass

    # --- connections -----------------------------------------------------------------------------------------------

    async def serve(self, connection: Connection) -> None:
        """Take care of a connection until it ends."""
        await self.sessions.serve(connection)

    def connect(self, hello: Hello, link: Link) -> RemoteClient:
        """See `LiveFederation.connect`."""
        client = super().connect(hello, link)
        self._something.set()
        return client

    def disconnect(self, client: RemoteClient, link: Link) -> None:
        """See `LiveFederation.disconnect`."""
        super().disconnect(client, link)
        self._something.set()

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
