"""Validation of messages to a server: an impossible message is refused before anything changes.

The server trusts its driver about events that can have happened, but refuses those that cannot: an unknown client or
task, time that runs backwards, an answer that was given before or not asked for. A simulation sends no such message.
Live clients reconnect, repeat messages, and lie.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from asyncfl.algorithms import Payload
from asyncfl.algorithms.algorithm import check_vectors
from asyncfl.base.errors import MessageError
from asyncfl.protocol.messages import (
    Action,
    ClientGone,
    ClientIdle,
    ClientJoined,
    ClientLeft,
    ClientRetired,
    Collect,
    Collected,
    CollectSum,
    Input,
    ScoreRequest,
    ScoresArrived,
    SetTimer,
    TimerFired,
    UpdateArrived,
)
from asyncfl.protocol.task_table import TaskTable

_REQUESTS = frozenset((Collect, CollectSum, ScoreRequest, SetTimer))
"""Actions that are answered by a message, except for dispatches, which the table of tasks keeps."""


class MessageValidator:
    """State of one server's conversation with its clients, as far as it decides which messages are possible. `present`:
    (clients,) whether each client takes part from the start; the others join. `payloads`: that the algorithm has
    clients upload."""

    def __init__(self, tasks: TaskTable, present: NDArray[np.bool_], payloads: Sequence[Payload] = ()) -> None:
        self.tasks = tasks
        self.time_s = -math.inf
        """Time of the last message; -inf before the start."""
        self.is_started = False
        """Whether the server has started."""
        self._present = present.copy()
        self._payloads = payloads
        self._timers: Counter[str] = Counter()
        """Timer -> number of times that it was set and has not fired."""
        self._requests: dict[int, int] = {}
        """Unanswered request for scores -> number of models."""
        self._collecting: tuple[int, ...] | None = None

    def sender_of(self, task: int) -> int | None:
        """Return the client whose answer to `task` is due; None if none is."""
        found = self.tasks.unanswered.get(task)
        return None if found is None else found.client

    # --- checks ----------------------------------------------------------------------------------------------------

    def check_start(self, time_s: float) -> None:
        """Raise MessageError unless the server may start now."""
        self._check_time(time_s)
        if self.is_started:
            raise MessageError("the server has started already: start must come once, before everything else")

    def check(self, message: Input) -> None:
        """Raise MessageError for an impossible message."""
        self._check_time(message.time_s)
        if not self.is_started and not isinstance(message, ClientRetired | ClientJoined | ClientLeft):
            raise MessageError(f"the server has not started: it must be started before {type(message).__name__}")
        match message:
            # An update of a task that never began is no error here: the server counts it.
            case UpdateArrived(task=task):
                if task not in self.tasks.unanswered and 0 <= task < self.tasks.begun:
                    self._check_unanswered(task)
            case Collected():
                self._check_collected(message)
            case ScoresArrived():
                self._check_scores(message)
            case TimerFired() if not self._timers[message.timer]:
                raise MessageError(f"timer {message.timer!r} was not set, or has fired already")
            case ClientJoined() | ClientLeft() | ClientIdle() | ClientGone() | ClientRetired():
                self._check_client(message)

    def _check_time(self, time_s: float) -> None:
        if not (math.isfinite(time_s) and time_s >= self.time_s):
            after = "" if self.time_s == -math.inf else f" and >= {self.time_s:.9g}, when the last message came"
            raise MessageError(f"time_s must be finite{after}, got {time_s}")

    def _check_client(self, message: ClientJoined | ClientLeft | ClientIdle | ClientGone | ClientRetired) -> None:
        client, clients = message.client, len(self._present)
        if not 0 <= client < clients:
            raise MessageError(f"client must be 0..{clients - 1}, got {client}")
        if isinstance(message, ClientJoined):
            if self._present[client]:
                raise MessageError(f"client {client} takes part already: it must leave before it joins")
            if message.samples < 1:
                raise MessageError(f"client {client} must have >= 1 samples, got {message.samples}")
        elif not self._present[client]:
            raise MessageError(f"client {client} does not take part: it must join first")
        if isinstance(message, ClientIdle) and client in self.tasks.busy:
            task = self.tasks.unanswered_of(client)[0]
            raise MessageError(f"client {client} is at task {task}: it must end that before it is idle")
        if isinstance(message, ClientGone):
            self._check_unanswered(message.task)
            if (sender := self.sender_of(message.task)) != client:
                raise MessageError(f"task {message.task} is client {sender}'s, got a message of {client}")

    def _check_unanswered(self, task: int) -> None:
        begun = self.tasks.begun
        if not 0 <= task < begun:
            numbers = f"0..{begun - 1}" if begun else "none so far"
            raise MessageError(f"task must be one that was begun ({numbers}), got {task}")
        if task not in self.tasks.unanswered:
            raise MessageError(f"task {task} has been answered already")

    def _check_collected(self, message: Collected) -> None:
        if message.tasks != self._collecting:
            raise MessageError(f"the server asked for tasks {self._collecting}, got {message.tasks}")
        rows = len(message.models)
        losses = rows if message.losses is None else len(message.losses)
        if rows != len(message.tasks) or losses != rows:
            raise MessageError(f"{len(message.tasks)} updates were asked for, got {rows} models and {losses} losses")
        check_vectors(message.payloads, self._payloads, rows)

    def _check_scores(self, message: ScoresArrived) -> None:
        if message.request not in self._requests:
            raise MessageError(f"request {message.request} was not made, or has been answered already")
        wanted = self._requests[message.request]
        if message.scores is not None and np.shape(message.scores) != (wanted,):
            got = f"shape {np.shape(message.scores)}"
            raise MessageError(f"request {message.request} is for scores of {wanted} models, got {got}")

    # --- records ---------------------------------------------------------------------------------------------------

    def record_start(self, time_s: float, actions: Iterable[Action]) -> None:
        """Record the start of the server, and the requests in its actions."""
        self.time_s, self.is_started = time_s, True
        self._record_requests(actions)

    def record(self, message: Input, actions: Iterable[Action]) -> None:
        """Record a message that was handled, and the requests in the actions that followed."""
        self.time_s = message.time_s
        match message:
            case UpdateArrived() | ClientGone():
                self.tasks.answer(message.task)
            case ClientJoined():
                self._present[message.client] = True
            case ClientLeft():
                self._present[message.client] = False
                for task in self.tasks.unanswered_of(message.client):
                    self.tasks.answer(task)
            case Collected():
                self._collecting = None
            case ScoresArrived():
                del self._requests[message.request]
            case TimerFired():
                self._timers[message.timer] -= 1
                if not self._timers[message.timer]:
                    del self._timers[message.timer]
        self._record_requests(actions)

    def _record_requests(self, actions: Iterable[Action]) -> None:
        for action in actions:
            if type(action) not in _REQUESTS:
                continue
            match action:
                case Collect():
                    self._collecting = action.tasks
                case ScoreRequest():
                    self._requests[action.request] = len(action.models)
                case SetTimer():
                    self._timers[action.timer] += 1
