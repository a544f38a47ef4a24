"""Carries out what a server asks for, in its order, whether time is simulated or real.

What takes real time (collecting, aggregating) is handed out as work: whoever drives a federation does it where it
likes, in a thread for example, and hands in the answer before anything else happens.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterable
from functools import partial
from typing import Protocol, TypeAlias

from asyncfl.federation.event_log import EventLog
from asyncfl.federation.tasks_in_flight import TaskInFlight, TasksInFlight
from asyncfl.federation.traffic import Traffic
from asyncfl.messages import (
    Action,
    Ban,
    ClientGone,
    CohortRepeated,
    Collect,
    Collected,
    Dispatch,
    Fate,
    Judged,
    Publish,
    RequestScores,
    SetTimer,
    Settle,
    ShortBuffer,
    Stop,
)
from asyncfl.server import Server
from asyncfl.server.machine import AGGREGATION
from asyncfl.trace import Kind

JUDGED = {
    Fate.AGGREGATED: Kind.AGGREGATED,
    Fate.FLAGGED: Kind.FLAGGED,
    Fate.REJECTED: Kind.REJECTED,
}
"""Fates that have an event of their own; the server's other verdicts are `discarded` with the fate as detail."""

Work: TypeAlias = Callable[[], list[Action]]
"""The server's answer to something that takes a while to work out."""
Steps: TypeAlias = Generator[Work, list[Action], None]
"""Work that must be done, one piece after another; each is sent its outcome."""


log = logging.getLogger(__name__)


class Watcher(Protocol):
    """Looks at every verdict and every published model."""

    def judged(self, judged: Judged) -> None:
        """Take note of a detector's verdict."""
        ...

    def published(self, time_s: float, publish: Publish, traffic: Traffic) -> str | None:
        """Take note of a version; a text is the reason to stop the run."""
        ...


class ActionExecutor(ABC):
    """Carries out what one server asks for. How clients and timers are reached is for the derived class to say."""

    def __init__(
        self,
        server: Server,
        event_log: EventLog,
        *,
        watcher: Watcher | None = None,
    ) -> None:
        """`watcher` None: nobody looks at what is published."""
        self.server = server
        self.event_log = event_log
        self.watcher = watcher
        self.tasks = TasksInFlight()
        self.traffic = Traffic()
        self.stopped: str | None = None
        """Why the run is over; None: it is not."""
        self._unreached: deque[ClientGone] = deque()
        self._stopping: str | None = None
        self._is_aggregating = False
        """Whether it is on record that the aggregation of the buffer that is open has begun."""

    # --- what the derived class does -------------------------------------------------------------------------------

    @abstractmethod
    def _dispatch(self, action: Dispatch) -> ClientGone | None:
        """Begin a task. A message: the client cannot be reached, and the server is to hear of it."""

    @abstractmethod
    def _begun(self) -> None:
        """All that begins together has begun."""

    @abstractmethod
    def _request_scores(self, action: RequestScores) -> None:
        """Have a client score models."""

    @abstractmethod
    def _set_timer(self, action: SetTimer) -> None:
        """Have the server told when that time has passed."""

    @abstractmethod
    def _updates(self, action: Collect) -> Collected:
        """The updates of a buffer."""

    def _held_back(self, action: Collect) -> bool:
        """Whether the updates of a buffer are not to be had yet: then they are handed over later."""
        return False

    @abstractmethod
    def _forget(self, task: TaskInFlight) -> None:
        """A task's fate is settled: nobody will ask for its update any more."""

    # --- what is the same for all ----------------------------------------------------------------------------------

    def _carry_out(self, actions: Iterable[Action]) -> Steps:
        record = self.event_log.record
        waiting = deque(actions)
        while waiting or self._unreached or self._stopping is not None:
            if not waiting or isinstance(waiting[0], Collect):
                # What is collected may end tasks. Before, the server hears of those that never began.
                if self._unreached:
                    waiting.extend(self.server.handle(self._unreached.popleft()))
                    continue
                if self._stopping is not None:
                    # Its models are forgotten: a buffer that was to be collected is not.
                    if waiting:
                        waiting.popleft()
                    reason, self._stopping = self._stopping, None
                    waiting.extend(self.server.stop(reason))
                    continue
            action = waiting.popleft()
            match action:
                case Dispatch():
                    if (gone := self._dispatch(action)) is not None:
                        self._unreached.append(gone)
                case Settle():
                    self._settled(action)
                case Publish():
                    self._published(action)
                case Collect():
                    self._is_aggregating = False
                    if not self._held_back(action):
                        # Answered before anything else: at the same moment, whatever it costs here.
                        self._begun()
                        waiting.extendleft(reversed((yield partial(self._collect, action))))
                case SetTimer():
                    if action.timer == AGGREGATION:
                        self._aggregation_begins()
                    self._set_timer(action)
                case RequestScores():
                    self._request_scores(action)
                case Judged():
                    if self.watcher is not None:
                        self.watcher.judged(action)
                case Ban():
                    record(Kind.BANNED, client=action.client)
                    log.debug("client %d is banned at %.6g s", action.client, self.event_log.now)
                case ShortBuffer():
                    log.debug("a buffer opens with %d of %d updates", action.held, action.wanted)
                    record(Kind.SHORT_BUFFER, detail=f"{action.held} of {action.wanted} updates")
                case CohortRepeated():
                    record(Kind.COHORT_REPEATED, detail=f"nothing came of {action.size} tasks")
                case Stop():
                    record(Kind.STOPPED, detail=action.reason)
                    self.stopped = action.reason
        self._begun()

    def _aggregation_begins(self) -> None:
        """Put it on record, once for each buffer: its updates may be merged first, and judged and evaluated then."""
        if not self._is_aggregating:
            self.event_log.record(Kind.AGGREGATION_STARTED)
        self._is_aggregating = True

    def _settled(self, action: Settle) -> None:
        if action.fate is Fate.REJECTED and action.task not in self.tasks:
            # An update that nobody asked for: it is of no task, and counts as none.
            self.event_log.record(JUDGED[action.fate], detail=action.detail)
            return
        task = self.tasks.settle(action)
        self._forget(task)
        if action.fate in (Fate.LOST_DOWN, Fate.LOST_UP, Fate.DROPPED_OUT, Fate.UNFINISHED):
            return
        kind = JUDGED.get(action.fate, Kind.DISCARDED)
        detail = action.fate.value if kind is Kind.DISCARDED else action.detail
        self.event_log.record_task(kind, task, staleness=action.staleness, weight=action.weight, detail=detail)

    def _published(self, action: Publish) -> None:
        self.event_log.version = action.version
        self.event_log.record(Kind.PUBLISHED, detail="" if action.version else "initial model")
        if self.watcher is not None:
            # A run that is to stop does so when the tasks that begin with this version have begun, or could not.
            self._stopping = self.watcher.published(self.event_log.now, action, self.traffic)

    def _collect(self, action: Collect) -> list[Action]:
        return self.server.handle(self._updates(action))
