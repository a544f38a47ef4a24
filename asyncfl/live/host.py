"""The server's half: connections bring messages, the server hears one after another, its answers are carried out.

Everything that changes the server happens in one place, in the order in which it came in (`_take_in`); what takes a
while, collecting and aggregating, happens in a thread meanwhile, so that connections are kept and heartbeats answered.
What comes in waits in a queue of limited length; where that is full, connections are not read, and clients wait.
"""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from asyncfl.client import Attackers
from asyncfl.errors import AsyncflError, MessageError
from asyncfl.federation.conductor import Conductor, Watcher
from asyncfl.federation.prepare import Federation
from asyncfl.federation.tasks import TaskInFlight
from asyncfl.live.chronicle import Chronicle
from asyncfl.live.clock import LiveClock
from asyncfl.live.members import Member, Members
from asyncfl.live.reports import Reports
from asyncfl.live.sessions import Sessions
from asyncfl.live.transport import Connection
from asyncfl.live.vocabulary import (
    Begin,
    FromClient,
    Gone,
    Hello,
    Judge,
    Leaving,
    Over,
    Ready,
    Scores,
    Spent,
    Task,
    Trace,
    Update,
    Welcome,
)
from asyncfl.live.wire import WireError
from asyncfl.messages import (
    Action,
    BudgetSpent,
    ClientGone,
    ClientIdle,
    ClientJoined,
    ClientLeft,
    Collect,
    Collected,
    Dispatch,
    Fate,
    RequestScores,
    ScoresArrived,
    SetTimer,
    TimerFired,
    UpdateArrived,
    Vector,
)
from asyncfl.privacy import Contribution
from asyncfl.privacy.ledger.releases import upload_release
from asyncfl.privacy.record import Upload
from asyncfl.server import Server
from asyncfl.trace import Kind, Recorder
from asyncfl.trace.requests import NO_ANSWER
from asyncfl.world.failure_detection import FailureDetection

log = logging.getLogger("asyncfl.live")

INBOX = 64
"""Messages that wait for the server before connections are no longer read."""


@dataclass(frozen=True)
class Terms:
    """How a live run is held."""

    shape: bool = False
    """Whether clients wait as the scenario's world says."""
    speedup: float = 1.0
    """Seconds of the scenario in a real second."""
    heartbeat_s: float = 5.0
    """Real seconds between two signs of life of a client."""


@dataclass(frozen=True)
class Payload:
    """An update that has arrived."""

    update: Update
    model: Vector
    """(length,)"""
    task: TaskInFlight


