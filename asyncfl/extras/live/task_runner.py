"""A client's tasks and requests for scores, phase by phase, with what they report to the server."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

from asyncfl.algorithms.algorithm import check_vectors
from asyncfl.base.arrays import Vector
from asyncfl.base.client_state import ClientState
from asyncfl.base.errors import AsyncflError, MessageError
from asyncfl.client import Assignment
from asyncfl.extras.live.client_messages import (
    SENT,
    ClientEvent,
    ClientScoreRequest,
    Gone,
    Report,
    Scores,
    Spent,
    Task,
    Update,
)
from asyncfl.extras.live.clock import LiveClock
from asyncfl.extras.live.local_training import LocalTraining, TrainedUpdate
from asyncfl.learning.job import NoEpochError
from asyncfl.privacy.ledger.budgets import BudgetTracker
from asyncfl.protocol.events import NO_EPOCH, Kind, epochs_detail
from asyncfl.protocol.messages import Fate
from asyncfl.scenario import Scenario
from asyncfl.simulation.event_order import LAST, EventOrder
from asyncfl.simulation.phases import (
    LinkMessage,
    MessageEvent,
    Phase,
    ScoringPhase,
    ScoringPhases,
    TaskPhases,
    Way,
    Workload,
)
from asyncfl.world import Transfer, WorldState

Observer: TypeAlias = Callable[[int, ClientEvent], None]
"""Called with an event of a client, and its task (-1: a request for scores)."""


class RepeatedError(AsyncflError):
    """A task or request that the client was given before: noise drawn twice could be subtracted."""


@dataclass(frozen=True)
class ClientSetup:
    """Everything that a client works with."""

    number: int
    scenario: Scenario
    training: LocalTraining
    executor: Executor
    """Executor of its training."""
    load: Workload
    world: WorldState | None
    """The world that it lives in; None: the real one."""
    budgets: BudgetTracker | None
    observer: Observer | None = None
    """Called with the client's events when they happen; None: the server learns of them from reports alone."""

    def phases(self, task: Task) -> list[tuple[Phase, bool]]:
        """Return the phases of a task, and for each whether its model must be trained."""
        if self.world is None:
            down, up = _real_message("down", self.load.download_bytes), _real_message("up", self.load.upload_bytes)
            download = Phase(Kind.DOWNLOAD_STARTED, Kind.DOWNLOADED, 0.0, sending=down)
            upload = Phase(Kind.UPLOAD_STARTED, Kind.UPLOADED, 0.0, sending=up)
            return [(one, True) for one in (download, Phase(Kind.TRAINING_STARTED, Kind.TRAINED, 0.0), upload)]
        threats = self.training.threats
        speed = threats.attack.rate if task.attacks and threats is not None else 1.0
        phases = list(TaskPhases(self.world.task(self.number, task.turn), self.load, speed))
        # A training changes what its client carries even if the update is lost.
        needed = phases[-1].fails is None or (
            bool(self.training.carries) and any(phase.ends is Kind.TRAINED for phase in phases)
        )
        return [(phase, needed) for phase in phases]

    def measured(self, phase: Phase, training: asyncio.Future[TrainedUpdate]) -> Phase:
        """Return an ended training phase with the epochs that a real client did by its deadline."""
        if self.world is not None or self.load.deadline_s is None:
            return phase
        if isinstance(training.exception(), NoEpochError):
            return phase._replace(ends=Kind.DROPPED_OUT, fails=Fate.DROPPED_OUT, detail=NO_EPOCH)
        done = None if training.exception() else training.result().epochs
        return phase if done is None else phase._replace(epochs=done, detail=epochs_detail(done, self.load.epochs))

    def scoring_phases(self, request: ClientScoreRequest, models: int) -> list[ScoringPhase]:
        """Return the phases of a request to score so many models."""
        if self.world is None:
            return [ScoringPhase(0.0)]
        return list(ScoringPhases(self.world.scoring(self.number, request.turn), self.load, models))


def _real_message(way: Way, size: int) -> LinkMessage:
    return LinkMessage(Transfer(0.0, True, 1, 1, 1, 0, size, math.inf, (), (), size, 0.0), way)


