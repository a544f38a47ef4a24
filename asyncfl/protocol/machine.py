"""The server: a state machine that turns messages into actions, without clock, sockets or training.

    FILLING ──buffer is full──> COLLECTING ──Collected──> AGGREGATING ──(takes time)──> publish ──> FILLING ...
                                    └──> SCORING ──ScoresArrived──┘    (only where a detector asks clients)

This module holds the phases and their transitions. Other modules hold the state that each phase uses: the table of
tasks and the updates that have arrived (`tasks`), the cohorts of tasks in flight (there too), and the buffer that is
being aggregated (`aggregation`).

Usage: call `actions = server.start(time_s)` once, then `actions = server.handle(message)` for each message, in order of
time. An impossible message raises MessageError and changes nothing (`message_validator`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from dataclasses import replace as dataclass_replace
from enum import Enum, auto
from typing import TypeAlias

import numpy as np
from msgspec.structs import replace as replaced

from asyncfl.algorithms import Algorithm, FedAvg
from asyncfl.base.arrays import Bools, Floats, Ints, Vector
from asyncfl.base.component import kind_of
from asyncfl.base.instrument import NO_INSTRUMENT, Instrument
from asyncfl.base.streams import Streams
from asyncfl.protocol.aggregation import (
    Aggregation,
    AggregationResult,
    DefencePlan,
    DefenceState,
    Scores,
)
from asyncfl.protocol.algorithm_state import AlgorithmState
from asyncfl.protocol.message_validator import MessageValidator
from asyncfl.protocol.messages import (
    Action,
    Ban,
    ClientGone,
    ClientIdle,
    ClientJoined,
    ClientLeft,
    ClientRetired,
    Collected,
    CollectedSum,
    Download,
    Fate,
    Input,
    Publish,
    ScoresArrived,
    SetTimer,
    Settle,
    ShortBuffer,
    Stop,
    TimerFired,
    UpdateArrived,
)
from asyncfl.protocol.participation import Participations
from asyncfl.protocol.population import Population
from asyncfl.protocol.settings import Protocol
from asyncfl.protocol.task_record import TaskRecord
from asyncfl.protocol.task_table import Cohorts, TaskTable

AGGREGATION = "aggregated"
"""Name of the timer for an aggregation that takes time: set when the buffer has been judged, fires when the model is
ready."""

LEAST_TASKS = 10_000
"""Failed tasks in succession after which a run is given up. If one task in 1000 succeeds, a succession is that long
with probability 5e-5."""
TASKS_PER_CLIENT = 10
"""The same per client of a large federation, so that each client has been asked several times."""
IDLE_PER_GUESS = 4
"""Idle clients for each task that is guessed at once: where few are idle, a client is drawn again soon, and guesses are
wrong."""
ServerNoise: TypeAlias = Callable[[AggregationResult, int], tuple[Vector, float]]
"""Function (result of a buffer, version) -> (model with the server's noise, its standard deviation). Called at
publication."""


@dataclass(frozen=True)
class ServerPlan:
    """Everything that the server knows before it starts."""

    protocol: Protocol
    samples: Ints
    """(clients,) training samples of each client; for a client that joins later, the expected number."""
    initial: Vector
    """(n_parameters,) version 0; of length 0 if only the clock is simulated."""
    streams: Streams
    defence: DefencePlan = DefencePlan()
    noise: ServerNoise | None = None
    """Noise added to each aggregate before publication; None for none."""
    aggregate_s: float = 0.0
    """Seconds that an aggregation takes, whatever the number of updates."""
    aggregate_s_per_update: float = 0.0
    """Additional seconds per update of the buffer."""
    aggregate_alone: bool = False
    """Whether the driver waits for the aggregation before it provides the updates, so that no task begins meanwhile."""
    evaluate_s: float = 0.0
    """Seconds that the evaluation of a model delays its publication, for versions that are evaluated."""
    evaluate_every: int = 0
    """Versions between two evaluations; 0 to evaluate the last version only."""
    score_s: float = 0.0
    """Virtual seconds of the server's own work to judge a buffer, with a detector."""
    instrument: Instrument = NO_INSTRUMENT
    """Instrument that receives each buffer that is aggregated."""
    all_present: bool = True
    """Whether all clients take part from the start; otherwise each takes part after it has joined."""
    algorithm: Algorithm = FedAvg()
    """Algorithm whose server half replaces each step, and declares the vectors sent with models."""
    downloads: Callable[[Vector, int], Download] | None = None
    """Function (model, version) -> the model as clients are sent it; None to send it as it is."""

    def seconds_to(self, version: int, updates: int) -> float:
        """Return the seconds between judging a buffer of `updates` updates and publishing it as `version`."""
        seconds = 0.0 if self.aggregate_alone else self._aggregation_s(updates)
        seconds += 0.0 if self.defence.detector is None else self.score_s
        return seconds + (self.evaluate_s if self.is_evaluated(version) else 0.0)

    def seconds_alone(self, updates: int) -> float:
        """Return the seconds that pass before the updates of a buffer are provided to the server."""
        return self._aggregation_s(updates) if self.aggregate_alone else 0.0

    def is_evaluated(self, version: int) -> bool:
        """Whether the version is evaluated."""
        return version == self.protocol.rounds or (self.evaluate_every > 0 and version % self.evaluate_every == 0)

    def _aggregation_s(self, updates: int) -> float:
        return self.aggregate_s + self.aggregate_s_per_update * updates


class ServerPhase(Enum):
    """Phase of the server's work."""

    FILLING = auto()
    COLLECTING = auto()
    SCORING = auto()
    AGGREGATING = auto()
    STOPPED = auto()


class Server:
    """The server of one run: takes messages, returns actions. All state is in this object and its parts; the plan never
    changes."""

    def __init__(self, plan: ServerPlan) -> None:
        self.plan = plan
        self.protocol = plan.protocol
        self._opening = plan.protocol.opening
        self._least = self._opening.least
        self.clients = len(plan.samples)
        self.tasks = TaskTable()
        self.version = 0
        self.phase = ServerPhase.FILLING
        self.stopped: str | None = None
        self.unknown_tasks = 0
        """Number of updates rejected because their task was never begun."""
        self.noted: Counter[str] = Counter()
        """Unusual observation of the aggregation rule -> number of versions with it."""
        self.samples = plan.samples.copy()
        """(clients,) training samples of each client, as reported when it joined."""
        self.population = Population(self.clients, self.samples)
        self._algorithm = AlgorithmState(plan.algorithm, len(plan.initial), self.clients)
        present = np.full(self.clients, plan.all_present)
        self.validator = MessageValidator(self.tasks, present, self._algorithm.payloads.uploads)
        self._cohorts = Cohorts(plan.protocol, self.population, self.tasks, plan.streams)
        self._buffer: list[TaskRecord] = []
        """Updates in the buffer that is being filled."""
        self._waiting: list[TaskRecord] = []
        """Updates that have arrived behind a buffer that is being aggregated."""
        self._waiting_max = 0
        """Most of them at once since the last version."""
        self._participations = Participations(plan.protocol, self.clients, self.tasks)
        self._may_rest = plan.protocol.per_client is not None or self._participations.is_limited
        """Whether a client that is idle may have to wait."""
        self._draws_alone = plan.protocol.selection.independent
        """Whether each client is drawn by itself, so that a cohort may be empty."""
        self._resting: set[int] = set()
        """Clients that are idle, and have their share of the buffer or of the versions for now."""
        self._failed: Counter[Fate] = Counter()
        """Tasks that failed since the last update arrived."""
        self._give_up_at = max(LEAST_TASKS, TASKS_PER_CLIENT * self.clients)
        defences = DefenceState(plan.defence, plan.protocol, self.clients, plan.streams)
        self._aggregation = Aggregation(defences, self.tasks, self.samples, plan.instrument, plan.algorithm)
        self._made: AggregationResult | None = None

    # --- messages --------------------------------------------------------------------------------------------------

    def start(self, time_s: float = 0.0) -> list[Action]:
        """Publish version 0, begin the first tasks and return the actions. If the plan says that all clients are
        present, all become idle first; otherwise only clients that have joined are idle. Raises: MessageError if the
        server has started before."""
        self.validator.check_start(time_s)
        if self.plan.all_present:
            self.population.add_all()
        actions: list[Action] = [self._released(Publish(0, self.plan.initial))]
        if self.protocol.time_limit_s is not None:
            actions.append(SetTimer("time_limit", self.protocol.time_limit_s))
        self._cohorts.begin_cohort(self.version, time_s, actions)
        self._publish_of_nobody(time_s, actions)
        self._refill(time_s, actions)
        self._stop_without_clients(actions)
        self.validator.record_start(time_s, actions)
        return actions

    def handle(self, message: Input) -> list[Action]:
        """Process `message` and return the actions that follow. A stopped server returns none. Raises: MessageError for
        an impossible message; nothing has changed then."""
        actions: list[Action] = []
        if self.phase is ServerPhase.STOPPED:
            return actions
        self.validator.check(message)
        self._handle(message, actions)
        self.validator.record(message, actions)
        return actions

    def _handle(self, message: Input, actions: list[Action]) -> None:
        match message:
            case UpdateArrived():
                self._arrived(message, actions)
            case Collected():
                self._collected(message, actions)
            case ScoresArrived():
                self._scored(message, actions)
            case ClientIdle():
                self._make_idle(message.client)
            case ClientJoined():
                self.samples[message.client] = message.samples
                self._make_idle(message.client)
            case ClientLeft():
                self._remove(message.client)
                for task in self.tasks.unanswered_of(message.client):
                    self._gone(ClientGone(message.client, task, Fate.DROPPED_OUT, time_s=message.time_s), actions)
            case ClientGone():
                self._gone(message, actions)
            case TimerFired():
                self._timer(message, actions)
            case ClientRetired():
                # The client is at a task, or no task has begun yet: no other action follows.
                self.population.retire(message.client)
                return
        if not self.validator.is_started:
            return
        if self._draws_alone:
            self._publish_of_nobody(message.time_s, actions)
        self._open_if_ready(message.time_s, actions)
        if self._failed and self.phase is ServerPhase.FILLING and self._failed.total() >= self._give_up_at:
            # If all clients are offline, or the links lose everything, each failed task is followed by another.
            fates = ", ".join(f"{number} {fate.value}" for fate, number in sorted(self._failed.items()))
            self._stop(f"no update reached the server in the last {self._failed.total()} tasks ({fates})", actions)
        if self.phase is not ServerPhase.COLLECTING:
            # If the new version is published at once, the client that replaces the last arrival trains from it.
            self._refill(message.time_s, actions)
            self._open_if_ready(message.time_s, actions)
        self._stop_without_clients(actions)

    def _arrived(self, message: UpdateArrived, actions: list[Action]) -> None:
        task = self._cohorts.end(message.task, self._awaited)
        if task is None:
            # The server gave the task up before, or banned its client: discard the update.
            if not 0 <= message.task < self.tasks.begun:
                self.unknown_tasks += 1
                actions.append(Settle(message.task, Fate.REJECTED, detail="not asked for"))
            return
        self._failed.clear()
        self.population.statistics.durations_s[task.client] = message.time_s - task.sent_s
        if self.phase is ServerPhase.FILLING and (task.cohort == self.version or self.protocol.late == "carry"):
            self._enter([task], actions)
        elif self.protocol.late == "carry":
            self._waiting.append(task)
            self._waiting_max = max(self._waiting_max, len(self._waiting))
        else:
            self._settle([task], Fate.SURPLUS if self._cohorts.has_reserves else Fate.LATE, actions)
        self._make_idle(task.client)

    def _make_idle(self, client: int) -> None:
        """Have the client asked again: now, or once the buffer has room for its updates (`Protocol.per_client`) and the
        next version is far enough from the last that it entered (`Protocol.min_separation`)."""
        if self._may_rest and self._must_rest(client):
            self._resting.add(client)
        else:
            self.population.add(client)

    def _must_rest(self, client: int) -> bool:
        return self._has_share(client) or not self._participations.may_take_part(client, self.version)

    def _has_share(self, client: int) -> bool:
        """Whether the buffer and the updates behind it hold as many updates of the client as a buffer may."""
        share = self.protocol.per_client
        return share is not None and sum(one.client == client for one in (*self._buffer, *self._waiting)) >= share

    @property
    def resting(self) -> int:
        """Number of clients that are idle and wait for later versions or room in the buffer."""
        return len(self._resting)

    def likely_tasks(self, count: int) -> list[tuple[int, int]]:
        """Return client and turn of tasks that are likely to begin next, see `Cohorts.likely`. They may never begin."""
        return self._cohorts.likely(min(count, len(self.population) // IDLE_PER_GUESS))

    def _rouse(self) -> None:
        """Have clients asked again that need rest no longer."""
        for client in sorted(self._resting):
            if not self._must_rest(client):
                self._resting.discard(client)
                self.population.add(client)

    def _remove(self, client: int) -> None:
        """Have the client not asked until it is idle again."""
        self._resting.discard(client)
        self.population.remove(client)

    def _gone(self, message: ClientGone, actions: list[Action]) -> None:
        self._remove(message.client)
        if message.fate is None:
            self._cohorts.withdraw(message.task, self._awaited)
        elif (task := self._cohorts.end(message.task, self._awaited)) is not None:
            self._failed[message.fate] += 1
            self._settle([task], message.fate, actions)

    def _timer(self, message: TimerFired, actions: list[Action]) -> None:
        name, _, number = message.timer.partition(":")
        if name == AGGREGATION:
            self._publish(message.time_s, actions)
        elif name == "cohort":
            self._cohorts.repeat(self.version, message.time_s, actions, is_empty=self._is_empty)
        elif name == "time_limit":
            self._stop("time limit reached", actions)
        elif name == "deadline":
            self._cohorts.deadline(int(number))
        elif name == "poll":
            self._cohorts.poll()
            self._open_if_ready(message.time_s, actions, looks=True)

    # --- filling the buffer ----------------------------------------------------------------------------------------

    @property
    def _awaited(self) -> int | None:
        """Version whose cohort fills the current buffer; None if no buffer is being filled."""
        return self.version if self.phase is ServerPhase.FILLING else None

    @property
    def _is_empty(self) -> bool:
        """Whether a buffer is being filled and holds no update yet."""
        return self.phase is ServerPhase.FILLING and not self._buffer

    def _refill(self, time_s: float, actions: list[Action]) -> None:
        if self.phase is not ServerPhase.STOPPED:
            self._cohorts.refill(self.version, time_s, actions, is_empty=self._is_empty)
            if self._draws_alone:
                self._publish_of_nobody(time_s, actions)

    def _open_if_ready(self, time_s: float, actions: list[Action], *, looks: bool = False) -> None:
        """Take the updates of the buffer and ask for their parameters, if enough have arrived or no more can arrive. A
        server that looks at its buffer at regular times does so only then: `looks`."""
        held = len(self._buffer)
        if self.phase is not ServerPhase.FILLING or not held or (held < self._least and self._cohorts.coming):
            return
        is_last = self.version + 1 == self.protocol.rounds
        filling, opening = self._cohorts.filling(held, is_last=is_last), self._opening
        enough = opening.is_open(filling)
        if not enough and (filling.coming or self._cohorts.startable):
            return
        if not looks and self._cohorts.waits_for_poll(self.version, time_s, actions):
            return
        if not enough:
            actions.append(ShortBuffer(filling.held, opening.target(filling)))
        taken = filling.held if opening.updates is None else opening.updates
        self.phase = ServerPhase.COLLECTING
        updates, rest = self._buffer[:taken], self._buffer[taken:]
        self._buffer, self._waiting = [], rest + self._waiting
        self._waiting_max = max(self._waiting_max, len(self._waiting))
        if self.protocol.late == "drop":
            # All are of one cohort. Sort them, so that floating-point sums do not depend on the order of arrival.
            updates.sort(key=lambda task: (task.client, task.number))
        self._rouse()
        actions.append(self._aggregation.open(updates, self.version))

    def _enter(self, tasks: Iterable[TaskRecord], actions: list[Action]) -> None:
        """Add updates to the buffer, unless they are too old for the version that it makes."""
        for task in tasks:
            if (oldest := self.protocol.max_staleness) is not None and self.version - task.base_version > oldest:
                self._settle([task], Fate.STALE, actions)
            else:
                self._buffer.append(task)

    def _admit(self, actions: list[Action]) -> None:
        queued, self._waiting = self._waiting, []
        self._enter(queued, actions)
        self._rouse()

    # --- making the next version -----------------------------------------------------------------------------------

    def _collected(self, message: Collected, actions: list[Action]) -> None:
        if isinstance(message, CollectedSum) and not message.unmasked:
            if (reason := self._aggregation.discard_masked(actions)) is not None:
                self._stop(reason, actions)
            else:
                self._discard(actions)
            return
        sound, banned = self._aggregation.reject(message, actions)
        self._ban(banned, actions)
        if message.losses is not None:
            self.population.statistics.collected(self._aggregation.clients[sound], message.losses[sound])
        if self._aggregation.fill(message, sound, banned, self.version, actions):
            self._request_or_decide(message.time_s, actions)
        else:
            self._discard(actions)

    def _discard(self, actions: list[Action]) -> None:
        """Return to filling for the same version after a buffer without one usable update, or stop if none can be
        expected."""
        self.phase = ServerPhase.FILLING
        reason = self.population.why_none_left or self._aggregation.why_stop(self.population.excluded)
        if reason is not None:
            self._stop(reason, actions)
        else:
            self._admit(actions)

    def _request_or_decide(self, time_s: float, actions: list[Action]) -> None:
        request = self._aggregation.request()
        if request is None:
            self._decide(None, time_s, actions)
        else:
            self.phase = ServerPhase.SCORING
            actions.append(request)

    def _scored(self, message: ScoresArrived, actions: list[Action]) -> None:
        if message.scores is None:
            self._request_or_decide(message.time_s, actions)
        else:
            self._decide(message.scores, message.time_s, actions)

    def _decide(self, scores: Floats | None, time_s: float, actions: list[Action]) -> None:
        seconds = self.plan.seconds_to(self.version + 1, len(self._aggregation.tasks))
        self._made = made = self._aggregation.decide(scores, actions)
        if made.notes:
            self.noted.update(set(made.notes))
        self._ban(made.banned, actions)
        self.phase = ServerPhase.AGGREGATING
        if seconds:
            actions.append(SetTimer(AGGREGATION, seconds))
        else:
            self._publish(time_s, actions)

    def _ban(self, clients: tuple[int, ...], actions: list[Action]) -> None:
        for client in clients:
            self.population.ban(client)
            actions.append(Ban(client))
            theirs = [task for task in (*self._buffer, *self._waiting) if task.client == client]
            self._buffer = [task for task in self._buffer if task.client != client]
            self._waiting = [task for task in self._waiting if task.client != client]
            self._settle(theirs, Fate.BANNED, actions)
            # Updates in flight may still arrive; the server no longer waits for them.
            self._settle(self._cohorts.remove(client, self._awaited), Fate.BANNED, actions)

    def _publish(self, time_s: float, actions: list[Action]) -> None:
        """Publish the result of the aggregation as the next version, with the server's noise, and begin the next
        cohort. Stops after the last version, or if no client is left. Appends to `actions`."""
        if self._made is None:
            raise ValueError("nothing to publish")
        made, self._made = self._made, None
        self.version += 1
        self.population.statistics.version = self.version
        model, std = made.model, 0.0
        if self.plan.noise is not None and (made.updates or self._cohorts.drew_nobody):
            model, std = self.plan.noise(made, self.version)
        if made.accepted is not None and made.updates:
            model = self._algorithm.apply(model, self.tasks.current, made.accepted)
        model.flags.writeable = False
        self._aggregation.publish(made, actions)
        for client in self._participations.record((one.task.client for one in made.updates), self.version):
            self._resting.discard(client)
            self.population.exhaust(client)
        ages = tuple(one.staleness for one in made.updates)
        waited, self._waiting_max = self._waiting_max, 0
        publish = Publish(self.version, model, len(ages), ages, std, made.clip_norm, waiting_max=waited)
        actions.append(self._released(publish))
        self.phase = ServerPhase.FILLING
        if self.version >= self.protocol.rounds:
            self._stop("all versions published", actions)
            return
        self._stop_without_clients(actions)
        if self.stopped is not None:
            return
        self._admit(actions)
        self._cohorts.begin_cohort(self.version, time_s, actions)

    def _publish_of_nobody(self, time_s: float, actions: list[Action]) -> None:
        """Publish a version of no update, with the server's noise, for each cohort for which nobody was drawn."""
        while self.phase is ServerPhase.FILLING and self._cohorts.drew_nobody:
            if self._buffer or self._waiting or self.tasks.in_flight:
                return
            self._made = AggregationResult(self.tasks.current.copy(), (), None, (), ())
            self._publish(time_s, actions)

    def _released(self, publish: Publish) -> Publish:
        """Store the published model, and return `publish` with the compressed model that clients are sent, if any."""
        download = None if self.plan.downloads is None else self.plan.downloads(publish.model, publish.version)
        payloads = self._algorithm.download()
        if payloads:
            download = dataclass_replace(download or Download(publish.model), payloads=payloads)
            publish = replaced(publish, payloads=payloads)
        self.tasks.publish(publish.version, publish.model, download)
        return (
            publish if download is None or download.model is publish.model else replaced(publish, sent=download.model)
        )

    # --- ends ------------------------------------------------------------------------------------------------------

    def _settle(self, tasks: Iterable[TaskRecord], fate: Fate, actions: list[Action]) -> None:
        actions.extend(self.tasks.settle(task.number, fate) for task in tasks)

    def _stop(self, reason: str, actions: list[Action]) -> None:
        self._settle([*self._buffer, *self._waiting], Fate.SURPLUS, actions)
        self._buffer, self._waiting = [], []
        self._settle([*self._aggregation.clear(), *self.tasks.in_flight.values()], Fate.UNFINISHED, actions)
        self.tasks.in_flight.clear()
        self.phase = ServerPhase.STOPPED
        self.stopped = reason
        self.tasks.check()
        actions.append(Stop(reason))

    def _stop_without_clients(self, actions: list[Action]) -> None:
        """Stop if no task is under way, and no client can ever be asked again or the selection chooses none."""
        if self.phase is not ServerPhase.FILLING or self._buffer or self._waiting or self.tasks.in_flight:
            return
        reason, idle = self.population.why_none_left, len(self.population)
        if reason is None and idle and self._cohorts.drew_none and not self._cohorts.drew_nobody:
            reason = f"selection {kind_of(self.protocol.selection)} chose none of {idle} idle clients"
        if reason is not None:
            self._stop(reason, actions)

    def rehearse(self, models: Vector, upload_std: Floats, work: Floats | None, scores: Scores) -> tuple[Bools, Vector]:
        """Predict the strikes and the next model if the buffer being collected held these updates. The server does not
        change. Used by attackers that know the defence.

        `models`: (n_updates, n_parameters) in the order of `Collect.tasks`; `upload_std`, `work`: as in `Collected`;
        `scores`: the answers that clients would give to a request for scores.
        """
        return self._aggregation.rehearse(models, upload_std, work, self.version, scores)

    def stop(self, reason: str) -> list[Action]:
        """Stop the run, because nothing can happen any more or the model diverged, and return the last actions; none if
        the server has stopped before."""
        actions: list[Action] = []
        if self.phase is not ServerPhase.STOPPED:
            self._stop(reason, actions)
        return actions
