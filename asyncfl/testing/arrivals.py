"""Drive a server by a sequence of arriving updates, without a clock.

    play = arrivals(server(), [3, 5, Lost(2), 3, 1], changes={5: -10.0})
    play.published[-1].model, play.fates, play.banned

Each step takes `step_s` seconds. Timers fire only where the sequence says so, except timers without delay, which fire
after the step that set them.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from asyncfl.base.arrays import Vector
from asyncfl.protocol import Server, ServerPhase
from asyncfl.protocol.messages import (
    Action,
    Ban,
    BufferVerdict,
    ClientGone,
    ClientIdle,
    Collect,
    Collected,
    Dispatch,
    Fate,
    Input,
    Publish,
    ScoreRequest,
    ScoresArrived,
    SetTimer,
    Settle,
    Stop,
    TimerFired,
    UpdateArrived,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Lost:
    """The task of `client` is lost, and the client asks for work again."""

    client: int
    fate: Fate = Fate.LOST_UP


@dataclass(frozen=True, slots=True)
class Idle:
    """A client becomes idle."""

    client: int


@dataclass(frozen=True, slots=True)
class Fires:
    """A timer of the server fires, for example `deadline:0`."""

    timer: str


@dataclass(frozen=True, slots=True)
class Waits:
    """Time passes without an event."""

    seconds: float


Step: TypeAlias = int | Lost | Idle | Fires | Waits
"""One step of a sequence; a number is the client whose update arrives."""

Change: TypeAlias = ArrayLike | Callable[[Dispatch, Vector], ArrayLike]
"""Update of a client, as difference to the model it was sent: a value, or a function of (its task, that model)."""

Scores: TypeAlias = Callable[[int, Vector], ArrayLike | None]
"""(client, models (n_models, n_parameters)) -> (n_models,) scores; None: the client does not answer."""


@dataclass
class Play:
    """A server under test, with all its inputs and actions so far."""

    server: Server
    changes: Change | Mapping[int, Change] = 1.0
    """Updates of the clients: one for all, or by client; 1.0 for clients that are not named."""
    scores: Scores | None = None  # answers of clients to score requests; None: no client answers
    step_s: float = 1.0
    time_s: float = 0.0
    actions: list[Action] = field(default_factory=list)  # all actions of the server, in order
    inputs: list[Input] = field(default_factory=list)  # all inputs of the server, in order
    _tasks: dict[int, Dispatch] = field(default_factory=dict)
    _models: dict[int, Vector] = field(default_factory=dict)
    _at_work: dict[int, deque[int]] = field(default_factory=lambda: defaultdict(deque))
    """Client -> its tasks, the oldest first."""
    _immediate_timers: deque[str] = field(default_factory=deque)
    """Timers without delay, which fire at the end of the step."""

    def start(self) -> Play:
        """Start the server, carry out its first actions, and return this object."""
        self._carry_out(self.server.start(self.time_s))
        return self

    def step(self, step: Step) -> Play:
        """Carry out one step, and return this object.

        Raises ValueError for an update or a loss of a client without a task.
        """
        self.time_s += step.seconds if isinstance(step, Waits) else self.step_s
        match step:
            case Lost():
                self.tell(ClientGone(step.client, self._task_of(step.client), step.fate, time_s=self.time_s))
                self.tell(ClientIdle(step.client, time_s=self.time_s))
            case Idle():
                self.tell(ClientIdle(step.client, time_s=self.time_s))
            case Fires():
                self.tell(TimerFired(step.timer, time_s=self.time_s))
            case int():
                self.tell(UpdateArrived(self._task_of(step), time_s=self.time_s))
        while self._immediate_timers:
            self.tell(TimerFired(self._immediate_timers.popleft(), time_s=self.time_s))
        return self

    def tell(self, message: Input) -> None:
        """Pass an input to the server and carry out its actions."""
        self._carry_out(self._answers(message))

    @property
    def busy(self) -> list[int]:
        """Clients with a task, whose update may arrive next, in ascending order.

        They include clients that were banned or given up during their task, since these do not know it.
        """
        return sorted(client for client, tasks in self._at_work.items() if tasks)

    @property
    def published(self) -> list[Publish]:
        """Published versions, in order, from version 0."""
        return self._all(Publish)

    @property
    def model(self) -> Vector:
        return self.published[-1].model

    @property
    def fates(self) -> dict[int, Settle]:
        """Task -> its settlement."""
        return {settled.task: settled for settled in self._all(Settle)}

    @property
    def judged(self) -> list[BufferVerdict]:
        return self._all(BufferVerdict)

    @property
    def banned(self) -> list[int]:
        """Banned clients, in the order of their bans."""
        return [ban.client for ban in self._all(Ban)]

    @property
    def timers(self) -> list[SetTimer]:
        return self._all(SetTimer)

    @property
    def stopped(self) -> str | None:
        """Reason why the run has ended; None: it has not."""
        return next((stop.reason for stop in self._all(Stop)), None)

    def _all(self, kind: type[T]) -> list[T]:
        return [action for action in self.actions if isinstance(action, kind)]

    def _task_of(self, client: int) -> int:
        """Return the oldest task of a client and remove it. Raises ValueError for a client without a task."""
        if not self._at_work[client]:
            raise ValueError(f"client {client} has no task; clients with tasks: {self.busy}")
        return self._at_work[client].popleft()

    def _answers(self, message: Input) -> list[Action]:
        self.inputs.append(message)
        return self.server.handle(message)

    def _carry_out(self, actions: Iterable[Action]) -> None:
        """Record actions of the server, and answer its requests for updates and for scores."""
        waiting = deque(actions)
        while waiting:
            action = waiting.popleft()
            self.actions.append(action)
            match action:
                case Publish():
                    self._models[action.version] = action.model
                case Dispatch():
                    self._tasks[action.task] = action
                    self._at_work[action.client].append(action.task)
                case Collect():
                    models = np.array([self._upload(self._tasks[task]) for task in action.tasks], dtype=np.float32)
                    models.flags.writeable = False
                    collected = Collected(action.tasks, models, np.zeros(len(models)), time_s=self.time_s)
                    waiting.extendleft(reversed(self._answers(collected)))
                case SetTimer() if action.delay_s == 0:
                    self._immediate_timers.append(action.timer)
                case ScoreRequest():
                    answer = None if self.scores is None else self.scores(action.client, action.models)
                    values = None if answer is None else np.asarray(answer, dtype=np.float64)
                    waiting.extend(self._answers(ScoresArrived(action.request, values, time_s=self.time_s)))

    def _upload(self, task: Dispatch) -> Vector:
        """Return the model that a client uploads for a task, (n_parameters,): its base model plus its update."""
        base = self._models[task.version]
        change = self.changes.get(task.client, 1.0) if isinstance(self.changes, Mapping) else self.changes
        return np.asarray(base + np.asarray(change(task, base) if callable(change) else change), dtype=np.float32)


def arrivals(
    server: Server,
    sequence: Iterable[Step],
    *,
    changes: Change | Mapping[int, Change] = 1.0,
    scores: Scores | None = None,
    step_s: float = 1.0,
    skip_absent: bool = False,
) -> Play:
    """Drive a fresh `server` through a sequence of steps, and return the play; a number is the client that uploads.

    The sequence ends early when the server stops. `changes`: updates of the clients, one for all or by client.
    `scores`: answers of clients to score requests. `step_s`: seconds per step. `skip_absent`: skip steps of clients
    without a task; otherwise these raise ValueError.
    """
    play = Play(server, changes, scores, step_s).start()
    for step in sequence:
        if server.phase is ServerPhase.STOPPED:
            break
        client = step.client if isinstance(step, Lost) else step
        if skip_absent and isinstance(client, int) and client not in play.busy:
            continue
        play.step(step)
    return play
