"""Execute a server's actions in their order, in virtual or real time.

Actions that take real time (collecting, aggregating) are yielded as work. The caller does the work where it likes, in a
thread for example, and sends back the result before anything else happens.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from asyncfl.base.instrument import Instrument
from asyncfl.protocol import Server
from asyncfl.protocol.events import Kind
from asyncfl.protocol.machine import AGGREGATION
from asyncfl.protocol.messages import (
    Action,
    Ban,
    BufferVerdict,
    ClientGone,
    CohortRepeated,
    Collect,
    Collected,
    Dispatch,
    Fate,
    Publish,
    ScoreRequest,
    SetTimer,
    Settle,
    ShortBuffer,
    Stop,
)
from asyncfl.protocol.recorder import FLUSH_AT, NAN, Recorder
from asyncfl.protocol.task_record import FINAL, NOTES, TaskRecord, TaskRows
from asyncfl.simulation.phases import Way

REPORTED = frozenset((Fate.LOST_DOWN, Fate.LOST_UP, Fate.DROPPED_OUT, Fate.UNFINISHED))
"""Fates without an event of their own: another event tells of it, or the run ends."""

JUDGED = {Fate.AGGREGATED: Kind.AGGREGATED, Fate.FLAGGED: Kind.FLAGGED, Fate.REJECTED: Kind.REJECTED}
"""Fates with an event kind of their own. Other fates that the server decides are `discarded` events with the fate as
detail."""

Work: TypeAlias = Callable[[], list[Action]]
"""Function that does work which may take long, and returns the server's actions."""
Steps: TypeAlias = Generator[Work, list[Action], None]
"""Generator of work that must be done in order; the caller sends it the result of each."""


log = logging.getLogger(__name__)


class TimeSource(Protocol):
    """A clock, virtual or real."""

    @property
    def now(self) -> float:
        """Seconds since the start."""
        ...


class EventLog:
    """Records events with the time and the current version, and the record of each task."""

    version: int
    """The version published last, as far as the log has come: the server's own version may be ahead."""

    def __init__(self, recorder: Recorder, time: TimeSource) -> None:
        self.recorder = recorder
        self.tasks = TaskRows(recorder.seed)
        self._time = time

    @property
    def now(self) -> float:
        """Seconds since the start."""
        return self._time.now

    def record(self, kind: Kind, client: int = -1, detail: str = "", size: int = -1, attempt: int = -1) -> None:
        """Record an event that belongs to no task. `size` in bytes, `attempt`: number of transmissions; -1 for none."""
        self.recorder.add(self.now, kind, -1, client, self.version, -1, -1, size, attempt, NAN, detail)

    def record_task(
        self,
        kind: Kind,
        task: TaskRecord,
        staleness: int = -1,
        size: int = -1,
        attempt: int = -1,
        weight: float = NAN,
        detail: str = "",
    ) -> None:
        """Record an event of a task. `size`, `attempt`: as in `record`; `staleness` in versions, -1 for none; `weight`:
        of the update, NaN for none."""
        # As `Recorder.add`, without a further call: most events are of tasks.
        values, number, client, base = self.recorder.values, task.number, task.client, task.base_version
        now_s = self.now
        values += (now_s, kind, number, client, self.version, base, staleness, size, attempt, weight, detail)
        if len(values) >= FLUSH_AT:
            self.recorder.flush()
        if kind in NOTES:
            self.note(task, kind, now_s, size, attempt, detail)

    def note(self, task: TaskRecord, kind: Kind, time_s: float, size: int, attempt: int, detail: str) -> None:
        """Write what an event means into the task's record."""
        if (note := NOTES.get(kind)) is None:
            return
        note(task, time_s, size, attempt, detail)
        if kind is Kind.DISPATCHED:
            self.tasks.begin(task)
        elif task.is_put_away:
            self.tasks.correct(task)
        elif kind in FINAL and task.settled_s == task.settled_s:
            self.tasks.end(task)

    def tasks_table(self, end_s: float) -> pa.Table:
        """Return the records of all tasks so far, see `TaskRows.table`."""
        return self.tasks.table(end_s)

    def record_fate(self, task: TaskRecord, action: Settle) -> None:
        """Write the fate of a task into its record."""
        if action.fate is not Fate.UNFINISHED:
            task.settle(self.now, action.fate, self.version + 1, action.staleness, action.weight)
            if task.outcome:
                self.tasks.end(task)


