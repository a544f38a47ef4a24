"""The server's half of a live run: connections bring messages, which the server handles one after another.

Collecting and aggregating happen in a thread, so that connections are kept and heartbeats answered meanwhile. Messages
wait in a queue of limited length; where that is full, connections are not read, and clients wait.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import Executor
from contextlib import suppress
from functools import partial

from asyncfl.base.errors import AsyncflError
from asyncfl.base.messages import Action, ClientJoined, Vector
from asyncfl.federation.action_executor import Watcher, Work
from asyncfl.federation.prepare import Federation
from asyncfl.live.clock import Terms
from asyncfl.live.members import Member, Members
from asyncfl.live.message_handler import MessageHandler, Step
from asyncfl.live.sessions import Sessions, welcome_of
from asyncfl.live.transport import Connection
from asyncfl.live.vocabulary import Begin, FromClient, Over
from asyncfl.server import Server

MESSAGES_WAITING = 64
"""Messages that wait for the server before connections are no longer read."""


class Host(MessageHandler):
    """The server's half of one seed."""

    def __init__(
        self,
        federation: Federation,
        server: Server,
        members: Members,
        executor: Executor,
        terms: Terms,
        *,
        watcher: Watcher | None = None,
        keep_up: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`executor`: where updates are collected and aggregated. `keep_up`: waits until evaluations have caught up."""
        super().__init__(federation, server, members, terms, watcher=watcher)
        self._executor = executor
        self._keep_up = keep_up
        self._ending: str | None = None
        self.sessions = Sessions(self, members, welcome_of(federation, members, terms))
        self._messages: asyncio.Queue[Step] = asyncio.Queue(MESSAGES_WAITING)
        self._something = asyncio.Event()
        self.over = asyncio.Event()
        """Set when the run is over, and all clients have been told."""

    async def run(self, at_least: int) -> str:
        """Wait for `at_least` clients, then run to the end. Returns why it ended."""
        while self._ending is None and sum(one.connection is not None for one in self.members.ready) < at_least:
            await self._something.wait()
            self._something.clear()
            while not self._messages.empty():
                self._messages.get_nowait()()
        try:
            await self._start()
            if self._ending is not None:
                await self._do(self.server.stop(self._ending))
            while self.stopped is None:
                await self._do((await self._next())())
                if self._keep_up is not None:
                    await self._keep_up()
        finally:
            self.cancel_timers()
        await self._say_goodbye()
        self.over.set()
        return str(self.stopped)

    async def _start(self) -> None:
        self.urgent.clear()
        self.clock.begin()
        for member in self.members.ready:
            member.say(Begin())
            if not self.server.plan.all_present:
                await self._do(self.server.handle(ClientJoined(0.0, member.number, member.samples)))
        for member in self.members.ready:
            if member.spent is not None:
                await self._do(self.spend(member, member.spent))
        # Begin is on its way to all clients before the first task is.
        await asyncio.sleep(0)
        await self._do(self.server.start(self.clock.now))

    def end(self, reason: str) -> None:
        """Have the run stop as soon as the current actions are carried out."""
        self._ending = reason
        self.tell(lambda: self.server.stop(reason))

    def tell(self, step: Step) -> None:
        """Have this happen before any message that waits."""
        super().tell(step)
        self._something.set()

    async def _next(self) -> Step:
        while True:
            if self.urgent:
                return self.urgent.pop(0)
            with suppress(asyncio.QueueEmpty):
                return self._messages.get_nowait()
            self._something.clear()
            await self._something.wait()

    async def _do(self, actions: Iterable[Action]) -> None:
        steps = self._carry_out(actions)
        work = next(steps, None)
        loop = asyncio.get_running_loop()
        while work is not None:
            answers = await loop.run_in_executor(self._executor, _without_stop_iteration, work)
            try:
                work = steps.send(answers)
            except StopIteration:
                break
        starts, self.starts = self.starts, []
        for start in starts if self.stopped is None else ():
            start()

    async def _say_goodbye(self) -> None:
        for member in self.members.by_number.values():
            member.say(Over(str(self.stopped)[:1000]))
            member.cancel_lease()
        hearing = asyncio.ensure_future(self._hear_the_rest())
        await self.sessions.end()
        hearing.cancel()
        await asyncio.gather(hearing, return_exceptions=True)
        self.event_log.flush(math.inf)

    async def _hear_the_rest(self) -> None:
        while True:
            (await self._next())()

    # --- connections -----------------------------------------------------------------------------------------------

    async def serve(self, connection: Connection) -> None:
        """Take care of a connection until it ends."""
        await self.sessions.serve(connection)

    async def hear(self, member: Member, message: FromClient, models: Vector) -> None:
        """Put a message into the queue, and wait until it is handled. Raises AsyncflError as `handle` does."""
        handled: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        await self._messages.put(partial(self._take_in, member, message, models, self.clock.now, handled))
        self._something.set()
        await handled

    def _take_in(
        self, member: Member, message: FromClient, models: Vector, arrived_s: float, handled: asyncio.Future[None]
    ) -> list[Action]:
        try:
            return self.handle(member, message, models, arrived_s)
        except AsyncflError as error:
            if not handled.done():
                handled.set_exception(error)
            return []
        finally:
            if not handled.done():
                handled.set_result(None)


def _without_stop_iteration(work: Work) -> list[Action]:
    """Do `work`. A StopIteration becomes a RuntimeError: futures cannot hold it, and their awaiter would hang."""
    try:
        return work()
    except StopIteration as error:
        raise RuntimeError("work raised StopIteration") from error
