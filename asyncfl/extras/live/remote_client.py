"""One client of a live run as its server knows it: a state machine without asyncio.

The client is online from `connect` to `disconnect`; while it is online it may be given a task, asked for scores, or
both. A client that goes offline keeps its task until its lease ends, or until it is back without it.

    message   may come                                               what is checked before it changes anything
    Update    once, for the task that the client is at               length of a model, `ReceivedUpdates.check`
    Gone      once, for the task that the client is at               its fate is one that a client can know
    Scores    once, for each request that it was sent                as many as models, and accuracies
    Trace     once for its task, and for each request                see `report_rules`, also for the reports above
    Spent     once

An answer to a task that the server has given up, and a repetition, have no effect. A message that cannot be true raises
MessageError, and ends the client's connection (`host`).

Inputs are plain calls: `connect`, `receive`, `disconnect`, `begin`, `send_task`, `ask`. Their effects are messages that
are sent over the client's link, and actions of the server. Actions come as a `Handling`: lists, each of which must be
carried out before the next is asked for; those that wait lie in the run (`LiveExecutor`). After the end of the
run only messages are handled, for the trace.
"""

from __future__ import annotations

import logging
import math

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.arrays import Vector
from asyncfl.base.errors import MessageError
from asyncfl.extras.live.client_messages import (
    ClientEvent,
    ClientScoreRequest,
    FromClient,
    FromServer,
    Gone,
    Hello,
    Report,
    Scores,
    Spent,
    Task,
    Trace,
    Update,
)
from asyncfl.extras.live.live_executor import Alarm, ClientLink, Handling, LiveExecutor
from asyncfl.protocol import messages
from asyncfl.protocol.events import SCORING_DOWN, SCORING_UP, Kind
from asyncfl.protocol.score_requests import NO_ANSWER, TOO_LATE
from asyncfl.protocol.task_record import TaskRecord
from asyncfl.simulation.event_order import EventOrder, Priority

log = logging.getLogger("asyncfl.extras.live")


