"""Everything that changes the server of a live run: messages of clients, lost connections, tasks and timers.

It knows no sockets. What happens is handled one after another; `urgent` holds what must be handled before further
messages (`then`: at once, `tell`: after everything urgent), `starts` what is sent when all actions are carried out.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.errors import MessageError
from asyncfl.base.messages import (
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
from asyncfl.federation.action_executor import ActionExecutor, Watcher
from asyncfl.federation.phases import Workload
from asyncfl.federation.prepare import Federation
from asyncfl.live.clock import LiveClock, Terms
from asyncfl.live.members import Member, Members
from asyncfl.live.received_updates import ReceivedUpdates
from asyncfl.live.reports import LiveEventLog, Reports
from asyncfl.live.vocabulary import (
    Begin,
    FromClient,
    Gone,
    Hello,
    Judge,
    Leaving,
    Ready,
    Report,
    Scores,
    Spent,
    Task,
    Trace,
    Update,
)
from asyncfl.live.wire import WireError
from asyncfl.server import Server
from asyncfl.server.tasks import TaskRecord
from asyncfl.trace import Kind, Recorder
from asyncfl.trace.events import SCORING_DOWN, SCORING_UP
from asyncfl.trace.scoring_requests import NO_ANSWER, TOO_LATE

log = logging.getLogger("asyncfl.live")

Step: TypeAlias = Callable[[], list[Action]]
"""Something that happens to the server; returns the actions that it asks for."""


class MessageHandler(ActionExecutor):
    """The server of one live run, without connections."""

    event_log: LiveEventLog

    def __init__(
        self, federation: Federation, server: Server, members: Members, terms: Terms, *, watcher: Watcher | None = None
    ) -> None:
        scenario = federation.resolved.scenario
        self.clock = LiveClock(terms.speedup)
        self.event_log = LiveEventLog(Recorder(federation.resolved.seed), self.clock, self._earliest_untold_s)
        super().__init__(server, self.event_log, watcher=watcher)
        self.federation = federation
        self.members = members
        self.terms = terms
        self.trained = 0
        """Updates that have arrived."""
        self.spent: dict[int, float] = {}
        """Client -> when its budget was spent."""
        self.urgent: list[Step] = []
        self.starts: list[Callable[[], None]] = []
        self._timers: set[asyncio.TimerHandle] = set()
        self._attackers = federation.attackers
        self._load = Workload.of(scenario, server.samples)
        self._serial = scenario.protocol.scoring == "serial"
        self._failure_detection = scenario.world.failure_detection
        self.updates = ReceivedUpdates(federation, server, self.tasks, self._load, shape=terms.shape)
        self.reports = Reports(
            self.event_log,
            self.tasks,
            self.traffic,
            scenario.training,
            shape=terms.shape,
            observed=terms.virtual,
            tap=None if terms.shape else scenario.world.tap,
        )

    def then(self, *steps: Step) -> None:
        """Have these happen next, when the current actions have been carried out."""
        self.urgent[:0] = steps

    def tell(self, step: Step) -> None:
        """Have this happen before any message that waits."""
        self.urgent.append(step)

    @property
    def in_flight(self) -> int:
        """Tasks that clients are at."""
        return sum(member.task is not None for member in self.members.by_number.values())

    def observe(self, client: int, number: int, kind: str, size: int, attempt: int, detail: str) -> None:
        """Put an event of a client in this process into the trace when it happens, see `Reports.observe`."""
        if client in self.members.by_number and self.stopped is None:
            self.reports.observe(self.members.by_number[client], number, kind, size, attempt, detail)

    def _earliest_untold_s(self) -> float:
        sent = [member.at_s for member in self.members.by_number.values() if member.at_s is not None]
        return min(sent, default=self.clock.now)

    # --- messages --------------------------------------------------------------------------------------------------

    def handle(self, member: Member, message: FromClient, models: Vector, arrived_s: float) -> list[Action]:
        """Return what the server asks for. Raises MessageError and WireError for a message that cannot be true."""
        match message:
            case Ready():
                return self._prepared(member, message)
            case Update() | Gone():
                return self._task_answered(member, message, models, arrived_s)
            case Scores():
                return self._scored(member, message)
            case Spent():
                return self.spend(member, message.detail)
            case Leaving():
                log.info("client %s leaves", member.name)
                member.ready = member.online = False
                return self.left(member)
            case Trace():
                member.left.append(message.task)
                self._place(member, message.task, message.report)
                return []
        raise WireError(f"a client does not say {type(message).__name__} here")

    def _prepared(self, member: Member, message: Ready) -> list[Action]:
        member.ready, member.online, member.spent = True, message.online, message.spent
        if self.clock.has_begun:
            # The client was let in before the run began, and got ready afterwards.
            member.say(Begin(self.clock.now))
        validator = self.server.validator
        if not validator.is_started or validator.takes_part(member.number):
            return []
        self._came_online(member)
        actions = self.server.handle(ClientJoined(self.clock.now, member.number, member.samples))
        return actions if message.spent is None else [*actions, *self.spend(member, message.spent)]

    def _task_answered(self, member: Member, message: Update | Gone, models: Vector, arrived_s: float) -> list[Action]:
        task = member.task
        sender = self.server.validator.sender_of(message.task)
        if sender is not None and sender != member.number:
            raise MessageError(f"task {message.task} is client {sender}'s, got an answer of {member.number}")
        if isinstance(message, Update) and len(models) != 1:
            raise WireError(f"an update comes with its model, got {len(models)}")
        if isinstance(message, Gone) and message.fate not in (Fate.LOST_DOWN, Fate.LOST_UP, Fate.DROPPED_OUT):
            raise WireError(f"a task of a client does not end {message.fate!r}")
        if self.stopped is not None:
            self._place(member, message.task, message.report, arrived_s)
            return []
        if sender is None or task is None or task.number != message.task:
            # The server gave the task up meanwhile.
            if message.task >= self.server.tasks.begun or task is not None:
                raise MessageError(f"task {message.task} is not one that client {member.number} is at")
            return []
        if isinstance(message, Update):
            self.updates.check(message, task)
        # The report says whether it was trained.
        task.trained = False
        self.reports.place(member, message.task, message.report, arrived_s)
        if isinstance(message, Gone):
            # A shaped client knows beforehand that the update will be lost, and trains for its own layers alone.
            trains_anyway = self.federation.path.every_task or not self.terms.shape
            task.trained = trains_anyway and (task.trained or message.fate == Fate.LOST_UP)
        in_flight = task.number in self.tasks
        if not in_flight:
            self.updates.record_dropped(task)
        member.task = None
        if isinstance(message, Update):
            if not self.terms.shape:
                self.traffic.count(self.updates.size_of(models[0]), "up")
                self.reports.count_tapped(member, task, "up")
            self.trained += 1
            task.epochs = message.epochs
            if in_flight:
                self.updates.keep(message, models[0], task)
            actions = self.server.handle(UpdateArrived(self.clock.now, task.number))
        else:
            actions = self.server.handle(ClientGone(self.clock.now, member.number, task.number, Fate(message.fate)))
            self.then(lambda: self.idle(member))
        self._ask_held(member)
        return actions

    def _place(self, member: Member, number: int, report: Report, arrived_s: float | None = None) -> None:
        """Put a report into the trace, and on record that a task whose update is not used was trained."""
        ended_s = None if self.stopped is None else self.server.validator.time_s
        self.reports.place(member, number, report, arrived_s, ended_s)
        if (task := member.task) is not None and task.number == number and number not in self.tasks:
            self.updates.record_dropped(task)

    def spend(self, member: Member, detail: str) -> list[Action]:
        """Handle that the client's privacy budget is spent."""
        if member.number in self.spent:
            return []
        member.spent = detail
        self.spent[member.number] = self.clock.now
        if member.task is None:
            # Otherwise the report of the task holds the event.
            self.event_log.record(Kind.BUDGET_SPENT, client=member.number, detail=detail)
        return self.server.handle(BudgetSpent(self.clock.now, member.number))

    def idle(self, member: Member) -> list[Action]:
        """Handle that the client waits for a task."""
        if self.stopped is not None or self.server.tasks.unanswered_of(member.number):
            return []
        return self.server.handle(ClientIdle(self.clock.now, member.number))

    # --- connections -----------------------------------------------------------------------------------------------

    def disconnected(self, member: Member) -> list[Action]:
        """Handle that the client's connection has ended."""
        if self.stopped is not None or member.connection is not None or not self.clock.has_begun:
            return []
        self._assume_trained(member)
        if member.task is not None:
            member.missed = True
            if not self.terms.shape:
                # A shaped client reports it.
                self.event_log.record(Kind.WENT_OFFLINE, client=member.number)
        if member.task is not None or member.request is not None:
            detected_s = self._failure_detection.detected_s(self.clock.now, math.inf)
            if detected_s <= self.clock.now:
                self.then(lambda: self._dropped_out(member), lambda: self._no_answer(member))
            elif detected_s < math.inf:
                member.lease = self.clock.at(detected_s, lambda: self.tell(lambda: self._lease_ended(member)))
        self._ask_held(member)
        return []

    def left(self, member: Member) -> list[Action]:
        """Handle that the client takes part no longer, unless it joins again."""
        if self.stopped is not None or not self.server.validator.takes_part(member.number):
            return []
        member.cancel_lease()
        self._assume_trained(member)
        task, member.task, member.at_s, member.missed = member.task, None, None, True
        self.event_log.record(Kind.WENT_OFFLINE, client=member.number)
        if task is not None and task.number in self.tasks:
            self.event_log.record_task(Kind.DROPPED_OUT, task, detail="left")
        self.then(lambda: self._no_answer(member))
        return self.server.handle(ClientLeft(self.clock.now, member.number))

    def returned(self, member: Member, hello: Hello) -> list[Action]:
        """Handle that the client is connected again, and at the tasks that `hello` names."""
        if self.stopped is not None or not self.server.validator.is_started:
            return []
        member.cancel_lease()
        if member.task is not None and member.task.number in hello.tasks:
            member.left = []
            return self._came_online(member)
        self._assume_trained(member)
        left, member.left = member.left, []
        member.at_s = None
        steps = [lambda: self._came_online(member), lambda: self._dropped_out(member), lambda: self.idle(member)]
        # In the order in which the client stopped: task before request, or request before task.
        steps.insert(len(steps) if left and left[0] >= 0 else 0, lambda: self._no_answer(member))
        self.then(*steps)
        return []

    def _assume_trained(self, member: Member) -> None:
        """Take the task of a client that is away as trained, unless the client reported how far it came."""
        if member.task is not None and member.task.number not in member.left:
            member.task.trained = True

    def _lease_ended(self, member: Member) -> list[Action]:
        if self.stopped is not None or member.connection is not None:
            return []
        member.at_s = None
        steps = [lambda: self._gone(member, Fate.TIMED_OUT), lambda: self._no_answer(member)]
        self.then(*(steps if member.left[:1] != [-1] else steps[::-1]))
        return []

    def _dropped_out(self, member: Member) -> list[Action]:
        if member.task is not None and member.task.number in self.tasks:
            self.event_log.record_task(Kind.DROPPED_OUT, member.task, detail="offline")
        return self._gone(member, Fate.DROPPED_OUT)

    def _gone(self, member: Member, fate: Fate) -> list[Action]:
        task, member.task = member.task, None
        if task is None or self.stopped is not None:
            return []
        return self.server.handle(ClientGone(self.clock.now, member.number, task.number, fate))

    def _came_online(self, member: Member) -> list[Action]:
        if member.missed and self.stopped is None:
            member.missed = False
            self.event_log.record(Kind.CAME_ONLINE, client=member.number)
        return []

    # --- tasks and timers ------------------------------------------------------------------------------------------

    def _dispatch(self, action: Dispatch) -> ClientGone | None:
        member = self.members.by_number.get(action.client)
        if member is None or not member.online:
            self.event_log.record(Kind.WENT_OFFLINE, client=action.client)
            if member is not None:
                member.missed = True
            return ClientGone(self.clock.now, action.client, action.task, None)
        task = self.tasks.open[action.task]
        if self._attackers is not None:
            self._attackers.begin(task.number, task.client, task.turn)
        self.event_log.record_task(Kind.DISPATCHED, task)
        member.task, member.sent_s = task, self.clock.now
        member.at_s = member.sent_s
        self.starts.append(partial(self._send, member, task))
        return None

    def _begun(self) -> None:
        if self._attackers is not None:
            self._attackers.draw()

    def _send(self, member: Member, task: TaskRecord) -> None:
        self.event_log.record_task(Kind.DOWNLOAD_STARTED, task, size=self._load.download_bytes)
        if not self.terms.shape:
            self.traffic.count(self._load.download_bytes, "down")
            self.reports.count_tapped(member, task, "down")
        attacks = self._attackers is not None and self._attackers.malicious(task.number, task.client)
        # The model of a task that is settled already may be gone.
        version = task.base_version if task.number in self.tasks else self.server.version
        member.say(Task(task.number, task.turn, task.base_version, attacks), self.server.tasks.download(version))

    def _forget(self, task: TaskRecord) -> None:
        self.updates.forget(task)

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

    def cancel_timers(self) -> None:
        """Cancel all timers of the server."""
        for timer in self._timers:
            timer.cancel()

    def _updates(self, action: Collect) -> Collected:
        for task in (tasks := self.tasks.collect(action.tasks)):
            self.members.by_number[task.client].last = (task.number, task.base_version, task.turn)
        return self.updates.collect(tasks, self.clock.now)

    # --- scores ----------------------------------------------------------------------------------------------------

    def _request_scores(self, action: RequestScores) -> None:
        self.starts.append(partial(self._ask, action))

    def _ask(self, action: RequestScores) -> None:
        """Have a client score models: at once, or when its task is over."""
        number = len(action.models)
        size = number * self._load.payload_bytes
        self.event_log.record(Kind.SCORES_REQUESTED, client=action.client, detail=f"{number} models", size=size)
        member = self.members.by_number[action.client]
        member.held = action
        if not (self._serial and member.online and member.task is not None):
            self._ask_held(member)

    def _ask_held(self, member: Member) -> None:
        """Send the request that waited for the end of the client's task, if there is one."""
        action, member.held = member.held, None
        if action is None:
            return
        member.request = action
        if member.spent is not None or not member.online:
            # As with tasks, the server does not know who is away.
            self.tell(lambda: self._no_answer(member, action))
            return
        member.asked_s = self.clock.now
        if member.at_s is None:
            member.at_s = member.asked_s
        number, version, turn = member.last
        attacks = self._attackers is not None and self._attackers.malicious(number, member.number)
        judge = Judge(action.request, member.requests, number, version, turn, attacks=attacks)
        member.say(judge, np.asarray(action.models))
        member.requests += 1
        if not self.terms.shape:
            self.traffic.count(action.models.nbytes, "down")
            self.reports.count_tapped(member, None, SCORING_DOWN)

    def _no_answer(self, member: Member, action: RequestScores | None = None) -> list[Action]:
        """Handle that the client will not answer its request, or not `action` if that is its request."""
        asked = member.request
        if asked is None or self.stopped is not None or (action is not None and asked is not action):
            return []
        return self._score(member, asked, None)

    def _scored(self, member: Member, message: Scores) -> list[Action]:
        asked = member.request
        self._place(member, -1, message.report)
        scores = None if message.scores is None else np.array(message.scores, dtype=np.float64)
        if scores is not None:
            self.reports.count_tapped(member, None, SCORING_UP)
        if asked is None or asked.request != message.request:
            # The server no longer waits for these scores, but it has them.
            if scores is not None:
                detail = f"{len(scores)} models, {TOO_LATE}"
                self.event_log.record(Kind.SCORED, client=member.number, detail=detail)
            return []
        return self._score(member, asked, scores)

    def _score(self, member: Member, asked: RequestScores, scores: NDArray[np.float64] | None) -> list[Action]:
        message = ScoresArrived(self.clock.now, asked.request, scores)
        self.server.validator.check(message)
        detail = f"{len(asked.models)} models" if scores is not None else NO_ANSWER
        self.event_log.record(Kind.SCORED, client=member.number, detail=detail)
        member.request = None
        return self.server.handle(message)
