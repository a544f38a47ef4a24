"""The server: a state machine that turns messages into actions, without clock, sockets or training.

    FILLING ──enough has come──> COLLECTING ──Collected──> AGGREGATING ──(takes time)──> publish ──> FILLING ...
                                      └──> SCORING ──ScoresArrived──┘    (only where a detector asks clients)

While it collects, waits for scores or aggregates, arrivals queue in their order; at the publication they enter the next
buffer. Staleness is counted against the version that a buffer makes its updates part of, and is therefore known when an
update enters it.

Use: `actions = server.start(time_s)`, then `actions = server.handle(message)` for each message, in order of time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from asyncfl.defences import Buffer
from asyncfl.messages import (
    Action,
    Ban,
    BudgetSpent,
    ClientGone,
    ClientIdle,
    CohortRepeated,
    Collect,
    Collected,
    Dispatch,
    Fate,
    Input,
    Judged,
    Publish,
    RequestScores,
    ScoresArrived,
    SetTimer,
    Settle,
    ShortBuffer,
    Stop,
    TimerFired,
    UpdateArrived,
    Vector,
)
from asyncfl.server.opening import Filling, OpenCount
from asyncfl.server.patience import Patience, Rejections
from asyncfl.server.population import Population
from asyncfl.server.protocol import Knobs
from asyncfl.server.tasks import Task, TaskBook
from asyncfl.server.tribunal import DefencePlan, Tribunal
from asyncfl.streams import Streams

ServerNoise: TypeAlias = Callable[[Vector, int, tuple[int, ...], float | None], tuple[Vector, float]]
"""(model, version, tasks whose updates are in it, clip_norm) -> (the model with the server's noise, its std)."""


class Phase(Enum):
    """What the server is doing."""

    FILLING = auto()
    COLLECTING = auto()
    SCORING = auto()
    AGGREGATING = auto()
    STOPPED = auto()


@dataclass(frozen=True)
class ServerPlan:
    """Everything the server knows before it starts."""

    knobs: Knobs
    samples: NDArray[np.int64]
    """(clients,) number of training samples of each client."""
    initial: Vector
    """(n_parameters,) version 0; of length 0 where only the clock is simulated."""
    streams: Streams
    defence: DefencePlan = DefencePlan()
    noise: ServerNoise | None = None
    """Added to the aggregate before it is published; None for none."""
    aggregate_s: float = 0.0
    """Virtual seconds that an aggregation takes."""
    score_s: float = 0.0
    """Virtual seconds that the server's own part in judging a buffer takes, where a detector does."""


class Server:
    """The protocol of one run. All state is here; the plan is never changed."""

    def __init__(self, plan: ServerPlan) -> None:
        self.plan = plan
        self.knobs = plan.knobs
        self.clients = len(plan.samples)
        self.population = Population(self.clients)
        self.tasks = TaskBook()
        self.patience = Patience(self.clients)
        self.rejections = Rejections(self.clients)
        self.version = 0
        self.phase = Phase.FILLING
        self.stopped: str | None = None
        self.unasked = 0
        """Updates that were rejected because no such task was ever begun."""
        self.noted: Counter[str] = Counter()
        """What the rule found unusual -> number of versions."""
        self._buffer: list[Task] = []
        self._opened: list[Task] = []
        self._queue: list[Task] = []
        self._flying: dict[int, Task] = {}
        self._given_up: dict[int, int] = {}
        self._cohort = 0
        self._cohort_flying = 0
        self._repeating = False
        self._deadline_passed = False
        self._publication: Publish | None = None
        self._judged: Buffer | None = None
        self._clip_norm: float | None = None
        self._tried: tuple[int, ...] = ()
        self._requests = -1
        self._tribunal = Tribunal(plan.defence, plan.knobs, self.clients, plan.streams)
        self._selection = plan.streams.generator("selection")

    # --- what happens to it ----------------------------------------------------------------------------------------

    def start(self, time_s: float = 0.0) -> list[Action]:
        """First actions: version 0 is published, everybody is idle, the first tasks begin."""
        self.population.add_all()
        actions: list[Action] = [Publish(0, self.plan.initial)]
        if self.knobs.time_limit_s is not None:
            actions.append(SetTimer("time_limit", self.knobs.time_limit_s))
        self.tasks.publish(0, self.plan.initial)
        self._begin_cohort(time_s, actions)
        self._refill(time_s, actions)
        self._stop_without_clients(actions)
        return actions

    def handle(self, message: Input) -> list[Action]:
        """Actions that follow from `message`. A stopped server answers nothing."""
        actions: list[Action] = []
        if self.phase is Phase.STOPPED:
            return actions
        match message:
            case UpdateArrived():
                self._arrived(message, actions)
            case Collected():
                self._collected(message, actions)
            case ScoresArrived():
                self._scored(message, actions)
            case ClientIdle():
                self.population.add(message.client)
            case ClientGone():
                self._gone(message, actions)
            case TimerFired():
                self._timer(message, actions)
            case BudgetSpent():
                # It is busy, or nobody has been asked yet: nothing else follows.
                self.population.retire(message.client)
                return actions
        self._open_if_ready(actions)
        if self.phase is Phase.FILLING and (reason := self.patience.why_stop) is not None:
            self._stop(reason, actions)
        if self.phase is not Phase.COLLECTING:
            # A replacement for the update that filled the buffer gets the version this buffer makes, if that is now.
            self._refill(message.time_s, actions)
            self._open_if_ready(actions)
        self._stop_without_clients(actions)
        return actions

    def _arrived(self, message: UpdateArrived, actions: list[Action]) -> None:
        task = self._flying.pop(message.task, None)
        if task is None:
            # Given up before: the update is not kept, but its client is there again.
            if (client := self._given_up.pop(message.task, None)) is not None:
                self.population.add(client)
            if not 0 <= message.task < self.tasks.begun:
                self.unasked += 1
                actions.append(Settle(message.task, Fate.REJECTED, detail="not asked for"))
            return
        self.population.add(task.client)
        self.patience.arrived()
        task.arrived_s = message.time_s
        in_time = self._leave_cohort(task)
        if self.phase is Phase.FILLING and (in_time or self.knobs.late == "carry"):
            self._enter(task, actions)
        elif self.knobs.late == "carry":
            self._queue.append(task)
        else:
            self._settle(task, Fate.SURPLUS if self._cohort > self._wanted else Fate.LATE, actions)

    def _gone(self, message: ClientGone, actions: list[Action]) -> None:
        self.population.remove(message.client)
        self._given_up.pop(message.task, None)
        task = self._flying.pop(message.task, None)
        if task is None:
            return
        self._leave_cohort(task)
        if message.fate is None:
            self.tasks.withdraw(task.number)
            self.population.served[task.client] -= 1
        else:
            self.patience.ended(message.fate)
            self._settle(task, message.fate, actions)

    def _timer(self, message: TimerFired, actions: list[Action]) -> None:
        name, _, number = message.timer.partition(":")
        if name == "aggregated":
            self._publish(message.time_s, actions)
        elif name == "cohort":
            self._repeating = False
            if self._is_starved():
                actions.append(CohortRepeated(self._cohort))
                self._begin_cohort(message.time_s, actions)
        elif name == "time_limit":
            self._stop("time limit reached", actions)
        elif name == "deadline" and int(number) == self.version:
            self._deadline_passed = True
        elif name == "task" and (task := self._flying.pop(int(number), None)) is not None:
            self._leave_cohort(task)
            self._given_up[task.number] = task.client
            self.patience.ended(Fate.TIMED_OUT)
            self._settle(task, Fate.TIMED_OUT, actions)

    # --- filling the buffer ----------------------------------------------------------------------------------------

    @property
    def _wanted(self) -> int:
        return self.knobs.dispatch.wanted(self.clients)

    def _leave_cohort(self, task: Task) -> bool:
        """Count `task` as ended; whether it was of the cohort that the open buffer waits for."""
        if task.cohort != self.version or self.phase is not Phase.FILLING:
            return False
        self._cohort_flying -= 1
        return True

    def _staleness(self, task: Task) -> int:
        return self.version - task.base_version

    def _enter(self, task: Task, actions: list[Action]) -> None:
        limit = self.knobs.max_staleness
        if limit is not None and self._staleness(task) > limit:
            self._settle(task, Fate.STALE, actions)
        else:
            self._buffer.append(task)

    def _filling(self) -> Filling:
        coming = self._cohort_flying if self.knobs.late == "drop" else len(self._flying)
        return Filling(len(self._buffer), coming, self._cohort, self._wanted, self._deadline_passed)

    def _open_if_ready(self, actions: list[Action]) -> None:
        if self.phase is not Phase.FILLING or not self._buffer:
            return
        filling = self._filling()
        startable = len(self.population) if self.knobs.dispatch.level(self.clients) else 0
        if not self.knobs.opening.is_open(filling):
            if filling.coming or startable:
                return
            actions.append(ShortBuffer(filling.held, self.knobs.opening.target(filling)))
        held = self.knobs.opening.target(filling) if isinstance(self.knobs.opening, OpenCount) else filling.held
        self._opened, rest = self._buffer[:held], self._buffer[held:]
        self._buffer, self._queue = [], rest + self._queue
        self.phase = Phase.COLLECTING
        actions.append(Collect(tuple(task.number for task in self._opened)))

    # --- making the next version -----------------------------------------------------------------------------------

    def _collected(self, message: Collected, actions: list[Action]) -> None:
        expected = tuple(task.number for task in self._opened)
        if self.phase is not Phase.COLLECTING or message.tasks != expected:
            raise ValueError(f"the server asked for tasks {expected}, got {message.tasks}")
        whole = np.ones(len(expected), dtype=bool) if message.sound is None else message.sound
        sound = whole & np.isfinite(message.models).all(axis=1)
        unsound = [self._opened[row] for row in np.flatnonzero(~sound)]
        if sound.any():
            self.rejections.sound()
        for task, right_length in zip(unsound, whole[~sound], strict=True):
            self._settle(task, Fate.REJECTED, actions, detail="not finite or of the wrong length")
            self.rejections.rejected(task.client, finite=not right_length)
        banned = self._strike(unsound, [True] * len(unsound))
        self._ban(banned, actions)
        if banned:
            # What else a banned client has in this buffer is as little used as what it has in the next.
            for row in np.flatnonzero(sound & np.isin([task.client for task in self._opened], banned)):
                self._settle(self._opened[row], Fate.BANNED, actions)
                sound[row] = False
        self._opened = [self._opened[row] for row in np.flatnonzero(sound)]
        if not self._opened:
            self._discard(actions)
            return
        self._clip_norm = message.clip_norm
        self._judged = self._buffer_of(message.models if sound.all() else message.models[sound])
        self._tried = ()
        self._request_or_decide(message.time_s, actions)

    def _discard(self, actions: list[Action]) -> None:
        """Go on filling for the same version after a buffer of which nothing could be used, if that is any use."""
        self.phase = Phase.FILLING
        reason = self.population.why_nobody or self.rejections.why_stop(self.population.left)
        if reason is not None:
            self._stop(reason, actions)
            return
        queued, self._queue = self._queue, []
        for task in queued:
            self._enter(task, actions)

    def _buffer_of(self, models: Vector) -> Buffer:
        base_versions = np.array([task.base_version for task in self._opened], dtype=np.int64)
        versions, base_of = np.unique(base_versions, return_inverse=True)
        clients = np.array([task.client for task in self._opened], dtype=np.int64)
        return Buffer(
            version=self.version,
            current=self.tasks.model(self.version),
            models=models,
            bases=tuple(self.tasks.model(int(version)) for version in versions),
            base_of=base_of.astype(np.int64),
            base_versions=base_versions,
            clients=clients,
            samples=self.plan.samples[clients],
        )

    def _request_or_decide(self, time_s: float, actions: list[Action]) -> None:
        if self._judged is None:
            raise ValueError("there is no buffer to judge")
        request = self._tribunal.request(self._judged, self._tried)
        if request is None:
            self._decide(None, time_s, actions)
            return
        self.phase = Phase.SCORING
        self._tried = (*self._tried, request.client)
        self._requests += 1
        actions.append(RequestScores(self._requests, request.client, request.models))

    def _scored(self, message: ScoresArrived, actions: list[Action]) -> None:
        if self.phase is not Phase.SCORING or message.request != self._requests:
            # The answer of a client that was given up meanwhile.
            return
        if message.scores is None:
            self._request_or_decide(message.time_s, actions)
        else:
            self._decide(message.scores, message.time_s, actions)

    def _decide(self, scores: NDArray[np.float64] | None, time_s: float, actions: list[Action]) -> None:
        buffer, opened = self._judged, self._opened
        if buffer is None:
            raise ValueError("there is no buffer to judge")
        verdict, banned = self._tribunal.judge(buffer, scores)
        outcome = self._tribunal.aggregate(buffer, verdict)
        self.noted.update(set(outcome.notes))
        model, std = outcome.model, 0.0
        kept = tuple(task.number for task, flagged in zip(opened, verdict.flagged, strict=True) if not flagged)
        aggregated = len(kept)
        if self.plan.noise is not None and aggregated:
            model, std = self.plan.noise(model, self.version + 1, kept, self._clip_norm)
        model.flags.writeable = False
        self._judged, self._opened = None, []
        for row, task in enumerate(opened):
            fate = Fate.FLAGGED if verdict.flagged[row] else Fate.AGGREGATED
            detail = verdict.details[row] if verdict.details else ""
            weight, old = float(outcome.weights[row]), int(buffer.staleness[row])
            self._settle(task, fate, actions, weight=weight, staleness=old, detail=detail)
        if self.plan.defence.detector is not None:
            actions.append(
                Judged(
                    self.version,
                    tuple(int(client) for client in buffer.clients),
                    tuple(verdict.accused.tolist()),
                    banned,
                    tuple(sorted(verdict.notes.items())),
                    tuple(task.number for task in opened),
                    () if verdict.unjudged is None else tuple(verdict.unjudged.tolist()),
                )
            )
        ages = tuple(int(age) for age in buffer.staleness[~verdict.flagged])
        self._publication = Publish(self.version + 1, model, aggregated, ages, std, self._clip_norm)
        self._ban(banned, actions)
        if self.phase is Phase.STOPPED:
            return
        self.phase = Phase.AGGREGATING
        seconds = self.plan.aggregate_s + (self.plan.score_s if self.plan.defence.detector is not None else 0.0)
        if seconds:
            actions.append(SetTimer("aggregated", seconds))
        else:
            self._publish(time_s, actions)

    def _strike(self, tasks: list[Task], struck: list[bool]) -> tuple[int, ...]:
        if not tasks:
            return ()
        return self._tribunal.strike(np.array([task.client for task in tasks]), np.array(struck))

    def _ban(self, clients: tuple[int, ...], actions: list[Action]) -> None:
        for client in clients:
            self.population.ban(client)
            actions.append(Ban(client))
            for held in (self._buffer, self._queue):
                for task in [task for task in held if task.client == client]:
                    held.remove(task)
                    self._settle(task, Fate.BANNED, actions)
            for task in [task for task in self._flying.values() if task.client == client]:
                # It may still arrive; nobody waits for it any more.
                del self._flying[task.number]
                self._leave_cohort(task)
                self._settle(task, Fate.BANNED, actions)

    def _publish(self, time_s: float, actions: list[Action]) -> None:
        if self._publication is None:
            raise ValueError("nothing to publish")
        publication, self._publication = self._publication, None
        self.version = publication.version
        self.tasks.publish(publication.version, publication.model)
        actions.append(publication)
        self.phase = Phase.FILLING
        if self.version >= self.knobs.rounds:
            self._stop("all versions published", actions)
            return
        self._stop_without_clients(actions)
        if self.stopped is not None:
            return
        queued, self._queue = self._queue, []
        for task in queued:
            self._enter(task, actions)
        self._begin_cohort(time_s, actions)

    # --- beginning tasks -------------------------------------------------------------------------------------------

    def _begin_cohort(self, time_s: float, actions: list[Action]) -> None:
        number = self.knobs.dispatch.at_publish(self.clients)
        if not number:
            return
        self._cohort = self._cohort_flying = self._begin(number, self.version, time_s, actions)
        self._deadline_passed = False
        seconds = getattr(self.knobs.opening, "seconds", None)
        if seconds is not None:
            actions.append(SetTimer(f"deadline:{self.version}", seconds))

    def _refill(self, time_s: float, actions: list[Action]) -> None:
        if self.phase is Phase.STOPPED:
            return
        missing = self.knobs.dispatch.level(self.clients) - len(self._flying)
        if missing > 0:
            self._begin(missing, -1, time_s, actions)
        elif self._is_starved():
            # Cohorts only: nobody could be drawn when the last version came out, somebody can now. Or all of the last
            # cohort was lost: then those who ask again at this moment shall be among the next, too.
            if not self._cohort:
                self._begin_cohort(time_s, actions)
            elif not self._repeating:
                self._repeating = True
                actions.append(SetTimer("cohort", 0.0))

    def _is_starved(self) -> bool:
        in_cohorts = self.knobs.dispatch.at_publish(self.clients) > 0
        return (
            in_cohorts
            and self.phase is Phase.FILLING
            and not self._buffer
            and not self._filling().coming
            and len(self.population) > 0
        )

    def _begin(self, number: int, cohort: int, time_s: float, actions: list[Action]) -> int:
        fair = self.knobs.selection == "fair"
        draw = self.population.draw_least_served if fair else self.population.draw
        drawn = draw(number, self._selection)
        for client in drawn:
            task = self.tasks.begin(client, self.version, cohort, time_s)
            self._flying[task.number] = task
            self.population.served[client] += 1
            actions.append(Dispatch(task.number, client, self.version))
            if self.knobs.task_timeout_s is not None:
                actions.append(SetTimer(f"task:{task.number}", self.knobs.task_timeout_s))
        return len(drawn)

    # --- ends ------------------------------------------------------------------------------------------------------

    def _settle(
        self,
        task: Task,
        fate: Fate,
        actions: list[Action],
        *,
        weight: float = 0.0,
        staleness: int = -1,
        detail: str = "",
    ) -> None:
        self.tasks.settle(task.number, fate)
        actions.append(Settle(task.number, fate, staleness, weight, detail))

    def _stop(self, reason: str, actions: list[Action]) -> None:
        for task in [*self._buffer, *self._queue]:
            self._settle(task, Fate.SURPLUS, actions)
        for task in [*self._opened, *self._flying.values()]:
            self._settle(task, Fate.UNFINISHED, actions)
        self._buffer, self._queue, self._opened, self._flying = [], [], [], {}
        self.phase = Phase.STOPPED
        self.stopped = reason
        self.tasks.check()
        actions.append(Stop(reason))

    def _stop_without_clients(self, actions: list[Action]) -> None:
        """End the run where nobody will ever come again and nothing is under way."""
        under_way = self._buffer or self._queue or self._flying
        if self.phase is Phase.FILLING and not under_way and (reason := self.population.why_nobody) is not None:
            self._stop(reason, actions)

    def stop(self, reason: str) -> list[Action]:
        """Last actions of a run that is ended from outside, because nothing can happen any more or it diverged."""
        actions: list[Action] = []
        if self.phase is not Phase.STOPPED:
            self._stop(reason, actions)
        return actions