@dataclass
class Activity:
    """A task or request that a client is at."""

    number: int
    """Number of the task; -1: a request for scores."""
    began_s: float
    observer: Observer | None = None
    """See `ClientSetup.observer`."""
    order: EventOrder = LAST
    """Place of its events among those of the same time, on virtual time."""
    notes: list[ClientEvent] = field(default_factory=list)
    sending: LinkMessage | None = None
    """Message in transfer."""
    sent_s: float = 0.0
    """Start of the current phase."""
    running: asyncio.Task[None] | None = None
    scoring: asyncio.Future[Any] | None = None
    """Scores that are being computed."""
    timers: list[asyncio.TimerHandle] = field(default_factory=list)
    """Timers of events that the observer will be told of."""

    def note(self, now_s: float, kind: str, size: int = -1, attempt: int = -1, detail: str = "") -> None:
        """Record an event that happens now, and tell the observer."""
        self.notes.append(ClientEvent(max(0.0, now_s - self.began_s), kind, size, attempt, detail))
        if self.observer is not None:
            self.observer(self.number, self.notes[-1])

    def foresee(self, clock: LiveClock, time_s: float, mark: MessageEvent, detail: str) -> None:
        """Record an event that will happen at `time_s`. A report before then leaves it out."""
        self.notes.append(ClientEvent(max(0.0, time_s - self.began_s), mark.kind, mark.size, mark.attempt, detail))
        if self.observer is not None:
            self.timers.append(clock.at(time_s, self.order, partial(self.observer, self.number, self.notes[-1])))

    def stop(self) -> None:
        """Stop it: none of its foreseen events happens."""
        for timer in self.timers:
            timer.cancel()
        for one in (self.running, self.scoring):
            if one is not None:
                one.cancel()

    def report(self, now_s: float) -> Report:
        """Return the events until now, in order."""
        happened = [one for one in self.notes if one.after_s <= now_s - self.began_s]
        return tuple(sorted(happened, key=lambda one: one.after_s))


