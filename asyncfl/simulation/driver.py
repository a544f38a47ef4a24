"""The clock: SimPy carries out what the server asks for and tells it what happened.

One process per task in flight; a client at rest costs nothing. What two events of the same time do is settled by the
order in which they were scheduled.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, TypeAlias

import numpy as np
import simpy
from numpy.typing import NDArray

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
from asyncfl.privacy.adaptive.shuffle import Shuffler
from asyncfl.privacy.meter import Meter
from asyncfl.server import Phase, Scoring, Server
from asyncfl.trace import Kind, Recorder
from asyncfl.trace.events import SCORING_DOWN, SCORING_UP
from asyncfl.trace.recorder import NAN
from asyncfl.trace.requests import NO_ANSWER
from asyncfl.world import Transfer, WorldState

JUDGED = {
    Fate.AGGREGATED: Kind.AGGREGATED,
    Fate.FLAGGED: Kind.FLAGGED,
    Fate.REJECTED: Kind.REJECTED,
}
"""Fates that have an event of their own; the server's other verdicts are `discarded` with the fate as detail."""


BYTES_PER_SCORE = 8

Steps: TypeAlias = Generator[simpy.Event, None, None]


class Worker(Protocol):
    """Carries out tasks when they are collected, or each as soon as its training ends on the clock."""

    @property
    def every_task(self) -> bool:
        """Whether each task must be trained, whatever becomes of its update."""
        ...

    def train(self, task: TaskInFlight) -> None:
        """Train a task whose training has just ended on the clock. Asked for only with `every_task`."""
        ...

    def drop(self, task: TaskInFlight) -> None:
        """A task that `train` was asked for will not be collected."""
        ...

    def carry_out(self, time_s: float, tasks: Sequence[TaskInFlight]) -> Collected:
        """What the clients of `tasks` upload."""
        ...

    def score(self, request: RequestScores) -> NDArray[np.float64]:
        """(n_models,) what the client answers that was asked to score models."""
        ...


class Attackers(Protocol):
    """Who attacks, as far as the clock has to know."""

    def begin(self, task: int, client: int) -> None:
        """Take note of a task that is begun."""
        ...

    def speed(self, task: int, client: int) -> float:
        """How many times as fast as usual a task is done. Asked for each task, after those begun with it."""
        ...


class Watcher(Protocol):
    """Looks at every verdict and every published model."""

    def judged(self, judged: Judged) -> None:
        """Take note of a detector's verdict."""
        ...

    def published(self, time_s: float, publish: Publish, traffic: Traffic) -> str | None:
        """Take note of a version; a text is the reason to stop the run."""
        ...


@dataclass(slots=True)
class TaskInFlight:
    """What the driver knows about a task until its fate is settled."""

    number: int
    client: int
    base_version: int
    turn: int = 0
    """Tasks that the client was given before."""
    arrived_s: float = NAN
    """When its update reached the server; NaN: not yet, or never."""
    base: Vector | None = None
    """The model that it was sent, kept where the task must be trained even after the server has forgotten it."""
    trained: bool = False
    """Whether it has been trained ahead of its collection."""
    overheard: bool = False
    """Whether the tap holds its update."""


@dataclass
class Traffic:
    """What went over the links, and what the tap holds of it."""

    bytes_up: int = 0
    bytes_down: int = 0
    overheard_up: dict[int, int] = field(default_factory=dict)
    """Client -> its updates that the tap holds."""
    overheard_down: dict[int, int] = field(default_factory=dict)
    """Client -> models sent to it that the tap holds."""
    overheard_versions: set[int] = field(default_factory=set)
    """Versions that the tap holds from any downlink."""


def _marks(
    transfer: Transfer, again: Callable[..., None], overheard: Callable[[], None]
) -> Iterator[tuple[float, Callable[[], None]]]:
    """What there is to write down of a message on its way, each with its time in seconds after the start."""
    for attempt, (at_s, size) in enumerate(zip(transfer.waits_s, transfer.resent_bytes, strict=True), 2):
        yield at_s, partial(again, size=size, attempt=attempt)
    if transfer.overheard:
        yield transfer.overheard_s, overheard


