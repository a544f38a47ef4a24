"""A client of a live run in its server's process.

With a world, the client waits as the world's devices and links say, loses what they lose, and is away while it is
offline there; what it was at then is given up.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Any

from msgspec.structs import replace as replaced

from asyncfl.base.arrays import Vector
from asyncfl.extras.live.client_messages import (
    SENT,
    Begin,
    ClientScoreRequest,
    FromClient,
    FromServer,
    Gone,
    Hello,
    Task,
    Trace,
    Update,
)
from asyncfl.extras.live.host import NO_MODELS, Connection, Host
from asyncfl.extras.live.task_runner import Activity, ClientSetup, TaskRunner
from asyncfl.protocol.events import Kind
from asyncfl.protocol.messages import Download, Stop
from asyncfl.simulation.event_order import EventOrder, Priority
from asyncfl.world import WorldState

log = logging.getLogger("asyncfl.extras.live")


class LiveClient:
    """One client of a federation."""

    def __init__(self, setup: ClientSetup, host: Host, samples: int, instance: str = "") -> None:
        """`samples`: that it trains on. `instance`: name by which it is told from an earlier client of its number."""
        self.number, self._setup, self._host = setup.number, setup, host
        self._hello = Hello(setup.number, samples, instance=instance)
        self._runner = TaskRunner(setup, host.clock, self._say)
        self._connection: Connection | None = None
        """None while it is offline."""
        self._activities: dict[int, Activity] = {}
        self._presence: asyncio.Task[None] | None = None
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done where the client takes part no longer before the run is over."""

    async def run(self) -> None:
        """Take part until the run is over. Raises the error of a failed training."""
        world = self._setup.world
        online = world is None or world.online(self.number, 0.0)
        self._connect(online=online, spent=self._runner.why_spent)
        over: asyncio.Future[Any] = asyncio.ensure_future(self._host.over.wait())
        try:
            await asyncio.wait([over, self._failed], return_when=asyncio.FIRST_COMPLETED)
            if self._failed.done():
                self._failed.result()
        finally:
            self._disconnect()
            running = [over, self._presence, *(one.running for one in self._activities.values())]
            for one in running:
                if one is not None:
                    one.cancel()
            await asyncio.gather(*(one for one in running if one is not None), return_exceptions=True)

    def _connect(self, *, online: bool = True, spent: str | None = None) -> None:
        hello = replaced(self._hello, online=online, spent=spent)
        self._connection = self._host.connect(hello, self)

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    # --- messages --------------------------------------------------------------------------------------------------

    def receive(self, message: FromServer, models: Vector | Download | None) -> None:
        """See `ClientEnd`."""
        match message:
            case Begin():
                if self._setup.world is not None:
                    self._presence = asyncio.ensure_future(self._come_and_go(self._setup.world))
            case Task() | ClientScoreRequest():
                assert models is not None
                self._start(message, models.model[None] if isinstance(models, Download) else models)
            case Stop():
                for one in self._activities.values():
                    self._say(Trace(one.number, one.report(self._host.clock.now)))

    def refused(self, reason: str) -> None:
        """See `ClientEnd`."""
        log.warning("client %d takes part no longer: %s", self.number, reason)
        self._fail()

    def _say(self, message: FromClient, models: Vector | Download | None = None) -> None:
        if isinstance(message, Update | Gone):
            # The server may give the next task before this one's coroutine has ended.
            self._activities.pop(message.task, None)
        if isinstance(models, Download):
            # A packed update: the server gets what it unpacks, the difference from the model that was trained.
            assert models.payload is not None
            models = self._setup.scenario.compression.unpacked(models.payload, len(models.model))[None]
        if self._connection is not None:
            self._connection.say(message, NO_MODELS if models is None else models)

    def _fail(self, error: BaseException | None = None) -> None:
        """Take part no longer. `error`: of a training; None: the server has refused the client."""
        if self._failed.done():
            return
        if error is None:
            self._failed.set_result(None)
        else:
            self._failed.set_exception(error)

    # --- presence --------------------------------------------------------------------------------------------------

    async def _come_and_go(self, world: WorldState) -> None:
        clock = self._host.clock
        while True:
            now_s = clock.now
            online, until_s = world.online(self.number, now_s), world.next_change(self.number, now_s)
            if not online:
                self._vanish()
            elif self._connection is None:
                self._connect()
            await clock.until(until_s, EventOrder(Priority.PRESENCE, self.number))

    def _vanish(self) -> None:
        """Go offline, and report how far each task or request has come."""
        now_s = self._host.clock.now
        # The task before the request for scores.
        for one in sorted(self._activities.values(), key=lambda one: -one.number):
            size = attempt = -1
            if one.sending is not None:
                size, attempt = one.sending.broken_off(now_s - one.sent_s)
            if one.number >= 0:
                one.note(now_s, Kind.WENT_OFFLINE, size, attempt)
            elif one.sending is not None:
                one.note(now_s, SENT, size, detail=one.sending.way)
            self._say(Trace(one.number, one.report(now_s)))
            self._drop(one.number)
        self._disconnect()

    # --- tasks and requests for scores -----------------------------------------------------------------------------

    def _start(self, given: Task | ClientScoreRequest, models: Vector) -> None:
        """Begin a task or a request, which replaces another request."""
        if isinstance(given, Task):
            number, order = given.task, EventOrder(Priority.TASK, given.task)
        else:
            number, order = -1, EventOrder(Priority.SCORING, given.request)
        activity = Activity(number, self._host.clock.now, self._setup.observer, order)
        work = self._runner.begin(given, models, activity)
        self._drop(number)
        self._activities[number] = activity
        activity.running = asyncio.ensure_future(work)
        activity.running.add_done_callback(partial(self._done, activity))

    def _done(self, activity: Activity, running: asyncio.Task[None]) -> None:
        if self._activities.get(activity.number) is activity:
            del self._activities[activity.number]
        if not running.cancelled() and (error := running.exception()) is not None:
            self._fail(error)

    def _drop(self, number: int) -> None:
        activity = self._activities.pop(number, None)
        if activity is not None:
            activity.stop()