class TaskRunner:
    """Carries out the tasks and requests of one client."""

    def __init__(
        self,
        setup: ClientSetup,
        clock: LiveClock,
        say: Callable[..., None],
    ) -> None:
        """`say`: sends the server a message, and the models that come with it if there are any. The client goes on
        with its state in `LocalTraining.states`, which an earlier process of it may have left."""
        self._setup, self._clock, self._say = setup, clock, say
        self._spent = setup.budgets is not None and not setup.budgets.resume(setup.number)
        """Whether the client's budget affords no upload."""

    @property
    def why_spent(self) -> str | None:
        """Why the client's budget affords no upload; None: it does."""
        budgets = self._setup.budgets
        return budgets.describe_spending(self._setup.number) if self._spent and budgets is not None else None

    def begin(self, given: Task | ClientScoreRequest, models: Vector, activity: Activity) -> Coroutine[Any, Any, None]:
        """Return the work of a task or request, which has not begun. `models`: (rows, columns) that came with it.

        Raises MessageError where these are not what such a message comes with, and RepeatedError.
        """
        if isinstance(given, Task) and given.client != self._setup.number:
            raise MessageError(f"task {given.task} is client {given.client}'s, got by client {self._setup.number}")
        what, (rows, columns) = "task" if isinstance(given, Task) else "request", models.shape
        wanted = self._setup.scenario.n_parameters
        if columns != wanted or (what == "task" and rows != 1):
            models_of = "one model" if what == "task" else "models"
            raise MessageError(f"a {what} comes with {models_of} of {wanted} parameters, got {rows} of {columns}")
        if isinstance(given, Task):
            check_vectors(given.payloads, self._setup.scenario.payloads.downloads)
        # Each turn has noise of its own.
        states, client, name = self._setup.training.states, self._setup.number, f"last_{what}"
        last = states.of(client).scalars.get(name, -1)
        states.update(client, ClientState({}, {name: given.turn}))
        if given.turn <= last:
            raise RepeatedError(
                f"the server gave {what} {given.turn} again after {what} {last}, by its count of this client's: both "
                "would have the same noise, which could be subtracted"
            )
        return self.task(given, models[0], activity) if isinstance(given, Task) else self.score(given, models, activity)

    async def task(self, task: Task, model: Vector, activity: Activity) -> None:
        """Train the model (n_parameters,) and send the update, or report why there is none."""
        setup = self._setup
        if self._spent:
            # The server may not know that it is spent: the client went offline at that moment.
            self._say(Spent(self.why_spent or ""))
            self._say(Gone(task.task, Fate.DROPPED_OUT, activity.report(self._clock.now)))
            return
        assignment = Assignment(task.task, setup.number, task.version, model, task.turn, download=task.payloads)
        training: asyncio.Future[TrainedUpdate] | None = None
        for phase, needed in setup.phases(task):
            if phase.begins is Kind.TRAINING_STARTED and needed:
                assignment = replace(assignment, epochs=phase.epochs)
                training = self._train(activity, assignment, task.attacks)
            phase = await self._pass(activity, phase, training, assignment)
            if phase.ends is Kind.TRAINED:
                assignment = replace(assignment, epochs=phase.epochs)
            if phase.fails is not None:
                self._say(Gone(task.task, phase.fails, activity.report(self._clock.now)))
                return
        assert training is not None
        done = await training
        # What compression leaves over changes with the upload: what a broken-off one would have lacked is not made up.
        setup.training.states.update(setup.number, done.state)
        loss, report = done.loss if setup.scenario.reports_losses else None, activity.report(self._clock.now)
        numbers = loss, done.added_std, done.epsilon, report, assignment.epochs
        self._say(Update(task.task, *numbers, done.payloads), done.model)

    def _train(self, activity: Activity, assignment: Assignment, attacks: bool) -> asyncio.Future[TrainedUpdate]:
        setup, loop, deadline_s = self._setup, asyncio.get_running_loop(), None
        if setup.world is None and setup.load.deadline_s is not None:
            deadline_s = setup.load.deadline_s / self._clock.speedup

        def train() -> TrainedUpdate:
            if setup.world is None:
                # Training starts when a thread is free for it.
                loop.call_soon_threadsafe(lambda: activity.note(self._clock.now, Kind.TRAINING_STARTED))
            return setup.training.train(assignment, attacks, deadline_s)

        return loop.run_in_executor(setup.executor, train)

    async def _pass(
        self,
        activity: Activity,
        phase: Phase,
        training: asyncio.Future[TrainedUpdate] | None,
        assignment: Assignment,
    ) -> Phase:
        """Wait for the end of a phase, for ever if the client goes offline before. Returns the phase as it came out."""
        clock, sending = self._clock, phase.sending
        if phase.begins is Kind.UPLOAD_STARTED or (phase.begins is Kind.TRAINING_STARTED and self._setup.world):
            # The server itself records the start of the download.
            activity.note(clock.now, phase.begins, -1 if sending is None else sending.transfer.payload_bytes)
        if phase.begins is Kind.UPLOAD_STARTED and not self._spent:
            # It is spent whether or not the upload arrives, because somebody may hear it.
            self._charge_upload(assignment.turn, assignment.epochs)
            if self.why_spent is not None:
                activity.note(clock.now, Kind.BUDGET_SPENT, detail=self.why_spent)
                self._say(Spent(self.why_spent))
        await self._wait(activity, sending, phase.duration_s, "" if sending is None else sending.way)
        if phase.ends is Kind.TRAINED and training is not None:
            await asyncio.wait([training])
            if not training.cancelled() and training.exception() is None:
                carried = training.result().state.part(self._setup.training.carries)
                self._setup.training.states.update(assignment.client, carried)
            phase = self._setup.measured(phase, training)
        if sending is None:
            activity.note(clock.now, phase.ends, detail=phase.detail)
        else:
            activity.note(clock.now, phase.ends, sending.transfer.sent_bytes, sending.transfer.attempts, sending.way)
        return phase

    async def _wait(self, activity: Activity, sending: LinkMessage | None, duration_s: float, detail: str) -> None:
        """Wait so long, and record the transmissions of `sending` meanwhile."""
        world, clock = self._setup.world, self._clock
        if world is None:
            return
        began_s = clock.now
        until_s = world.next_change(self._setup.number, began_s)
        activity.sending, activity.sent_s = sending, began_s
        for mark in () if sending is None else sending.events():
            if began_s + mark.at_s < until_s:
                activity.foresee(clock, began_s + mark.at_s, mark, detail)
        end_s = began_s + duration_s
        await clock.until(end_s if end_s < until_s else math.inf, activity.order)
        activity.sending = None

    def _charge_upload(self, turn: int, epochs: int | None) -> None:
        """Charge the upload of a task to the client's budget, if it has one."""
        budgets, client = self._setup.budgets, self._setup.number
        if budgets is not None:
            budgets.charge_upload(client, epochs)
            self._spent = not budgets.affords(client, turn + 1)

    def _charge_scores(self, models: int) -> bool:
        """Charge scores of `models` models. Returns False where the budget forbids them."""
        budgets = self._setup.budgets
        return budgets is None or budgets.charge_scores(self._setup.number, models)

    async def score(self, request: ClientScoreRequest, models: Vector, activity: Activity) -> None:
        """Score the models (n_models, n_parameters), and send the scores."""
        setup = self._setup
        if self._spent or not self._charge_scores(len(models)):
            self._say(Scores(request.request, None, activity.report(self._clock.now)))
            return
        answered, scoring, loop = True, None, asyncio.get_running_loop()
        for phase in setup.scoring_phases(request, len(models)):
            if phase.sending is None:
                state = setup.training.states.of(setup.number)
                score = partial(setup.training.score, setup.number, request, models, state)
                scoring = activity.scoring = loop.run_in_executor(setup.executor, score)
            await self._wait(activity, phase.sending, phase.duration_s, phase.name)
            if phase.sending is None and scoring is not None:
                await asyncio.wait([scoring])
            elif phase.sending is not None:
                transfer = phase.sending.transfer
                activity.note(self._clock.now, SENT, transfer.sent_bytes, detail=phase.sending.way)
                answered = transfer.delivered
        scores = None
        if answered and scoring is not None and not self._spent:
            scores = await scoring
        self._say(Scores(request.request, scores, activity.report(self._clock.now)))
