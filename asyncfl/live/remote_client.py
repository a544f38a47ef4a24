"""One client of a live run as its server knows it: a state machine without sockets, timers and tasks of asyncio.

    state     begins with                                      the client may send
    JOINING   `connect` of a new process                       Ready, Leaving
    READY     Ready (online); `connect` of the same process    Update, Gone, Scores, Spent, Trace, Leaving, Ready again
    AWAY      `disconnect`; Ready (offline)                    as READY but Ready: what came before its connection ended
    LEFT      Leaving                                          nothing until it connects again

In each state but JOINING and LEFT the client may be at a task, asked for scores, or both. A client that is AWAY keeps
its task until its lease ends, or until it is back without it. Hello and Pong belong to the connection (`host`).

    message   may come                                               what is checked before it changes anything
    Update    once, for the task that the client is at               length of a model, `ReceivedUpdates.check`
    Gone      once, for the task that the client is at               its fate is one that a client can know
    Scores    once, for each request that it was sent                as many as models, and accuracies
    Trace     once for its task, and for each request                see `report_rules`, also for the reports above
    Spent     once

An answer to a task that the server has given up, and a repetition, have no effect; they are limited in number. What
cannot be true is refused: `conduct` counts it, and bans the client for the run.

Inputs are plain calls: `connect`, `receive`, `disconnect`, `begin`, `send_task`, `ask`. Their effects are messages that
are written to the client's link, and actions of the server. Actions come as a `Handling`: lists, each of which must be
carried out before the next is asked for; those that wait lie in the run (`RunContext`). After the end of the
run only messages are handled, for the trace.
"""

from __future__ import annotations

import logging
import math
from enum import Enum

import numpy as np
from msgspec.structs import replace as replaced
from numpy.typing import NDArray

from asyncfl.base import messages
from asyncfl.base.errors import MessageError
from asyncfl.federation.event_order import EventOrder, Priority
from asyncfl.live import wire
from asyncfl.live.conduct import REFUSALS, ClientConduct
from asyncfl.live.run_context import ClientLink, Handling, RunContext
from asyncfl.live.wire import WireError
from asyncfl.server.tasks import TaskRecord
from asyncfl.trace import Kind
from asyncfl.trace.events import SCORING_DOWN, SCORING_UP
from asyncfl.trace.scoring_requests import NO_ANSWER, TOO_LATE

log = logging.getLogger("asyncfl.live")


class ClientState(Enum):
    """State of a client, see above."""

    JOINING = "joining"
    READY = "ready"
    AWAY = "away"
    LEFT = "left"


_AT_WORK = (
    wire.Update,
    wire.Gone,
    wire.Scores,
    wire.Spent,
    wire.Trace,
    wire.Leaving,
)
ALLOWED: dict[ClientState, tuple[type[wire.Message], ...]] = {
    ClientState.JOINING: (wire.Ready, wire.Leaving),
    ClientState.READY: (wire.Ready, *_AT_WORK),
    ClientState.AWAY: _AT_WORK,
    ClientState.LEFT: (),
}
"""Messages that a client may send."""


