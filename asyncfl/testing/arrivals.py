"""Driving a server by saying who comes when.

    play = arrivals(server(), [3, 5, Lost(2), 3, 1], changes={5: -10.0})
    play.published[-1].model, play.fates, play.banned

There is no clock: each step takes `step_s` and timers fire only where the sequence says so, those of no delay after
the step that set them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asyncfl.messages import (
    Action,
    Ban,
    ClientGone,
    ClientIdle,
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
    Stop,
    TimerFired,
    UpdateArrived,
    Vector,
)
from asyncfl.server import Server, ServerPhase

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Lost:
    """The task of `client` comes to nothing, and the client asks for work again."""

    client: int
    fate: Fate = Fate.LOST_UP


@dataclass(frozen=True, slots=True)
class Idle:
    """A client is reachable and has nothing to do."""

    client: int


@dataclass(frozen=True, slots=True)
class Fires:
    """A timer that the server has set runs out, for example `deadline:0`."""

    timer: str


@dataclass(frozen=True, slots=True)
class Waits:
    """Time passes, and nothing happens."""

    seconds: float


Step: TypeAlias = int | Lost | Idle | Fires | Waits
"""A number is the client whose update arrives."""

Change: TypeAlias = ArrayLike | Callable[[Dispatch, Vector], ArrayLike]
"""What a client changes in the model it was sent: the difference, or a function of (its task, that model)."""

Scores: TypeAlias = Callable[[int, Vector], ArrayLike | None]
"""(client, models (n_models, n_parameters)) -> (n_models,) scores; None: the client does not answer."""


@dataclass
class Play:
    """A server, what it was told, and what it has done so far."""

    server: Server
    changes: Change | Mapping[int, Change] = 1.0
    """What clients change, for all alike or by client; 1.0 where a client is not named."""
    scores: Scores | None = None
    """What clients answer that are asked to score models; None: nobody answers."""
    step_s: float = 1.0
    """Seconds that each step takes."""
    time_s: float = 0.0
    actions: list[Action] = field(default_factory=list)
    """Everything that the server answered, in order."""
    inputs: list[Input] = field(default_factory=list)
    """Everything that the server was told, in order."""
    _flying: dict[int, deque[Dispatch]] = field(default_factory=dict)
    _at_once: deque[str] = field(default_factory=deque)
    """Timers of no delay: they fire when all of a step has been told."""
    _tasks: dict[int, Dispatch] = field(default_factory=dict)
    _models: dict[int, Vector] = field(default_factory=dict)

    def start(self) -> Play:
        """Let the server begin."""
        self._carry_out(self.server.start(self.time_s))
        return self

    def step(self, step: Step) -> Play:
        """Let one thing happen. Raises ValueError for what cannot: an update of a client that has no task."""
        self.time_s += step.seconds if isinstance(step, Waits) else self.step_s
        match step:
            case Lost():
                task = self._task_of(step.client)
                self.tell(ClientGone(self.time_s, step.client, task.task, step.fate))
                self.tell(ClientIdle(self.time_s, step.client))
            case Idle():
                self.tell(ClientIdle(self.time_s, step.client))
            case Fires():
                self.tell(TimerFired(self.time_s, step.timer))
            case Waits():
                pass
            case _:
                self.tell(UpdateArrived(self.time_s, self._task_of(int(step)).task))
        while self._at_once:
            self.tell(TimerFired(self.time_s, self._at_once.popleft()))
        return self

    def tell(self, message: Input) -> None:
        """Hand the server a message and carry out what it answers."""
        self.inputs.append(message)
        self._carry_out(self.server.handle(message))

    @property
    def busy(self) -> list[int]:
        """Clients whose update may be the next to arrive, in ascending order.

        One that was banned or given up is among them as long as its last task is under way: it does not know.
        """
        return sorted(client for client, tasks in self._flying.items() if tasks)

    @property
    def published(self) -> list[Publish]:
        """Versions published so far, version 0 first."""
        return self._all(Publish)

    @property
    def model(self) -> Vector:
        """(n_parameters,) the newest global model."""
        return self.published[-1].model

    @property
    def fates(self) -> dict[int, Settle]:
        """Task -> how it ended."""
        return {settled.task: settled for settled in self._all(Settle)}

    @property
    def judged(self) -> list[Judged]:
        """A detector's verdicts."""
        return self._all(Judged)

    @property
    def banned(self) -> list[int]:
        """Clients that were banned, in order."""
        return [ban.client for ban in self._all(Ban)]

    @property
    def timers(self) -> list[SetTimer]:
        """Timers that were set."""
        return self._all(SetTimer)

    @property
    def stopped(self) -> str | None:
        """Why the run is over; None: it is not."""
        stops = self._all(Stop)
        return stops[0].reason if stops else None

    def _all(self, kind: type[T]) -> list[T]:
        return [action for action in self.actions if isinstance(action, kind)]

    def _task_of(self, client: int) -> Dispatch:
        tasks = self._flying.get(client)
        if not tasks:
            raise ValueError(f"client {client} has no task; those who have are {self.busy}")
        return tasks.popleft()

    def _carry_out(self, answers: Iterable[Action]) -> None:
        waiting = deque(answers)
        while waiting:
            action = waiting.popleft()
            self.actions.append(action)
            match action:
                case Publish():
                    self._models[action.version] = action.model
                case Dispatch():
                    self._tasks[action.task] = action
                    self._flying.setdefault(action.client, deque()).append(action)
                case Collect():
                    waiting.extendleft(reversed(self._hear(self._collected(action))))
                case SetTimer() if action.delay_s == 0:
                    self._at_once.append(action.timer)
                case RequestScores():
                    answer = None if self.scores is None else self.scores(action.client, action.models)
                    values = None if answer is None else np.asarray(answer, dtype=np.float64)
                    waiting.extend(self._hear(ScoresArrived(self.time_s, action.request, values)))

    def _hear(self, message: Input) -> list[Action]:
        self.inputs.append(message)
        return self.server.handle(message)

    def _collected(self, action: Collect) -> Collected:
        rows = [self._upload(self._tasks[task]) for task in action.tasks]
        models = np.array(rows, dtype=np.float32)
        models.flags.writeable = False
        losses: NDArray[np.float64] = np.zeros(len(rows))
        return Collected(self.time_s, action.tasks, models, losses)

    def _upload(self, task: Dispatch) -> Vector:
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
    """What a fresh `server` does when this happens: a number is the client whose update arrives next.

    `sequence` ends early when the server stops. `changes`: what clients change in the model they were sent, for all or
    by client. `scores`: what a client answers that is asked to score models. Raises ValueError for a client that has
    no task at that moment, unless `skip_absent`: then that step is left out.
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
