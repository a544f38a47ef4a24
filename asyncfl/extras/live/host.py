"""The asyncio shell of a live run: clients' messages are handled one after another, and timers fire.

Connections are within this process: the clients of `asyncfl live` and the nodes of a Flower grid have one each. What
comes over them waits in one queue, in the order in which it came. Collecting and aggregating happen in a thread:
clients train meanwhile, and a grid's nodes are served.
"""

from __future__ import annotations

import asyncio
from collections import deque
from concurrent.futures import Executor
from typing import NamedTuple, Protocol

import numpy as np

from asyncfl.base.arrays import Vector
from asyncfl.base.errors import MessageError
from asyncfl.extras.live.client_messages import ClientEvent, FromClient, FromServer, Hello
from asyncfl.extras.live.clock import LiveClock
from asyncfl.extras.live.evaluations import Evaluations
from asyncfl.extras.live.live_executor import Alarm, Handling
from asyncfl.extras.live.live_federation import LiveFederation
from asyncfl.protocol.messages import Action, Download
from asyncfl.simulation.action_executor import Work
from asyncfl.simulation.event_order import EventOrder, Priority

DETECTION = EventOrder(Priority.DETECTION)
NO_MODELS: Vector = np.zeros((0, 0), dtype=np.float32)


class ClientEnd(Protocol):
    """A client, as far as its connection needs it."""

    def receive(self, message: FromServer, models: Vector | Download | None) -> None:
        """Handle a message of the server and the models that come with it."""
        ...

    def refused(self, reason: str) -> None:
        """Learn that the server has ended the connection, for this reason."""
        ...


class Connection:
    """A connection of one client to the server, within this process."""

    def __init__(self, host: Host, client: int, end: ClientEnd) -> None:
        """`client`: its number."""
        self.client, self._host, self._end = client, host, end
        self.is_open = True

    # --- the client's side -----------------------------------------------------------------------------------------

    def say(self, message: Hello | FromClient, models: Vector = NO_MODELS) -> None:
        """Send the server a message, and the models (rows, columns) that come with it."""
        self._put(message, models)

    def close(self) -> None:
        """End the connection. Earlier messages still arrive."""
        self._put(None)
        self.is_open = False

    def _put(self, message: Hello | FromClient | None, models: Vector = NO_MODELS) -> None:
        if self.is_open:
            self._host.put(Arrival(self, message, models, self._host.clock.now))

    # --- the server's side -----------------------------------------------------------------------------------------

    def send(self, message: FromServer, models: Vector | Download | None = None) -> None:
        """See `ClientLink`."""
        if self.is_open:
            self._end.receive(message, models)

    def refuse(self, reason: str) -> None:
        """End the connection because of a message that cannot be true."""
        if self.is_open:
            self.close()
            self._end.refused(reason)


class Arrival(NamedTuple):
    """A message that waits to be handled, or the end of a connection."""

    connection: Connection
    message: Hello | FromClient | None
    """None: the connection has ended."""
    models: Vector
    time_s: float