class RemoteClient:
    """One client, as its server knows it."""

    def __init__(self, run: RunContext, number: int, name: str, samples: int) -> None:
        """`samples`: that it has, for the whole run."""
        self._run = run
        self.number, self.name, self.samples = number, name, samples
        self.state = ClientState.JOINING
        self.instance: str | None = None
        """Name of its process; None: it has not been connected."""
        self.processes = self._connections = 0
        self.heard = 0
        """Number of the last message of its process that was heard."""
        self.has_forgotten = False
        """Whether a process of it began without what one before had kept."""
        self.link: ClientLink | None = None
        self.spent: str | None = None
        """Why it answers no more; None: it does."""
        self.task: TaskRecord | None = None
        """The task that it is at, as far as is known."""
        self.request: messages.RequestScores | None = None
        """The request for scores that it is at; None: none."""
        self._last: tuple[int, int, int] = (-1, 0, 0)
        """Number, base version and turn of its task that was collected last."""
        self._sent_s = self._asked_s = 0.0
        self._held: messages.RequestScores | None = None
        """The request for scores that waits for the end of its task; None: none."""
        self._requests = 0
        self._unreported: dict[int, int] = {}
        """Request for scores that it was sent and has reported nothing of -> number of models, in their order."""
        self._has_reported = False
        """Whether the events of its task are in the trace."""
        self.conduct = ClientConduct()
        self._missed = False
        """Whether its absence is in the trace."""
        self._traced: list[int] = []
        """Its work when it vanished, in the order of its report: its task, -1 for scores, each once."""
        self._lease_s: float | None = None
        """Time at which it counts as gone; None: it is not away."""

    @property
    def is_prepared(self) -> bool:
        """Whether it can be given tasks as soon as it is online."""
        return self.state in (ClientState.READY, ClientState.AWAY)

    def say(self, message: wire.Message, models: messages.Vector | messages.Download | None = None) -> None:
        """Send a message after those before it. Without a connection it is dropped."""
        if self.link is not None:
            self.link.write(message, models)

    # --- connections -----------------------------------------------------------------------------------------------

    def connect(self, hello: wire.Hello, link: ClientLink, welcome: wire.Welcome, now_s: float) -> None:
        """Let the client in on a new connection, which replaces the one that it had. `welcome`: of all clients."""
        run = self._run
        if self.link is not None:
            self.link.end("the client is back")
        self.link = link
        self._connections += 1
        waiting = run.tasks.unanswered_of(self.number)
        gone = tuple(task for task in hello.tasks if task not in waiting)
        now_s = now_s if run.clock.has_begun else -1.0
        if self.instance != hello.instance:
            self.heard = 0
        self.say(replaced(welcome, client=self.number, now_s=now_s, gone=gone, heard=self.heard))
        if self.instance == hello.instance and self.is_prepared:
            self.state = ClientState.READY
            had = None if self.task is None else self.task.number
            asked = None if self.request is None else self.request.request
            run.handle_later(self._returned, hello.tasks, self._connections, had, asked)
            return
        if self.instance != hello.instance:
            self.processes += 1
            self._unreported = {}
            log.info("client %s is number %d, with %d samples", self.name, self.number, self.samples)
            if self.is_prepared:
                # Another process had its name: what that was at comes to nothing.
                run.handle_later(self._left)
        self.instance, self.state = hello.instance, ClientState.JOINING

    def disconnect(self, link: ClientLink | None, back_s: float | None = None) -> None:
        """Record that a connection has ended. No effect if the client has another one now.

        `back_s`: time until which the client may be back as if nothing had happened; None: it may not.
        """
        if self.link is link:
            self.link = None
            if self.state is ClientState.READY:
                self.state = ClientState.AWAY
            if back_s is None:
                self._run.handle_later(self._disconnected)
            else:
                self._run.set_alarm(back_s, EventOrder(Priority.DETECTION, self.number), self._disconnected)

    def _disconnected(self) -> Handling:
        run = self._run
        if self.link is not None or not run.clock.has_begun:
            return
        self._assume_trained()
        if self.task is not None:
            self._missed = True
            if not run.shape:
                # A shaped client reports it.
                run.event_log.record(Kind.WENT_OFFLINE, client=self.number)
        now_s, detected_s = run.clock.now, math.inf
        if self.task is not None or self.request is not None:
            detected_s = run.failure_detection.detected_s(now_s, math.inf)
        self._ask_held()
        if detected_s <= now_s:
            yield self._dropped_out()
            yield self._unanswered()
        elif detected_s < math.inf:
            self._lease_s = detected_s
            order = EventOrder(Priority.LEASE, self.number)
            run.set_alarm(detected_s, order, self._lease_ended, detected_s)

    def _lease_ended(self, lease_s: float) -> Handling:
        if self.link is not None or self._lease_s != lease_s:
            return
        # In the order in which the client stopped.
        scores_first = self._traced[:1] == [-1]
        if scores_first:
            yield self._unanswered()
        yield self._gone(messages.Fate.TIMED_OUT)
        if not scores_first:
            yield self._unanswered()

    def _returned(self, tasks: tuple[int, ...], connection: int, had: int | None, asked: int | None) -> Handling:
        """Handle that the client is connected again, and at these tasks.

        `connection`: its number. `had`, `asked`: task and request that the server knew it to be at when it came back;
        those that it was given since are not lost.
        """
        if not self._run.server.validator.is_started or connection != self._connections:
            # What it was at on an older connection says nothing about the tasks that it was given since.
            return
        self._lease_s = None
        if self.task is not None and (self.task.number in tasks or self.task.number != had):
            self._traced = []
            self._came_online()
            return
        self._assume_trained()
        scores_first, self._traced = self._traced[:1] in ([], [-1]), []
        is_asked_since = self.request is not None and self.request.request != asked
        if scores_first and not is_asked_since:
            yield self._unanswered()
        self._came_online()
        yield self._dropped_out()
        yield self._idle()
        if not scores_first and not is_asked_since:
            yield self._unanswered()

    def _left(self) -> Handling:
        """Handle that the client takes part no longer, unless it joins again."""
        run = self._run
        self._end_in_vain()
        if run.stopped is not None or not run.server.validator.takes_part(self.number):
            return
        self._assume_trained()
        task, self.task, self._lease_s, self._missed = self.task, None, None, True
        run.event_log.record(Kind.WENT_OFFLINE, client=self.number)
        if task is not None and task.number in run.tasks:
            run.event_log.record_task(Kind.DROPPED_OUT, task, detail="left")
        yield run.tell(messages.ClientLeft, self.number)
        yield self._unanswered()

    def _assume_trained(self) -> None:
        """Take the task of a client that is away as trained, unless the client reported how far it came."""
        if self.task is not None and self.task.number not in self._traced:
            self.task.trained = True

    def _dropped_out(self) -> list[messages.Action]:
        if self.task is not None and self.task.number in self._run.tasks:
            self._run.event_log.record_task(Kind.DROPPED_OUT, self.task, detail="offline")
        return self._gone(messages.Fate.DROPPED_OUT)

    def _gone(self, fate: messages.Fate) -> list[messages.Action]:
        self._end_in_vain()
        task, self.task = self.task, None
        return [] if task is None else self._run.tell(messages.ClientGone, self.number, task.number, fate)

    def _came_online(self) -> None:
        if self._missed:
            self._missed = False
            self._run.event_log.record(Kind.CAME_ONLINE, client=self.number)

    def _idle(self) -> list[messages.Action]:
        """Have the server give the client a task again: now, or after its pause."""
        run = self._run
        if self.conduct.rests_until_s > run.real_s:
            log.warning(
                "client %s: %d tasks without an update, it pauses until %.1f s",
                *(self.name, self.conduct.in_vain, self.conduct.rests_until_s),
            )
            order = EventOrder(Priority.DETECTION, self.number)
            run.set_alarm(self.conduct.rests_until_s * run.terms.speedup, order, self._rested)
            return []
        if not run.server.validator.takes_part(self.number):
            return run.tell(messages.ClientJoined, self.number, self.samples)
        return [] if run.tasks.unanswered_of(self.number) else run.tell(messages.ClientIdle, self.number)

    def _rested(self) -> Handling:
        if self.state is ClientState.READY and self.task is None:
            yield self._idle()

    # --- conduct ---------------------------------------------------------------------------------------------------

    def refuse(self, reason: str) -> None:
        """Count a message of the client that was refused, or an update that was rejected."""
        self.conduct.refuse(reason)
        log.warning("client %s: refusal %d of %d: %s", self.name, self.conduct.refusals, REFUSALS, reason)
        self._ban_if_due()

    def why_refused(self, hello: wire.Hello) -> str | None:
        """Return why the client is not let in again; None: it is."""
        if hello.samples != self.samples:
            reason = f"client {self.name!r} was enrolled with {self.samples} samples, got {hello.samples}"
            self.refuse(reason)
            return reason
        try:
            if self._run.clock.has_begun:
                self._act_without_effect()
        except MessageError as error:
            self.refuse(str(error))
            return str(error)
        return None

    def _end_in_vain(self) -> None:
        """Count that the task of the client ends without an update."""
        run = self._run
        if self.task is not None and not run.terms.virtual and run.stopped is None:
            took_s = (run.clock.now - self._sent_s) / run.terms.speedup
            self.conduct.end_in_vain(took_s, run.real_s, pauses=not run.shape)
            self._ban_if_due()

    def _act_without_effect(self) -> None:
        if not self._run.terms.virtual:
            self.conduct.act_without_effect(self._run.real_s)

    def _ban_if_due(self) -> None:
        if self.conduct.banned is None or self.state is ClientState.LEFT:
            return
        log.warning("client %s is banned for this run: %s", self.name, self.conduct.banned)
        self.state = ClientState.LEFT
        self._run.handle_later(self._banned)
        if self.link is not None:
            self.link.end("banned")

    def _banned(self) -> Handling:
        run = self._run
        if run.server.validator.is_started:
            yield run.tell(messages.ClientBanned, self.number)
            yield from self._left()

    # --- messages --------------------------------------------------------------------------------------------------

    def receive(self, message: wire.FromClient, models: messages.Vector, arrived_s: float) -> Handling:
        """Handle a message. Raises MessageError and WireError, before the first actions, for one that cannot be true.

        `models`: (rows, columns) that come with it; `arrived_s`: time of its arrival.
        """
        try:
            if not self._hears_again(message):
                yield from self._receive(message, models, arrived_s)
        except (MessageError, WireError) as error:
            self.refuse(str(error))
            raise

    def _hears_again(self, message: wire.FromClient) -> bool:
        """Whether a message is repeated on a new connection. Raises WireError where one before it is missing."""
        if not isinstance(message, wire.Numbered) or not message.number:
            return False
        if message.number > self.heard + 1:
            raise WireError(f"message {message.number} came after message {self.heard}: one is missing")
        self.say(wire.Heard(message.number))
        if message.number <= self.heard:
            self._act_without_effect()
            return True
        self.heard = message.number
        return False

    def _receive(self, message: wire.FromClient, models: messages.Vector, arrived_s: float) -> Handling:
        if not isinstance(message, ALLOWED[self.state]):
            raise WireError(f"a client does not say {type(message).__name__} here")
        if len(models) and not isinstance(message, wire.Update):
            raise WireError(f"{type(message).__name__} comes without models, got {len(models)}")
        match message:
            case wire.Ready():
                yield self._prepared(message)
            case wire.Update() | wire.Gone():
                yield from self._answered(message, models, arrived_s)
            case wire.Scores():
                yield self._scored(message)
            case wire.Spent():
                yield self.spend(message.detail)
            case wire.Trace():
                self._abandon(message)
            case wire.Leaving():
                log.info("client %s leaves", self.name)
                self.state = ClientState.LEFT
                yield from self._left()

    def _prepared(self, message: wire.Ready) -> list[messages.Action]:
        run, validator = self._run, self._run.server.validator
        if self.state is ClientState.READY:
            self._act_without_effect()
        self.state, self.spent = ClientState.READY if message.online else ClientState.AWAY, message.spent
        self.has_forgotten |= self.processes > 1 and not message.remembers
        if run.clock.has_begun:
            # The client was let in before the run began, and got ready afterwards.
            self.say(wire.Begin(run.clock.now))
        if run.stopped is not None or not validator.is_started or validator.takes_part(self.number):
            return []
        self._came_online()
        if message.spent is None:
            return self._idle()
        return [*run.tell(messages.ClientJoined, self.number, self.samples), *self.spend(message.spent)]

    def spend(self, detail: str) -> list[messages.Action]:
        """Handle that the client's privacy budget is spent."""
        run = self._run
        if self.number in run.spent:
            self._act_without_effect()
            return []
        self.spent = detail
        run.spent[self.number] = run.clock.now
        if self.task is None:
            # Otherwise the report of the task holds the event.
            run.event_log.record(Kind.BUDGET_SPENT, client=self.number, detail=detail)
        return run.tell(messages.ClientRetired, self.number)

    def _answered(self, message: wire.Update | wire.Gone, models: messages.Vector, arrived_s: float) -> Handling:
        run, task, number = self._run, self.task, message.task
        sender = run.server.validator.sender_of(number)
        if sender is not None and sender != self.number:
            raise MessageError(f"task {number} is client {sender}'s, got an answer of {self.number}")
        if isinstance(message, wire.Update) and len(models) != 1:
            raise WireError(f"an update comes with its model, got {len(models)}")
        if isinstance(message, wire.Gone) and message.fate not in (
            messages.Fate.LOST_DOWN,
            messages.Fate.LOST_UP,
            messages.Fate.DROPPED_OUT,
        ):
            raise WireError(f"a task of a client does not end {message.fate!r}")
        if run.stopped is not None:
            if task is not None and task.number == number and not self._has_reported:
                self._check_report(message.report, models)
                self._place_report(message.report, arrived_s)
                self._record_dropped(task)
            return
        if sender is None or task is None or task.number != number:
            # The server gave the task up meanwhile.
            if number >= run.tasks.begun or task is not None:
                raise MessageError(f"task {number} is not one that client {self.number} is at")
            self._act_without_effect()
            return
        if isinstance(message, wire.Update):
            run.updates.check(message, task)
        self._check_report(message.report, models)
        # The report says whether it was trained.
        task.trained = False
        self._place_report(message.report, arrived_s)
        if isinstance(message, wire.Gone):
            # A shaped client knows beforehand that the update will be lost, and trains for its own layers alone.
            task.trained = (run.every_task or not run.shape) and (task.trained or message.fate == messages.Fate.LOST_UP)
        self._record_dropped(task)
        if isinstance(message, wire.Gone):
            actions = self._gone(messages.Fate(message.fate))
            self._ask_held()
            yield actions
            yield self._idle()
            return
        if not run.shape:
            run.traffic.count(run.updates.size_of(models[0]), "up")
            run.reports.count_tapped(self.number, task, "up")
        run.trained += 1
        self.conduct.send_update()
        self.task, task.epochs = None, message.epochs
        if number in run.tasks:
            run.updates.keep(message, models[0], task)
        actions = run.tell(messages.UpdateArrived, number)
        self._ask_held()
        yield actions

    def _abandon(self, message: wire.Trace) -> None:
        """Put what the client abandons into the trace. Each task and request is reported once."""
        run, task, request = self._run, self.task, next(iter(self._unreported), None)
        at = (-1,) if task is None else (-1, task.number)
        if message.task not in at or not message.report:
            self._act_without_effect()
        if message.task == -1 and request is not None:
            # A request that did not reach the client is never reported, so that this may be another one.
            self._place_request(request, max(self._unreported.values()), message.report)
        elif message.task == -1 and message.report:
            raise WireError("a client tells of a request for scores that it was not sent")
        elif message.task in at and message.report and not (self._has_reported and run.stopped is not None):
            assert task is not None
            self._check_report(message.report)
            self._place_report(message.report)
            self._record_dropped(task)
        self._traced = [one for one in dict.fromkeys((*self._traced, message.task)) if one in at]

    def _check_report(self, report: wire.Report, models: messages.Vector | None = None) -> None:
        """Raise WireError for a report of its task that cannot be true, or comes again. `models`: of the update."""
        run = self._run
        if report and self._has_reported:
            raise WireError("a task is reported once, got another report")
        run.report_rules.check_task(report, run.updates.size_of(models[0]) if models is not None and len(models) else 0)

    def _place_report(self, report: wire.Report, arrived_s: float | None = None) -> None:
        """Put the report of its task into the trace."""
        run, task = self._run, self.task
        assert task is not None
        self._has_reported |= bool(report)
        ended_s = None if run.stopped is None else run.server.validator.time_s
        run.reports.place(self.number, task, self._sent_s, report, arrived_s, ended_s)

    def _record_dropped(self, task: TaskRecord) -> None:
        """Put on record that a task whose update is not used was trained."""
        if task.number not in self._run.tasks:
            self._run.updates.record_dropped(task)

    def _place_request(self, number: int, models: int, report: wire.Report) -> None:
        """Put the report of a request to score so many models into the trace. Raises WireError for one that cannot be
        true."""
        run = self._run
        run.report_rules.check_request(report, models)
        del self._unreported[number]
        ended_s = None if run.stopped is None else run.server.validator.time_s
        run.reports.place(self.number, None, self._asked_s, report, None, ended_s)

    def observe(self, number: int, event: wire.Noted) -> None:
        """Put an event that happens now at this client into the trace, unless it ends a task.

        `number`: of the task; -1: a request for scores.
        """
        task = self.task if number >= 0 else None
        if self._run.stopped is None and (task is not None or number < 0):
            self._run.reports.observe(self.number, task, event)

    # --- tasks and requests for scores -----------------------------------------------------------------------------

    def begin(self, task: TaskRecord) -> bool:
        """Begin a task. Returns False where the client cannot be reached."""
        if self.state is not ClientState.READY:
            self._run.event_log.record(Kind.WENT_OFFLINE, client=self.number)
            self._missed = True
            return False
        self._run.event_log.record_task(Kind.DISPATCHED, task)
        self.task, self._sent_s, self._has_reported = task, self._run.clock.now, False
        return True

    def collected(self, task: TaskRecord) -> None:
        """Record that an update of the client is collected."""
        self._last = task.number, task.base_version, task.turn

    def send_task(self, task: TaskRecord) -> None:
        """Send the model of a task that has begun."""
        run, size = self._run, self._run.load.download_bytes
        run.event_log.record_task(Kind.DOWNLOAD_STARTED, task, size=size)
        if not run.shape:
            run.traffic.count(size, "down")
            run.reports.count_tapped(self.number, task, "down")
        # The model of a task that is settled already may be gone.
        version = task.base_version if task.number in run.tasks else run.server.version
        attacks = run.attacks(task.number, self.number)
        self.say(wire.Task(task.number, task.turn, task.base_version, attacks), run.tasks.download(version))

    def ask(self, request: messages.RequestScores) -> None:
        """Have the client score models: at once, or where scoring is serial when its task is over."""
        run, number = self._run, len(request.models)
        size = number * run.load.payload_bytes
        run.event_log.record(Kind.SCORES_REQUESTED, client=self.number, detail=f"{number} models", size=size)
        self._held = request
        if not (run.serial and self.state is ClientState.READY and self.task is not None):
            self._ask_held()

    def _ask_held(self) -> None:
        """Send the request that waited for the end of the client's task, if there is one."""
        run, request = self._run, self._held
        if request is None:
            return
        self._held, self.request = None, request
        if self.spent is not None or self.state is not ClientState.READY:
            # As with tasks, the server does not know who is away.
            run.handle_next(self._cannot_answer, request)
            return
        self._asked_s = run.clock.now
        number, version, turn = self._last
        attacks = run.attacks(number, self.number)
        judge = wire.Judge(request.request, self._requests, version, turn, attacks=attacks)
        self.say(judge, np.asarray(request.models))
        self._requests += 1
        self._unreported[request.request] = len(request.models)
        if not run.shape:
            run.traffic.count(request.models.nbytes, "down")
            run.reports.count_tapped(self.number, None, SCORING_DOWN)

    def _cannot_answer(self, request: messages.RequestScores) -> Handling:
        if self.request is request:
            yield self._unanswered()

    def _unanswered(self) -> list[messages.Action]:
        """Handle that the client will not answer its request, if it has one."""
        return [] if self.request is None else self._score(self.request, None)

    def _scored(self, message: wire.Scores) -> list[messages.Action]:
        run, request = self._run, self.request
        if message.request not in self._unreported:
            raise MessageError(f"request {message.request} is not one that client {self.number} has to answer")
        number = self._unreported[message.request]
        scores = None if message.scores is None else np.array(message.scores, dtype=np.float64)
        if scores is not None and len(scores) != number:
            raise MessageError(f"request {message.request} is for scores of {number} models, got {len(scores)}")
        if scores is not None and not run.terms.virtual:
            run.updates.check_scores(self.number, scores)
        self._place_request(message.request, number, message.report)
        if scores is not None:
            run.reports.count_tapped(self.number, None, SCORING_UP)
        if request is not None and request.request == message.request:
            return self._score(request, scores)
        # The server no longer waits for these scores, but it has them.
        if scores is not None:
            run.event_log.record(Kind.SCORED, client=self.number, detail=f"{number} models, {TOO_LATE}")
        return []

    def _score(self, request: messages.RequestScores, scores: NDArray[np.float64] | None) -> list[messages.Action]:
        run = self._run
        detail = f"{len(request.models)} models" if scores is not None else NO_ANSWER
        run.event_log.record(Kind.SCORED, client=self.number, detail=detail)
        self.request = None
        return run.tell(messages.ScoresArrived, request.request, scores)
