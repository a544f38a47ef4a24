"""The server's half: connections bring messages, the server hears one after another, its answers are carried out.

Everything that changes the server happens in one place, in the order in which it came in (`_take_in`); what takes a
while, collecting and aggregating, happens in a thread meanwhile, so that connections are kept and heartbeats answered.
What comes in waits in a queue of limited length; where that is full, connections are not read, and clients wait.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import Executor
from contextlib import suppress
from functools import partial

from asyncfl.base.errors import AsyncflError
from asyncfl.base.messages import (
    Action,
    ClientGone,
    ClientIdle,
    ClientJoined,
    Collect,
    Collected,
    Dispatch,
    RequestScores,
    SetTimer,
    TimerFired,
    Vector,
)
from asyncfl.client import Attackers
from asyncfl.federation.action_executor import ActionExecutor, Watcher, Work
from asyncfl.federation.prepare import Federation
from asyncfl.federation.tasks_in_flight import TaskInFlight
from asyncfl.federation.workload import workload_of
from asyncfl.live.clock import LiveClock
from asyncfl.live.hearing import Hearing
from asyncfl.live.live_event_log import LiveEventLog
from asyncfl.live.members import Member, Members
from asyncfl.live.payloads import WaitingPayloads
from asyncfl.live.presence import Attendance
from asyncfl.live.questions import Questions
from asyncfl.live.reports import Reports
from asyncfl.live.sessions import Sessions, welcome_of
from asyncfl.live.terms import Terms
from asyncfl.live.transport import Connection
from asyncfl.live.vocabulary import (
    Begin,
    FromClient,
    Over,
    Task,
)
from asyncfl.server import Server
from asyncfl.trace import Kind, Recorder
from asyncfl.world.failure_detection import FailureDetection

MESSAGES_WAITING = 64
"""Messages that wait for the server before connections are no longer read."""


class Host(ActionExecutor):
    """The server's half of one seed."""

    event_log: LiveEventLog

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
        """`executor`: where updates are collected and aggregated. `keep_up`: waits until others have done theirs."""
        scenario = federation.resolved.scenario
        self.clock = LiveClock(terms.speedup)
        self.event_log = LiveEventLog(Recorder(federation.resolved.seed), self.clock, self._nothing_before)
        super().__init__(server, self.event_log, watcher=watcher)
        self.federation = federation
        self.members = members
        self.terms = terms
        self.attackers: Attackers | None = federation.attackers
        self.trained = 0
        """Updates that clients have trained and sent."""
        self.spent: dict[int, float] = {}
        """Client -> when its budget was spent."""
        self.load = workload_of(scenario, server.samples)
        self.serial = scenario.protocol.scoring == "serial"
        self.failure_detection: FailureDetection = scenario.world.failure_detection
        self._executor = executor
        self._keep_up = keep_up or _nothing
        self._ending: str | None = None
        self.sessions = Sessions(self, members, welcome_of(federation, members, terms))
        self.reports = Reports(
            self,
            self.event_log,
            scenario.training,
            shape=terms.shape,
            observed=terms.virtual,
            tap=None if terms.shape else scenario.world.tap,
        )
        self._messages: asyncio.Queue[Callable[[], list[Action]]] = asyncio.Queue(MESSAGES_WAITING)
        self.someone_ready = asyncio.Event()
        """Set when a client has prepared itself."""
        self.hearing = Hearing(self)
        self.payloads = WaitingPayloads(self)
        self.presence = Attendance(self)
        self.questions = Questions(self)
        self._starts: list[Callable[[], None]] = []
        self._timers: set[asyncio.TimerHandle] = set()
        self._urgent: list[Callable[[], list[Action]]] = []
        self._something = asyncio.Event()
        self.over = asyncio.Event()
        """Set when the run is over, and everybody has been told."""

    # --- a run -----------------------------------------------------------------------------------------------------

    async def run(self, at_least: int) -> str:
        """Wait for `at_least` clients, then run to the end. Returns why it ended."""
        while self._waiting < at_least and self._ending is None:
            self.someone_ready.clear()
            await self._either(self.someone_ready, self._something)
            await self._take_in_before()
        try:
            await self._start()
            if self._ending is not None:
                await self._do(self.server.stop(self._ending))
            while self.stopped is None:
                await self._do((await self._next())())
                await self._keep_up()
        finally:
            for timer in self._timers:
                timer.cancel()
        await self._say_goodbye()
        self.over.set()
        return str(self.stopped)

    @property
    def _waiting(self) -> int:
        """Clients that wait for the beginning."""
        return sum(member.connection is not None for member in self.members.ready)

    async def _take_in_before(self) -> None:
        """Hear what comes in before the beginning: nothing follows from it yet."""
        self._something.clear()
        while not self._messages.empty():
            self._messages.get_nowait()()

    async def _either(self, *events: asyncio.Event) -> None:
        waits = [asyncio.ensure_future(event.wait()) for event in events]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def _start(self) -> None:
        self._urgent.clear()
        self.clock.begin()
        for member in self.members.ready:
            member.say(Begin())
            if not self.server.plan.all_present:
                await self._do(self.server.handle(ClientJoined(0.0, member.number, member.samples)))
        for member in self.members.ready:
            if member.spent is not None:
                await self._do(self.hearing.spend(member, member.spent))
        # Once that is on its way to everybody, tasks go out in the order in which they are dispatched.
        await asyncio.sleep(0)
        await self._do(self.server.start(self.clock.now))

    def end(self, reason: str) -> None:
        """Have the run stop, as soon as what is being done is done."""
        self._ending = reason
        self.someone_ready.set()
        self.tell(lambda: self.server.stop(reason))

    @property
    def in_flight(self) -> int:
        """Tasks that clients are at."""
        return sum(member.task is not None for member in self.members.by_number.values())

    def tell(self, happens: Callable[[], list[Action]]) -> None:
        """Have something happen here, before what still waits to be taken in."""
        self._urgent.append(happens)
        self._something.set()

    def then(self, *happens: Callable[[], list[Action]]) -> None:
        """Have this happen next, when what is being done has been carried out."""
        self._urgent[:0] = happens

    async def _next(self) -> Callable[[], list[Action]]:
        while True:
            if self._urgent:
                return self._urgent.pop(0)
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
        # What begins with these actions does so in their order, when all of them are carried out.
        starts, self._starts = self._starts, []
        for start in starts if self.stopped is None else ():
            start()

    async def _say_goodbye(self) -> None:
        reason = str(self.stopped)[:1000]
        for member in self.members.by_number.values():
            member.say(Over(reason))
            if member.lease is not None:
                member.lease.cancel()
        hearing = asyncio.ensure_future(self._hear_the_rest())
        await self.sessions.end()
        hearing.cancel()
        await asyncio.gather(hearing, return_exceptions=True)
        self.event_log.flush(math.inf)

    async def _hear_the_rest(self) -> None:
        while True:
            (await self._next())()

    def _nothing_before(self) -> float:
        told = [member.at_s for member in self.members.by_number.values() if member.at_s is not None]
        return min(told, default=self.clock.now)

    # --- what comes in ---------------------------------------------------------------------------------------------

    async def serve(self, connection: Connection) -> None:
        """Take care of a connection until it ends."""
        await self.sessions.serve(connection)

    async def hear(self, member: Member, said: FromClient, models: Vector) -> None:
        """See `House`."""
        judged: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        await self._messages.put(partial(self._take_in, member, said, models, self.clock.now, judged))
        self._something.set()
        await judged

    def _take_in(
        self, member: Member, said: FromClient, models: Vector, arrived_s: float, judged: asyncio.Future[None]
    ) -> list[Action]:
        try:
            return self.hearing.hear(member, said, models, arrived_s)
        except AsyncflError as error:
            if not judged.done():
                judged.set_exception(error)
            return []
        finally:
            if not judged.done():
                judged.set_result(None)

    def observe(self, client: int, number: int, kind: str, size: int, attempt: int, detail: str) -> None:
        """Put an event of a client in this process into the trace when it happens, see `Reports.observe`."""
        if client in self.members.by_number:
            self.reports.observe(self.members.by_number[client], number, kind, size, attempt, detail)

    def idle(self, member: Member) -> list[Action]:
        """The client waits for a task."""
        if self.stopped is not None or self.server.validator.tasks_of(member.number):
            return []
        return self.server.handle(ClientIdle(self.clock.now, member.number))

    # --- what the server asks for ----------------------------------------------------------------------------------

    def _dispatch(self, action: Dispatch) -> ClientGone | None:
        member = self.members.by_number.get(action.client)
        if member is None or not member.online:
            self.event_log.record(Kind.WENT_OFFLINE, client=action.client)
            if member is not None:
                member.missed = True
            return ClientGone(self.clock.now, action.client, action.task, None)
        task = self.tasks.begin(action)
        if self.attackers is not None:
            self.attackers.begin(task.number, task.client, task.turn)
        self.event_log.record_task(Kind.DISPATCHED, task)
        member.task, member.sent_s = task, self.clock.now
        member.at_s = member.sent_s
        self._starts.append(partial(self._send, member, task))
        return None

    def _begun(self) -> None:
        if self.attackers is not None:
            self.attackers.draw()

    def _send(self, member: Member, task: TaskInFlight) -> None:
        self.event_log.record_task(Kind.DOWNLOAD_STARTED, task, size=self.load.download_bytes)
        if not self.terms.shape:
            self.traffic.count(self.load.download_bytes, "down")
            self.reports.count_tapped(member, task, "down")
        attacks = self.attackers is not None and self.attackers.malicious(task.number, task.client)
        # One that is settled already is for nobody's use.
        version = task.base_version if task.number in self.tasks else self.server.version
        member.say(Task(task.number, task.turn, task.base_version, attacks), self.server.tasks.download(version))

    def _forget(self, task: TaskInFlight) -> None:
        self.payloads.forget(task.number)
        self.payloads.lost(task)

    def _set_timer(self, action: SetTimer) -> None:
        def fires() -> None:
            self._timers.discard(handle)
            self.tell(lambda: self._fired(action.timer))

        handle = self.clock.at(self.clock.now + action.delay_s, fires)
        self._timers.add(handle)

    def _fired(self, timer: str) -> list[Action]:
        if self.stopped is not None:
            return []
        self.event_log.record(Kind.TIMER_FIRED, detail=timer)
        return self.server.handle(TimerFired(self.clock.now, timer))

    def _updates(self, action: Collect) -> Collected:
        return self.payloads.collect(action)

    def _request_scores(self, action: RequestScores) -> None:
        self._starts.append(partial(self.questions.ask, action))


def _without_stop_iteration(work: Work) -> list[Action]:
    """Do `work`. A StopIteration becomes a RuntimeError: futures cannot hold it, and whoever awaits it would hang."""
    try:
        return work()
    except StopIteration as error:
        raise RuntimeError("work raised StopIteration") from error


async def _nothing() -> None:
    """Everybody keeps up."""