@dataclass
class Traffic:
    """Bytes sent in both directions so far, and counts of overheard messages, which are known at the end."""

    bytes_up: int = 0
    bytes_down: int = 0
    overheard_up: dict[int, int] = field(default_factory=dict)
    """Client -> number of its updates that were overheard."""
    overheard_down: dict[int, int] = field(default_factory=dict)
    """Client -> number of models sent to it that were overheard."""
    overheard_versions: set[int] = field(default_factory=set)
    """Versions overheard on any downlink."""

    def count(self, sent_bytes: int, way: Way) -> None:
        """Add the bytes of a message that has ended or was broken off."""
        if way == "down":
            self.bytes_down += sent_bytes
        else:
            self.bytes_up += sent_bytes

    def count_overheard(self, tasks: pa.Table) -> None:
        """Count the messages that were overheard whole, from the table of tasks (`TasksTable`) of the ended run."""

        def caught(*ways: str) -> pa.ChunkedArray:
            is_caught = [pc.invert(pc.is_nan(tasks[f"overheard_{way}_s"])) for way in ways]
            return reduce(pc.or_, is_caught)

        def by_client(is_caught: pa.ChunkedArray) -> dict[int, int]:
            clients, numbers = tasks["client"].filter(is_caught).value_counts().flatten()
            return dict(zip(clients.to_pylist(), numbers.to_pylist(), strict=True))

        self.overheard_down, self.overheard_up = by_client(caught("down")), by_client(caught("up", "scoring"))
        self.overheard_versions = set(pc.unique(tasks["base_version"].filter(caught("down"))).to_pylist())


class ActionExecutor(ABC):
    """Executes the actions of one server. A derived class defines how clients and timers are reached."""

    def __init__(self, server: Server, event_log: EventLog, *, instruments: Sequence[Instrument] = ()) -> None:
        """`instruments`: receive every verdict and version; the recorder of rounds among them may stop the run."""
        self.server = server
        self.event_log = event_log
        self.instruments = instruments
        self.tasks = server.tasks
        self.traffic = Traffic()
        self.stopped: str | None = None
        """Reason why the run ended; None while it runs."""
        self._unreached: deque[ClientGone] = deque()
        self._stopping: str | None = None
        self._is_aggregating = False
        """Whether the start of the current aggregation has been logged."""

    # --- for derived classes ---------------------------------------------------------------------------------------

    @abstractmethod
    def _dispatch(self, action: Dispatch) -> ClientGone | None:
        """Begin a task. Returns a message to the server if the client cannot be reached."""

    @abstractmethod
    def _begun(self) -> None:
        """Called when all tasks that begin together have begun."""

    @abstractmethod
    def _request_scores(self, action: ScoreRequest) -> None:
        """Ask a client to score models."""

    @abstractmethod
    def _set_timer(self, action: SetTimer) -> None:
        """Inform the server when the timer has run out."""

    @abstractmethod
    def _updates(self, action: Collect) -> Collected:
        """Return the updates of a buffer."""

    def _held_back(self, action: Collect) -> bool:
        """Whether the updates of a buffer are not available yet."""
        return False

    @abstractmethod
    def _forget(self, task: TaskRecord) -> None:
        """Discard a task whose fate is settled: its update is not needed any more."""

    # --- execution -------------------------------------------------------------------------------------------------

    def _carry_out(self, actions: Iterable[Action]) -> Steps:
        """Execute `actions`, and all actions that follow from them."""
        record = self.event_log.record
        waiting = deque(actions)
        while waiting or self._unreached or self._stopping is not None:
            if not waiting or isinstance(waiting[0], Collect):
                # A collection may end tasks. Report tasks that never began before it.
                if self._unreached:
                    waiting.extend(self.server.handle(self._unreached.popleft()))
                    continue
                if self._stopping is not None:
                    # The server forgets its models: drop the pending collection.
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
                        # The answer comes at the same virtual time, before all other actions.
                        self._begun()
                        waiting.extendleft(reversed((yield partial(self._collect, action))))
                case SetTimer():
                    if action.timer == AGGREGATION:
                        self._aggregation_begins()
                    self._set_timer(action)
                case ScoreRequest():
                    self._request_scores(action)
                case BufferVerdict():
                    for one in self.instruments:
                        one.judged(action)
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
        """Log the start of an aggregation once per buffer: updates may be merged first, and judged and evaluated
        afterwards."""
        if not self._is_aggregating:
            self.event_log.record(Kind.AGGREGATION_STARTED)
        self._is_aggregating = True

    def _settled(self, action: Settle) -> None:
        fate, log = action.fate, self.event_log
        if fate is Fate.REJECTED and action.task not in self.tasks:
            # An update that was not asked for belongs to no task.
            log.record(JUDGED[fate], detail=action.detail)
            return
        task = self.tasks.settled.pop(action.task)
        log.record_fate(task, action)
        self._forget(task)
        if fate not in REPORTED:
            kind = JUDGED.get(fate, Kind.DISCARDED)
            detail = fate.value if kind is Kind.DISCARDED else action.detail
            log.record_task(kind, task, action.staleness, -1, -1, action.weight, detail)

    def _published(self, action: Publish) -> None:
        self.event_log.version = action.version
        self.event_log.record(Kind.PUBLISHED, detail="" if action.version else "initial model")
        reasons = [one.published(self.event_log.now, action, self.traffic) for one in self.instruments]
        # A run that must stop does so after the tasks of this version have begun, or failed to begin.
        self._stopping = next((reason for reason in reasons if reason is not None), None)

    def _collect(self, action: Collect) -> list[Action]:
        return self.server.handle(self._updates(action))