class Host(Conductor):
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
        """`executor`: where updates are collected and aggregated. `keep_up`: waits until others have done theirs."""
        scenario = federation.resolved.scenario
        self.clock = LiveClock(terms.speedup)
        self.chronicle = Chronicle(Recorder(federation.resolved.seed), self.clock, self._nothing_before)
        super().__init__(server, self.chronicle, watcher=watcher)
        self.federation = federation
        self.members = members
        self.terms = terms
        self.attackers: Attackers | None = federation.attackers
        self.trained = 0
        """Updates that clients have trained and sent."""
        self.spent: dict[int, float] = {}
        """Client -> when its budget was spent."""
        self.payload_bytes = 4 * federation.learner.n_parameters
        self.serial = scenario.protocol.scoring == "serial"
        self.failure_detection: FailureDetection = scenario.world.failure_detection
        welcome = Welcome(
            client=0,
            run=secrets.token_hex(8),
            scenario=scenario.to_yaml(),
            seed=federation.resolved.seed,
            clients=members.clients,
            smallest_samples=federation.path.context.smallest_samples,
            exposures=federation.resolved.exposures,
            shape=terms.shape,
            speedup=terms.speedup,
            now_s=-1.0,
            heartbeat_s=terms.heartbeat_s,
            gone=(),
        )
        self._executor = executor
        self._keep_up = keep_up or _nothing
        self._ending: str | None = None
        self.sessions = Sessions(self, members, welcome)
        self.reports = Reports(self, self.chronicle, shape=terms.shape)
        self._inbox: asyncio.Queue[Callable[[], list[Action]]] = asyncio.Queue(INBOX)
        self._someone_ready = asyncio.Event()
        self._payloads: dict[int, Payload] = {}
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
            self._someone_ready.clear()
            await self._either(self._someone_ready, self._something)
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
        while not self._inbox.empty():
            self._inbox.get_nowait()()

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
            if not self.server.plan.everybody_present:
                await self._do(self.server.handle(ClientJoined(0.0, member.number, member.samples)))
        for member in self.members.ready:
            if member.spent is not None:
                await self._do(self._spend(member, member.spent))
        await self._do(self.server.start(self.clock.now))

    def end(self, reason: str) -> None:
        """Have the run stop, as soon as what is being done is done."""
        self._ending = reason
        self._someone_ready.set()
        self.tell(lambda: self.server.stop(reason))

    @property
    def in_flight(self) -> int:
        """Tasks that clients are at."""
        return sum(member.task is not None for member in self.members.by_number.values())

    def tell(self, happens: Callable[[], list[Action]]) -> None:
        """Have something happen here, before what still waits to be taken in."""
        self._urgent.append(happens)
        self._something.set()

    def _then(self, *happens: Callable[[], list[Action]]) -> None:
        """Have this happen next, when what is being done has been carried out."""
        self._urgent[:0] = happens

    async def _next(self) -> Callable[[], list[Action]]:
        while True:
            if self._urgent:
                return self._urgent.pop(0)
            with suppress(asyncio.QueueEmpty):
                return self._inbox.get_nowait()
            self._something.clear()
            await self._something.wait()

    async def _do(self, actions: Iterable[Action]) -> None:
        steps = self._carry_out(actions)
        work = next(steps, None)
        loop = asyncio.get_running_loop()
        while work is not None:
            answers = await loop.run_in_executor(self._executor, work)
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
        self.chronicle.flush(math.inf)

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
        await self._inbox.put(partial(self._take_in, member, said, models, self.clock.now, judged))
        self._something.set()
        await judged

    def _take_in(
        self, member: Member, said: FromClient, models: Vector, arrived_s: float, judged: asyncio.Future[None]
    ) -> list[Action]:
        try:
            return self._hear(member, said, models, arrived_s)
        except AsyncflError as error:
            if not judged.done():
                judged.set_exception(error)
            return []
        finally:
            if not judged.done():
                judged.set_result(None)

    def _hear(self, member: Member, said: FromClient, models: Vector, arrived_s: float) -> list[Action]:
        match said:
            case Ready():
                return self._prepared(member, said)
            case Update() | Gone():
                return self._answered(member, said, models, arrived_s)
            case Scores():
                return self._scored(member, said)
            case Spent():
                return self._spend(member, said.detail)
            case Leaving():
                log.info("client %s leaves", member.name)
                member.ready = member.online = False
                return self.left(member)
            case Trace():
                member.left.append(said.task)
                self.reports.place(member, said.task, said.report)
                return []
        raise WireError(f"a client does not say {type(said).__name__} here")

    def _prepared(self, member: Member, said: Ready) -> list[Action]:
        member.ready, member.online, member.spent = True, said.online, said.spent
        self._someone_ready.set()
        if not self.server.door.is_started or self.server.door.takes_part(member.number):
            return []
        self._came_online(member)
        actions = self.server.handle(ClientJoined(self.clock.now, member.number, member.samples))
        return actions if said.spent is None else [*actions, *self._spend(member, said.spent)]

    def _answered(self, member: Member, said: Update | Gone, models: Vector, arrived_s: float) -> list[Action]:
        task, door = member.task, self.server.door
        whose = door.sender_of(said.task)
        if whose is not None and whose != member.number:
            raise MessageError(f"task {said.task} is client {whose}'s, got an answer of {member.number}")
        if isinstance(said, Update) and len(models) != 1:
            raise WireError(f"an update comes with its model, got {len(models)}")
        if isinstance(said, Gone) and said.fate not in (Fate.LOST_DOWN, Fate.LOST_UP, Fate.DROPPED_OUT):
            raise WireError(f"a task of a client does not end {said.fate!r}")
        if self.stopped is not None:
            self.reports.place(member, said.task, said.report, arrived_s)
            return []
        if whose is None or task is None or task.number != said.task:
            # Given up meanwhile: the client is told by what it is given next.
            if said.task >= self.server.tasks.begun or task is not None:
                raise MessageError(f"task {said.task} is not one that client {member.number} is at")
            return []
        self.reports.place(member, said.task, said.report, arrived_s)
        member.task = None
        if isinstance(said, Update):
            if not self.terms.shape:
                self.traffic.count(models.nbytes, "up")
            self.trained += 1
            if task.number in self.tasks:
                self._payloads[task.number] = Payload(said, models[0], task)
            actions = self.server.handle(UpdateArrived(self.clock.now, task.number))
        else:
            actions = self.server.handle(ClientGone(self.clock.now, member.number, task.number, Fate(said.fate)))
            self._then(lambda: self._idle(member))
        self._ask_held(member)
        return actions

    def _idle(self, member: Member) -> list[Action]:
        if self.stopped is not None or self.server.door.tasks_of(member.number):
            return []
        return self.server.handle(ClientIdle(self.clock.now, member.number))

    def _spend(self, member: Member, detail: str) -> list[Action]:
        if member.number in self.spent:
            return []
        member.spent = detail
        self.spent[member.number] = self.clock.now
        if member.task is None:
            # Else it is in the report of the task.
            self.chronicle.record(Kind.BUDGET_SPENT, client=member.number, detail=detail)
        return self.server.handle(BudgetSpent(self.clock.now, member.number))

    # --- who is there ----------------------------------------------------------------------------------------------

    def lost(self, member: Member) -> list[Action]:
        """The connection of a client has ended."""
        if self.stopped is not None or member.connection is not None or not self.clock.has_begun:
            return []
        task = member.task
        if task is not None and not self.terms.shape:
            # A shaped client has told of it.
            self.chronicle.record(Kind.WENT_OFFLINE, client=member.number)
        if task is not None:
            member.missed = True
        if task is not None or member.request is not None:
            now_s = self.clock.now
            learnt_s = self.failure_detection.learnt_s(now_s, math.inf)
            if learnt_s <= now_s:
                self._then(lambda: self._dropped_out(member), lambda: self._no_answer(member))
            elif learnt_s < math.inf:
                member.lease = self.clock.at(learnt_s, lambda: self.tell(lambda: self._lease_ended(member)))
        self._ask_held(member)
        return []

    def left(self, member: Member) -> list[Action]:
        """The client takes part no longer, unless it joins again."""
        if self.stopped is not None or not self.server.door.takes_part(member.number):
            return []
        if member.lease is not None:
            member.lease.cancel()
            member.lease = None
        task, member.task, member.at_s, member.missed = member.task, None, None, True
        self.chronicle.record(Kind.WENT_OFFLINE, client=member.number)
        if task is not None and task.number in self.tasks:
            self.chronicle.note(Kind.DROPPED_OUT, task, detail="left")
        self._then(lambda: self._no_answer(member))
        return self.server.handle(ClientLeft(self.clock.now, member.number))

    def _lease_ended(self, member: Member) -> list[Action]:
        if self.stopped is not None or member.connection is not None:
            return []
        member.at_s = None
        ends = [lambda: self._gone(member, Fate.TIMED_OUT), lambda: self._no_answer(member)]
        # In the order in which it stopped being at them.
        self._then(*(ends if member.left[:1] != [-1] else ends[::-1]))
        return []

    def _dropped_out(self, member: Member) -> list[Action]:
        """The server hears that the client was away, and is at nothing any more."""
        if member.task is not None and member.task.number in self.tasks:
            self.chronicle.note(Kind.DROPPED_OUT, member.task, detail="offline")
        return self._gone(member, Fate.DROPPED_OUT)

    def _gone(self, member: Member, fate: Fate) -> list[Action]:
        task, member.task = member.task, None
        if task is None or self.stopped is not None:
            return []
        return self.server.handle(ClientGone(self.clock.now, member.number, task.number, fate))

    def returned(self, member: Member, hello: Hello) -> list[Action]:
        if self.stopped is not None or not self.server.door.is_started:
            return []
        if member.lease is not None:
            member.lease.cancel()
            member.lease = None
        left, member.left = member.left, []
        if member.task is not None and member.task.number in hello.tasks:
            # It goes on where it was.
            self._came_online(member)
            return []
        member.at_s = None
        ends = [
            lambda: self._came_online(member),
            lambda: self._dropped_out(member),
            lambda: self._idle(member),
        ]
        # In the order in which it stopped being at them.
        place = 3 if left and left[0] >= 0 else 0
        ends.insert(place, lambda: self._no_answer(member))
        self._then(*ends)
        return []

    def _came_online(self, member: Member) -> list[Action]:
        if member.missed and self.stopped is None:
            member.missed = False
            self.chronicle.record(Kind.CAME_ONLINE, client=member.number)
        return []

    # --- what the server asks for ----------------------------------------------------------------------------------

    def _dispatch(self, action: Dispatch) -> ClientGone | None:
        member = self.members.by_number.get(action.client)
        if member is None or not member.online:
            self.chronicle.record(Kind.WENT_OFFLINE, client=action.client)
            if member is not None:
                member.missed = True
            return ClientGone(self.clock.now, action.client, action.task, None)
        task = self.tasks.begin(action)
        if self.attackers is not None:
            self.attackers.begin(task.number, task.client, task.turn)
        self.chronicle.note(Kind.DISPATCHED, task)
        member.task, member.sent_s = task, self.clock.now
        member.at_s = member.sent_s
        self._starts.append(partial(self._send, member, task))
        return None

    def _begun(self) -> None:
        if self.attackers is not None:
            self.attackers.draw()

    def _send(self, member: Member, task: TaskInFlight) -> None:
        self.chronicle.note(Kind.DOWNLOAD_STARTED, task, size=self.payload_bytes)
        if not self.terms.shape:
            self.traffic.count(self.payload_bytes, "down")
        attacks = self.attackers is not None and self.attackers.malicious(task.number, task.client)
        # One that is settled already is for nobody's use.
        version = task.base_version if task.number in self.tasks else self.server.version
        member.say(Task(task.number, task.turn, task.base_version, attacks), self.server.tasks.model(version)[None])

    def _forget(self, task: TaskInFlight) -> None:
        self._payloads.pop(task.number, None)

    def _set_timer(self, action: SetTimer) -> None:
        def fires() -> None:
            self._timers.discard(handle)
            self.tell(lambda: self._fired(action.timer))

        handle = self.clock.at(self.clock.now + action.delay_s, fires)
        self._timers.add(handle)

    def _fired(self, timer: str) -> list[Action]:
        if self.stopped is not None:
            return []
        self.chronicle.record(Kind.TIMER_FIRED, detail=timer)
        return self.server.handle(TimerFired(self.clock.now, timer))

    def _updates(self, action: Collect) -> Collected:
        tasks = self.tasks.collect(action.tasks)
        found = [self._payloads[number] for number in action.tasks]
        width = self.federation.learner.n_parameters
        models = np.zeros((len(found), width), dtype=np.float32)
        sound = np.array([len(one.model) == width for one in found])
        for row, one in zip(models, found, strict=True):
            if len(one.model) == width:
                row[:] = one.model
        models.flags.writeable = False
        for one in found:
            if one.update.zeroed:
                self.chronicle.note(Kind.ZEROED, one.task, detail="not finite, sent as zero with the noise")
        uploads = tuple(self._upload(one) for one in found)
        self.federation.record.collected(uploads)
        for task in tasks:
            self.members.by_number[task.client].last = (task.number, task.base_version, task.turn)
        norms = [one.update.clip_norm for one in found if one.update.clip_norm is not None]
        return Collected(
            self.clock.now,
            action.tasks,
            models,
            np.array([one.update.loss for one in found], dtype=np.float64),
            sound=sound,
            clip_norm=max(norms, default=None),
            upload_std=np.array([one.update.asked_std for one in found], dtype=np.float64),
        )

    def _upload(self, one: Payload) -> Upload:
        path, task, said = self.federation.path, one.task, one.update
        samples = int(self.server.samples[task.client])
        contribution = Contribution(task.client, samples, task.turn, said.epsilon)
        release = upload_release(path.scheme, path.context, said.clip_norm, contribution)
        attacked = self.attackers is not None and self.attackers.attacks(
            task.number, task.client, task.base_version, task.turn
        )
        if attacked and self.attackers is not None and not self.attackers.threats.attackers_add_noise:
            release = replace(release, std=0.0)
        return Upload(
            task.number, task.base_version, contribution, release, said.clip_norm, said.loss, attacked, said.added_std
        )

    # --- scores ----------------------------------------------------------------------------------------------------

    def _request_scores(self, action: RequestScores) -> None:
        self._starts.append(partial(self._ask, action))

    def _ask(self, action: RequestScores) -> None:
        number = len(action.models)
        size = number * self.payload_bytes
        self.chronicle.record(Kind.SCORES_REQUESTED, client=action.client, detail=f"{number} models", size=size)
        member = self.members.by_number[action.client]
        member.held = action
        if not (self.serial and member.online and member.task is not None):
            self._ask_held(member)

    def _ask_held(self, member: Member) -> None:
        action, member.held = member.held, None
        if action is None:
            return
        member.request = action
        if member.spent is not None or not member.online:
            # As with tasks, the server does not know who is away; nothing is sent to who cannot be reached.
            self.tell(lambda: self._no_answer(member, action))
            return
        member.asked_s = self.clock.now
        if member.at_s is None:
            member.at_s = member.asked_s
        number, version, turn = member.last
        attacks = self.attackers is not None and self.attackers.malicious(number, member.number)
        member.say(
            Judge(action.request, member.requests, number, version, turn, attacks=attacks), np.asarray(action.models)
        )
        member.requests += 1
        if not self.terms.shape:
            self.traffic.count(action.models.nbytes, "down")

    def _no_answer(self, member: Member, action: RequestScores | None = None) -> list[Action]:
        asked = member.request
        if asked is None or self.stopped is not None or (action is not None and asked is not action):
            return []
        return self._score(member, asked, None)

    def _scored(self, member: Member, said: Scores) -> list[Action]:
        asked = member.request
        self.reports.place(member, -1, said.report)
        if asked is None or asked.request != said.request:
            # It was given up: nobody waits for it any more.
            return []
        scores = None if said.scores is None else np.array(said.scores, dtype=np.float64)
        return self._score(member, asked, scores)

    def _score(
        self, member: Member, asked: RequestScores, scores: np.ndarray[tuple[int], np.dtype[np.float64]] | None
    ) -> list[Action]:
        message = ScoresArrived(self.clock.now, asked.request, scores)
        self.server.door.check(message)
        detail = f"{len(asked.models)} models" if scores is not None else NO_ANSWER
        self.chronicle.record(Kind.SCORED, client=member.number, detail=detail)
        member.request = None
        return self.server.handle(message)


async def _nothing() -> None:
    """Everybody keeps up."""