class RemoteClient:
    """One client, as its server knows it."""

    def __init__(self, run: LiveExecutor, number: int, samples: int) -> None:
        """`samples`: that it has, for the whole run."""
        self._run = run
        self.number, self.samples = number, samples
        self.is_online = False
        """Whether it can be given tasks."""
        self.instance: str | None = None
        """Name of its node; None: it has not been connected."""
        self._connections = 0
        self.has_forgotten = False
        """Whether a node took its place that lacks what the one before had kept."""
        self.link: ClientLink | None = None
        self.spent: str | None = None
        """Why it answers no more; None: it does."""
        self.task: TaskRecord | None = None
        """The task that it is at, as far as is known."""
        self.request: messages.ScoreRequest | None = None
        """The request for scores that it is at; None: none."""
        self._last: tuple[int, int, int] = (-1, 0, 0)
        """Number, base version and turn of its task that was collected last."""
        self._sent_s = self._asked_s = 0.0
        self._held: messages.ScoreRequest | None = None
        """The request for scores that waits for the end of its task; None: none."""
        self._requests = 0
        self._unreported: dict[int, int] = {}
        """Request for scores that it was sent and has reported nothing of -> number of models, in their order."""
        self._has_reported = False
        """Whether the events of its task are in the trace."""
        self._missed = False
        """Whether its absence is in the trace."""
        self._traced: list[int] = []
        """Its work when it vanished, in the order of its report: its task, -1 for scores, each once."""
        self._lease_s: float | None = None
        """Time at which it counts as gone; None: it is not away."""

    def send(self, message: FromServer, models: Vector | messages.Download | None = None) -> None:
        """Send a message after those before it. Without a connection it is dropped."""
        if self.link is not None:
            self.link.send(message, models)

    # --- connections -----------------------------------------------------------------------------------------------

    def connect(self, hello: Hello, link: ClientLink) -> None:
        """Take a new connection of the client, which replaces the one that it had."""
        run, before = self._run, self.instance
        self.link, self.is_online, self.instance = link, hello.online, hello.instance
        self._connections += 1
        if before == hello.instance:
            had = None if self.task is None else self.task.number
            asked = None if self.request is None else self.request.request
            run.later.append(self._returned(hello.tasks, self._connections, had, asked))
            return
        self.spent = hello.spent
        if before is not None:
            self._unreported = {}
            self.has_forgotten |= not hello.remembers
            run.later.append(self._replaced())

    def disconnect(self, link: ClientLink) -> None:
        """Record that a connection has ended. No effect if the client has another one now."""
        if self.link is link:
            self.link, self.is_online = None, False
            self._run.later.append(self._disconnected())

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
            run.alarms.append(Alarm(detected_s, order, self._lease_ended(detected_s)))

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

    def _replaced(self) -> Handling:
        """Handle that another node has taken the client's place: what the one before was at comes to nothing."""
        run = self._run
        if run.stopped is not None or not run.server.validator.is_started:
            return
        self._assume_trained()
        task, self.task, self._lease_s = self.task, None, None
        run.event_log.record(Kind.WENT_OFFLINE, client=self.number)
        if task is not None and task.number in run.tasks:
            run.event_log.record_task(Kind.DROPPED_OUT, task, detail="left")
        yield run.tell(messages.ClientLeft, self.number)
        yield self._unanswered()
        self._missed = True
        self._came_online()
        joined = run.tell(messages.ClientJoined, self.number, self.samples)
        yield joined if self.spent is None else [*joined, *self.spend(self.spent)]

    def _assume_trained(self) -> None:
        """Take the task of a client that is away as trained, unless the client reported how far it came."""
        if self.task is not None and self.task.number not in self._traced:
            self.task.trained = True

    def _dropped_out(self) -> list[messages.Action]:
        if self.task is not None and self.task.number in self._run.tasks:
            self._run.event_log.record_task(Kind.DROPPED_OUT, self.task, detail="offline")
        return self._gone(messages.Fate.DROPPED_OUT)

    def _gone(self, fate: messages.Fate) -> list[messages.Action]:
        task, self.task = self.task, None
        return [] if task is None else self._run.tell(messages.ClientGone, self.number, task.number, fate)

    def _came_online(self) -> None:
        if self._missed:
            self._missed = False
            self._run.event_log.record(Kind.CAME_ONLINE, client=self.number)

    def _idle(self) -> list[messages.Action]:
        """Have the server give the client a task again."""
        run = self._run
        return [] if run.tasks.unanswered_of(self.number) else run.tell(messages.ClientIdle, self.number)

    # --- messages --------------------------------------------------------------------------------------------------

    def receive(self, message: FromClient, models: Vector, arrived_s: float) -> Handling:
        """Handle a message. Raises MessageError, before the first actions, for one that cannot be true.

        `models`: (rows, columns) that come with it; `arrived_s`: time of its arrival.
        """
        if len(models) and not isinstance(message, Update):
            raise MessageError(f"{type(message).__name__} comes without models, got {len(models)}")
        match message:
            case Update() | Gone():
                yield from self._answered(message, models, arrived_s)
            case Scores():
                yield self._scored(message)
            case Spent():
                yield self.spend(message.detail)
            case Trace():
                self._abandon(message)

    def spend(self, detail: str) -> list[messages.Action]:
        """Handle that the client's privacy budget is spent."""
        run = self._run
        if self.number in run.spent:
            return []
        self.spent = detail
        run.spent[self.number] = run.clock.now
        if self.task is None:
            # Otherwise the report of the task holds the event.
            run.event_log.record(Kind.BUDGET_SPENT, client=self.number, detail=detail)
        return run.tell(messages.ClientRetired, self.number)

    def _answered(self, message: Update | Gone, models: Vector, arrived_s: float) -> Handling:
        run, task, number = self._run, self.task, message.task
        sender = run.server.validator.sender_of(number)
        if sender is not None and sender != self.number:
            raise MessageError(f"task {number} is client {sender}'s, got an answer of {self.number}")
        if isinstance(message, Update) and len(models) != 1:
            raise MessageError(f"an update comes with its model, got {len(models)}")
        if isinstance(message, Gone) and message.fate not in (
            messages.Fate.LOST_DOWN,
            messages.Fate.LOST_UP,
            messages.Fate.DROPPED_OUT,
        ):
            raise MessageError(f"a task of a client does not end {message.fate.value!r}")
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
            return
        if isinstance(message, Update):
            run.updates.check(message, task)
        self._check_report(message.report, models)
        # The report says whether it was trained.
        task.trained = False
        self._place_report(message.report, arrived_s)
        if isinstance(message, Gone):
            # A shaped client knows beforehand that the update will be lost, and trains for its own layers alone.
            task.trained = (run.every_task or not run.shape) and (task.trained or message.fate is messages.Fate.LOST_UP)
        self._record_dropped(task)
        if isinstance(message, Gone):
            actions = self._gone(message.fate)
            self._ask_held()
            yield actions
            yield self._idle()
            return
        if not run.shape:
            run.traffic.count(run.updates.size_of(models[0]), "up")
            run.reports.count_tapped(self.number, task, "up")
        run.trained += 1
        self.task, task.epochs = None, message.epochs
        if number in run.tasks:
            run.updates.keep(message, models[0], task)
        actions = run.tell(messages.UpdateArrived, number)
        self._ask_held()
        yield actions

    def _abandon(self, message: Trace) -> None:
        """Put what the client abandons into the trace. Each task and request is reported once."""
        run, task, request = self._run, self.task, next(iter(self._unreported), None)
        at = (-1,) if task is None else (-1, task.number)
        if message.task == -1 and request is not None:
            # A request that did not reach the client is never reported, so that this may be another one.
            self._place_request(request, max(self._unreported.values()), message.report)
        elif message.task == -1 and message.report:
            raise MessageError("a client tells of a request for scores that it was not sent")
        elif message.task in at and message.report and not (self._has_reported and run.stopped is not None):
            assert task is not None
            self._check_report(message.report)
            self._place_report(message.report)
            self._record_dropped(task)
        self._traced = [one for one in dict.fromkeys((*self._traced, message.task)) if one in at]

    def _check_report(self, report: Report, models: Vector | None = None) -> None:
        """Raise MessageError for a report of its task that cannot be true, or comes again. `models`: of the update."""
        run = self._run
        if report and self._has_reported:
            raise MessageError("a task is reported once, got another report")
        run.report_rules.check_task(report, run.updates.size_of(models[0]) if models is not None and len(models) else 0)

    def _place_report(self, report: Report, arrived_s: float | None = None) -> None:
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

    def _place_request(self, number: int, models: int, report: Report) -> None:
        """Put the report of a request to score so many models into the trace. Raises MessageError for an impossible
        one."""
        run = self._run
        run.report_rules.check_request(report, models)
        del self._unreported[number]
        ended_s = None if run.stopped is None else run.server.validator.time_s
        run.reports.place(self.number, None, self._asked_s, report, None, ended_s)

    def observe(self, number: int, event: ClientEvent) -> None:
        """Put an event that happens now at this client into the trace, unless it ends a task.

        `number`: of the task; -1: a request for scores.
        """
        task = self.task if number >= 0 else None
        if self._run.stopped is None and (task is not None or number < 0):
            self._run.reports.observe(self.number, task, event)

    # --- tasks and requests for scores -----------------------------------------------------------------------------

    def begin(self, task: TaskRecord) -> bool:
        """Begin a task. Returns False where the client cannot be reached."""
        if not self.is_online:
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
        sent = run.tasks.download(version)
        message = Task(task.number, self.number, task.base_version, task.turn, attacks, dict(sent.payloads))
        self.send(message, sent)

    def ask(self, request: messages.ScoreRequest) -> None:
        """Have the client score models: at once, or where scoring is serial when its task is over."""
        run, number = self._run, len(request.models)
        size = number * run.load.payload_bytes
        run.event_log.record(Kind.SCORES_REQUESTED, client=self.number, detail=f"{number} models", size=size)
        self._held = request
        if not (run.serial and self.is_online and self.task is not None):
            self._ask_held()

    def _ask_held(self) -> None:
        """Send the request that waited for the end of the client's task, if there is one."""
        run, request = self._run, self._held
        if request is None:
            return
        self._held, self.request = None, request
        if self.spent is not None or not self.is_online:
            # As with tasks, the server does not know who is away.
            run.handle_next(self._cannot_answer(request))
            return
        self._asked_s = run.clock.now
        number, version, turn = self._last
        attacks = run.attacks(number, self.number)
        sent = ClientScoreRequest(request.request, self._requests, version, turn, attacks=attacks)
        self.send(sent, np.asarray(request.models))
        self._requests += 1
        self._unreported[request.request] = len(request.models)
        if not run.shape:
            run.traffic.count(request.models.nbytes, "down")
            run.reports.count_tapped(self.number, None, SCORING_DOWN)

    def _cannot_answer(self, request: messages.ScoreRequest) -> Handling:
        if self.request is request:
            yield self._unanswered()

    def _unanswered(self) -> list[messages.Action]:
        """Handle that the client will not answer its request, if it has one."""
        return [] if self.request is None else self._score(self.request, None)

    def _scored(self, message: Scores) -> list[messages.Action]:
        run, request = self._run, self.request
        if message.request not in self._unreported:
            raise MessageError(f"request {message.request} is not one that client {self.number} has to answer")
        number = self._unreported[message.request]
        scores = message.scores
        if scores is not None and len(scores) != number:
            raise MessageError(f"request {message.request} is for scores of {number} models, got {len(scores)}")
        if scores is not None and not run.timing.virtual:
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

    def _score(self, request: messages.ScoreRequest, scores: NDArray[np.float64] | None) -> list[messages.Action]:
        run = self._run
        detail = f"{len(request.models)} models" if scores is not None else NO_ANSWER
        run.event_log.record(Kind.SCORED, client=self.number, detail=detail)
        self.request = None
        return run.tell(messages.ScoresArrived, request.request, scores)