def _later(env: simpy.Environment, delay_s: float, do: Callable[[], None]) -> None:
    """Call `do` after a while: cheaper than a process of its own."""
    event = env.timeout(delay_s)
    if event.callbacks is not None:
        event.callbacks.append(lambda _: do())


class Driver:
    """One seed of a run on the clock."""

    def __init__(
        self,
        server: Server,
        world: WorldState,
        recorder: Recorder,
        *,
        samples: NDArray[np.int64],
        epochs: int,
        payload_bytes: int,
        scoring: Scoring = "parallel",
        worker: Worker | None = None,
        watcher: Watcher | None = None,
        attackers: Attackers | None = None,
        station: Shuffler | None = None,
        meter: Meter | None = None,
    ) -> None:
        """`worker` None runs the clock alone, without training. `samples`: (clients,); `epochs` per task.

        `attackers` are told of each task that is begun, and how fast it is done (flooding).
        `station`: what the updates of a buffer pass together on their way to the server. `meter`: budgets at which
        clients stop answering.
        """
        self.server = server
        self.world = world
        self.recorder = recorder
        self.samples = samples
        self.epochs = epochs
        self.payload_bytes = payload_bytes
        self.scoring = scoring
        self.worker = worker
        self.watcher = watcher
        self.attackers = attackers
        self.station = station
        self.meter = meter
        self.spent: dict[int, float] = {}
        """Client -> when its budget was spent: its last upload began then."""
        self.traffic = Traffic()
        self.tasks: dict[int, TaskInFlight] = {}
        self.fates: Counter[Fate] = Counter()
        self.trained = 0
        self.used = 0
        self._turns: Counter[int] = Counter()
        self._collected: tuple[int, ...] = ()
        """Tasks of the buffer that was collected last."""
        self._running: dict[int, simpy.Process] = {}
        """Client -> its latest task, where scoring waits for that."""
        self._unreached: deque[ClientGone] = deque()
        self.env = simpy.Environment()

    def run(self) -> str:
        """Run to the end. Returns the reason why it ended."""
        for client in range(len(self.samples) if self.meter is not None else 0):
            self._check_budget(client)
        self._carry_out(self.server.start(self.env.now))
        server, env = self.server, self.env
        while server.phase is not Phase.STOPPED:
            if env.peek() == math.inf:
                spent = f", {len(self.spent)} of {server.clients} have spent their budget" if self.spent else ""
                self._carry_out(server.stop(f"nothing can happen any more: no client can come{spent}"))
                break
            env.step()
        return str(server.stopped)

    def tell(self, message: Input) -> None:
        """Hand a message to the server and carry out its answer."""
        self._carry_out(self.server.handle(message))

    # --- carrying out actions --------------------------------------------------------------------------------------

    def _carry_out(self, actions: Iterable[Action]) -> None:
        waiting = deque(actions)
        while waiting or self._unreached:
            if not waiting:
                waiting.extend(self.server.handle(self._unreached.popleft()))
                continue
            action = waiting.popleft()
            match action:
                case Dispatch():
                    self._dispatch(action)
                case Settle():
                    self._settled(action)
                case Publish():
                    waiting.extend(self._published(action))
                case Collect() if self.station is not None and self.station.seconds:
                    self.env.process(self._pass_station(action, self.station.seconds))
                case Collect():
                    # Answered before anything else: at the same virtual time, whatever it costs here.
                    waiting.extendleft(reversed(self.server.handle(self._collect(action))))
                case SetTimer():
                    self.env.process(self._timer(action))
                case RequestScores():
                    self.env.process(self._score(action))
                case Judged():
                    if self.watcher is not None:
                        self.watcher.judged(action)
                case Ban():
                    self._record(Kind.BANNED, client=action.client)
                case ShortBuffer():
                    self._record(Kind.SHORT_BUFFER, detail=f"{action.held} of {action.wanted} updates")
                case CohortRepeated():
                    self._record(Kind.COHORT_REPEATED, detail=f"nothing came of {action.size} tasks")
                case Stop():
                    self._record(Kind.STOPPED, detail=action.reason)

    def _record(self, kind: Kind, client: int = -1, detail: str = "", size: int = -1, attempt: int = -1) -> None:
        """Record an event that is of no task."""
        version = self.server.version
        self.recorder.add(self.env.now, kind, -1, client, version, size=size, attempt=attempt, detail=detail)

    def _note(
        self,
        kind: Kind,
        task: TaskInFlight,
        staleness: int = -1,
        size: int = -1,
        attempt: int = -1,
        weight: float = NAN,
        detail: str = "",
    ) -> None:
        """Record an event of a task."""
        # By position: most events are of tasks, and naming the columns costs as much as writing them down.
        number, client, base = task.number, task.client, task.base_version
        version = self.server.version
        self.recorder.add(self.env.now, kind, number, client, version, base, staleness, size, attempt, weight, detail)

    def _published(self, action: Publish) -> list[Action]:
        self._record(Kind.PUBLISHED, detail="" if action.version else "initial model")
        if self.watcher is None:
            return []
        reason = self.watcher.published(self.env.now, action, self.traffic)
        return [] if reason is None else self.server.stop(reason)

    def _train_now(self, task: TaskInFlight) -> None:
        if self.worker is None or not self.worker.every_task:
            return
        self.trained += 1
        self.worker.train(task)
        task.trained, task.base = True, None
        if task.number not in self.tasks:
            # Given up, or its client banned, while it was trained.
            self.worker.drop(task)

    def _settled(self, action: Settle) -> None:
        if action.fate is Fate.REJECTED and action.task not in self.tasks:
            # An update that nobody asked for: it is of no task, and counts as none.
            self._record(JUDGED[action.fate], detail=action.detail)
            return
        task = self.tasks.pop(action.task)
        if self.worker is not None and task.trained:
            self.worker.drop(task)
        self.fates[action.fate] += 1
        self.used += action.weight > 0
        if action.fate in (Fate.LOST_DOWN, Fate.LOST_UP, Fate.DROPPED_OUT, Fate.UNFINISHED):
            return
        kind = JUDGED.get(action.fate, Kind.DISCARDED)
        detail = action.fate.value if kind is Kind.DISCARDED else action.detail
        self._note(kind, task, staleness=action.staleness, weight=action.weight, detail=detail)

    def _pass_station(self, action: Collect, seconds: float) -> Steps:
        yield self.env.timeout(seconds)
        if self.server.phase is not Phase.STOPPED:
            self.tell(self._collect(action))

    def _collect(self, action: Collect) -> Collected:
        if self.station is not None:
            detail = f"{len(action.tasks)} updates, {self.station.swaps} swaps in each layer"
            self._record(Kind.SHUFFLED, detail=detail)
        self._collected = action.tasks
        tasks = [self.tasks[number] for number in action.tasks]
        if self.worker is None:
            nothing = np.empty((len(tasks), 0), dtype=np.float32)
            return Collected(self.env.now, action.tasks, nothing, np.zeros(len(tasks)))
        if not self.worker.every_task:
            self.trained += len(tasks)
        collected = self.worker.carry_out(self.env.now, tasks)
        for task in tasks:
            task.trained = False
        return collected

    def _score(self, action: RequestScores) -> Steps:
        """A client downloads models, evaluates each on its data and sends the scores."""
        client, number = action.client, len(action.models)
        size = number * self.payload_bytes
        self._record(Kind.SCORES_REQUESTED, client=client, detail=f"{number} models", size=size)
        if client in self._running:
            yield self._running[client]
        scores = None
        # As with tasks, the server does not know who is away; nothing is sent to who cannot be reached.
        if client not in self.spent and self.world.online(client, self.env.now):
            answers = yield from self._answers(action, size)
            if answers and client not in self.spent and self.worker is not None:
                scores = self.worker.score(action)
        detail = f"{number} models" if scores is not None else NO_ANSWER
        self._record(Kind.SCORED, client=client, detail=detail)
        self.tell(ScoresArrived(self.env.now, action.request, scores))

    def _answers(self, action: RequestScores, size: int) -> Generator[simpy.Event, None, bool]:
        """Carry out a request. False: the client went offline before its end, or a message was lost."""
        client, number = action.client, len(action.models)
        draws = self.world.scoring(client, action.request)
        down = draws.download(size)
        self._watch_scoring(client, down, SCORING_DOWN)
        if not (yield from self._waits(client, down.duration_s)):
            return False
        self.traffic.bytes_down += down.sent_bytes
        evaluate_s = draws.evaluate_s(int(self.samples[client]), number)
        if not (down.delivered and (yield from self._waits(client, evaluate_s))):
            return False
        up = draws.upload(number * BYTES_PER_SCORE)
        self._watch_scoring(client, up, SCORING_UP)
        if not (yield from self._waits(client, up.duration_s)):
            return False
        self.traffic.bytes_up += up.sent_bytes
        return up.delivered

    def _timer(self, action: SetTimer) -> Steps:
        yield self.env.timeout(action.delay_s)
        if self.server.phase is not Phase.STOPPED:
            self._record(Kind.TIMER_FIRED, detail=action.timer)
            self.tell(TimerFired(self.env.now, action.timer))

    # --- a task on its way -----------------------------------------------------------------------------------------

    def _dispatch(self, action: Dispatch) -> None:
        if not self.world.online(action.client, self.env.now):
            # Availability is looked up when it matters: the server drew a client that it took for idle.
            self._record(Kind.WENT_OFFLINE, client=action.client)
            self.env.process(self._return(action.client))
            self._unreached.append(ClientGone(self.env.now, action.client, action.task, None))
            return
        task = TaskInFlight(action.task, action.client, action.version, self._turns[action.client])
        if self.worker is not None and self.worker.every_task:
            task.base = self.server.tasks.model(task.base_version)
        self.tasks[task.number] = task
        self._turns[task.client] += 1
        if self.attackers is not None:
            self.attackers.begin(task.number, task.client)
        self._note(Kind.DISPATCHED, task)
        process = self.env.process(self._task(task))
        if self.scoring == "serial":
            self._running[task.client] = process

    def _task(self, task: TaskInFlight) -> Steps:
        draws = self.world.task(task.client, task.number)
        speed = 1.0 if self.attackers is None else self.attackers.speed(task.number, task.client)

        self._note(Kind.DOWNLOAD_STARTED, task, size=self.payload_bytes)
        down = draws.download(self.payload_bytes)
        self._watch(task, down, speed, "down")
        if not (yield from self._stays(task, down.duration_s / speed)):
            return
        self.traffic.bytes_down += down.sent_bytes
        self._transferred(task, down, Kind.DOWNLOADED, "down")
        if not down.delivered:
            self._ended(task, Fate.LOST_DOWN)
            return

        self._note(Kind.TRAINING_STARTED, task)
        compute_s = draws.compute_s(int(self.samples[task.client]), self.epochs) / speed
        gives_up_at = draws.dropout()
        if not (yield from self._stays(task, compute_s * (1.0 if gives_up_at is None else gives_up_at))):
            return
        if gives_up_at is not None:
            self._note(Kind.DROPPED_OUT, task)
            self._ended(task, Fate.DROPPED_OUT)
            return
        self._note(Kind.TRAINED, task)
        self._train_now(task)

        self._note(Kind.UPLOAD_STARTED, task, size=self.payload_bytes)
        if self.meter is not None:
            # Sent is spent, whether or not it arrives: somebody may hear it.
            self.meter.send(task.client)
            self._check_budget(task.client)
        up = draws.upload(self.payload_bytes)
        self._watch(task, up, speed, "up")
        if not (yield from self._stays(task, up.duration_s / speed)):
            return
        self.traffic.bytes_up += up.sent_bytes
        self._transferred(task, up, Kind.UPLOADED, "up")
        if up.delivered:
            task.arrived_s = self.env.now
            self.tell(UpdateArrived(self.env.now, task.number))
        else:
            self._ended(task, Fate.LOST_UP)

    def _check_budget(self, client: int) -> None:
        """Have the client say so where one more upload would take it past its budget."""
        if self.meter is None or self.meter.affords(client, self._turns[client]):
            return
        self.spent[client] = self.env.now
        meter = self.meter
        detail = (
            f"epsilon {meter.spent(client):.6g} of {meter.stop_at.epsilon:g} spent on {meter.uploads(client)} uploads, "
            f"one more would make it {meter.would_spend(client):.6g}"
        )
        self._record(Kind.BUDGET_SPENT, client=client, detail=detail)
        self.tell(BudgetSpent(self.env.now, client))

    def _stays(self, task: TaskInFlight, duration_s: float) -> Generator[simpy.Event, None, bool]:
        """Wait for a phase of the task. False: the client went offline before its end, and the task with it."""
        if (yield from self._waits(task.client, duration_s)):
            return True
        self._note(Kind.WENT_OFFLINE, task)
        self._note(Kind.DROPPED_OUT, task, detail="offline")
        self.env.process(self._return(task.client))
        self._ended(task, Fate.DROPPED_OUT, idle=False)
        return False

    def _waits(self, client: int, duration_s: float) -> Generator[simpy.Event, None, bool]:
        """Wait as long as that, or until the client goes offline, then False."""
        until = self.world.next_change(client, self.env.now)
        stays = self.env.now + duration_s <= until
        yield self.env.timeout(duration_s if stays else until - self.env.now)
        return stays

    def _return(self, client: int) -> Steps:
        back_s = self.world.next_change(client, self.env.now)
        if back_s == float("inf"):
            return
        yield self.env.timeout(back_s - self.env.now)
        if self.server.phase is not Phase.STOPPED:
            self._record(Kind.CAME_ONLINE, client=client)
            self.tell(ClientIdle(self.env.now, client))

    def _ended(self, task: TaskInFlight, fate: Fate, *, idle: bool = True) -> None:
        """The task came to nothing. Its client says so when it asks for work again: asking is taken as reliable."""
        self.tell(ClientGone(self.env.now, task.client, task.number, fate))
        if idle:
            self.tell(ClientIdle(self.env.now, task.client))

    def _watch(self, task: TaskInFlight, transfer: Transfer, speed: float, way: str) -> None:
        """Have written down when packets are sent again, and when the tap has all: as long as the client is online."""
        if not (transfer.waits_s or transfer.overheard):
            return
        until = self.world.next_change(task.client, self.env.now)
        again = partial(self._note, Kind.RETRANSMITTED, task, detail=way)
        for at_s, record in _marks(transfer, again, partial(self._overheard, task, way)):
            if self.env.now + at_s / speed <= until:
                _later(self.env, at_s / speed, record)

    def _watch_scoring(self, client: int, transfer: Transfer, way: str) -> None:
        if not (transfer.waits_s or transfer.overheard):
            return
        until = self.world.next_change(client, self.env.now)
        again = partial(self._record, Kind.RETRANSMITTED, client, way)
        for at_s, record in _marks(transfer, again, partial(self._overheard_scoring, client, way)):
            if self.env.now + at_s <= until:
                _later(self.env, at_s, record)

    def _overheard_scoring(self, client: int, way: str) -> None:
        """The tap has the models of a request, and so each update of the buffer; or it has scores."""
        self._record(Kind.OVERHEARD, client, way)
        for number in self._collected if way == SCORING_DOWN else ():
            if (task := self.tasks.get(number)) is not None and not task.overheard:
                self._overheard(task, way)

    def _overheard(self, task: TaskInFlight, way: str) -> None:
        task.overheard |= way != "down"
        held = self.traffic.overheard_down if way == "down" else self.traffic.overheard_up
        held[task.client] = held.get(task.client, 0) + 1
        if way == "down":
            self.traffic.overheard_versions.add(task.base_version)
        self._note(Kind.OVERHEARD, task, detail=way)

    def _transferred(self, task: TaskInFlight, transfer: Transfer, arrived: Kind, way: str) -> None:
        kind = arrived if transfer.delivered else Kind.LOST
        self._note(kind, task, size=transfer.sent_bytes, attempt=transfer.attempts, detail=way)