class Host:
    """Drives the server's half of one seed."""

    def __init__(
        self, live: LiveFederation, clock: LiveClock, executor: Executor, evaluations: Evaluations | None = None
    ) -> None:
        """`executor`: where updates are collected and aggregated."""
        self.live, self.clock, self._executor, self._evaluations = live, clock, executor, evaluations
        self._ending: str | None = None
        self._has_started = False
        self._arrivals: deque[Arrival] = deque()
        self._timers: set[asyncio.TimerHandle] = set()
        self._something = asyncio.Event()
        self.over = asyncio.Event()
        """Set when the run is over, and all clients have been told."""

    # --- for clients -----------------------------------------------------------------------------------------------

    def connect(self, hello: Hello, end: ClientEnd) -> Connection:
        """Connect a client; return the connection, which may be used at once."""
        connection = Connection(self, hello.client, end)
        connection.say(hello)
        return connection

    def put(self, arrival: Arrival) -> None:
        """Have a message handled after those before it."""
        self._arrivals.append(arrival)
        self._something.set()

    def observe(self, client: int, number: int, event: ClientEvent) -> None:
        """See `RemoteClient.observe`, on virtual time."""
        self.live.clock.now = self.clock.now
        self.live.observe(client, number, event)

    # --- the run ---------------------------------------------------------------------------------------------------

    @property
    def stopped(self) -> str | None:
        """Why the run is over; None: it is not."""
        return self.live.stopped

    def end(self, reason: str) -> None:
        """Have the run stop as soon as the current actions are carried out."""
        self._ending = reason
        if self._has_started:
            self.live.later.append(self.live.stopping(reason))
        self._something.set()

    async def run(self) -> str:
        """Wait for all clients, then run to the end. Returns why it ended."""
        while self._ending is None and not self.live.is_complete:
            await self._something.wait()
            self._something.clear()
            self._take_arrivals()
        self.clock.begin()
        self.live.clock.has_begun = True
        await self._carry_out(self.live.beginning())
        # Clients that are offline at the beginning go before the first tasks are sent.
        await asyncio.sleep(0)
        await self._carry_out(self.live.starting())
        self._has_started = True
        if self._ending is not None:
            self.end(self._ending)
        try:
            while self.live.stopped is None:
                await self._carry_out(await self._next())
                if self._evaluations is not None:
                    await self._evaluations.keep_up()
        finally:
            for timer in self._timers:
                timer.cancel()
        self.live.say_goodbye()
        self._take_arrivals()
        self.over.set()
        return str(self.live.stopped)

    async def _next(self) -> Handling:
        """Wait for what comes next, and return its handling."""
        while True:
            if self.live.later and self.clock.has_come(DETECTION):
                return self.live.take_later()
            if self.live.later:
                # On virtual time all clients first go offline or come online that do so now.
                self.clock.at(self.clock.now, DETECTION, self._something.set)
            if self._arrivals:
                return self._take()
            self._something.clear()
            await self._something.wait()

    def _take(self) -> Handling:
        """Return the handling of the first that has come. Its sender is refused where it cannot be true."""
        connection, message, models, arrived_s = self._arrivals.popleft()
        self.live.clock.now = self.clock.now
        client = self.live.clients.get(connection.client)
        try:
            if isinstance(message, Hello):
                self.live.connect(message, connection)
            elif client is not None and message is None:
                client.disconnect(connection)
            elif client is not None and message is not None:
                handling = client.receive(message, models, arrived_s)
                return _again(next(handling, []), handling)
        except MessageError as error:
            connection.refuse(str(error))
        return iter(())

    def _take_arrivals(self) -> None:
        """Handle all that has come: before the run so that clients are known, after it for the trace."""
        while self._arrivals:
            deque(self._take(), maxlen=0)

    async def _carry_out(self, handling: Handling) -> None:
        """Carry out a handling, and set the timers of its alarms."""
        loop = asyncio.get_running_loop()
        self.live.clock.now = self.clock.now
        steps = self.live.carry_out(handling)
        work = next(steps, None)
        while work is not None:
            answers = await loop.run_in_executor(self._executor, _without_stop_iteration, work)
            self.live.clock.now = self.clock.now
            try:
                work = steps.send(answers)
            except StopIteration:
                work = None
        alarms, self.live.alarms = self.live.alarms, []
        for alarm in alarms:
            self._set_timer(alarm)

    def _set_timer(self, alarm: Alarm) -> None:
        def ring() -> None:
            self._timers.discard(timer)
            self.live.later.append(alarm.handling)
            self._something.set()

        timer = self.clock.at(alarm.time_s, alarm.order, ring)
        self._timers.add(timer)


def _again(first: list[Action], rest: Handling) -> Handling:
    yield first
    yield from rest


def _without_stop_iteration(work: Work) -> list[Action]:
    """Do `work`. A StopIteration becomes a RuntimeError: futures cannot hold it, and their awaiter would hang."""
    try:
        return work()
    except StopIteration as error:
        raise RuntimeError("work raised StopIteration") from error
