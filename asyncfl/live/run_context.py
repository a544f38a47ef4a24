"""The server and the records that all clients of a live run share, and what waits to be handled.

Actions of the server come as a `Handling`: lists, each of which must be carried out before the next is asked for. Those
that wait lie in `RunContext.later` and `RunContext.alarms`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Protocol, TypeAlias

from asyncfl.base import messages
from asyncfl.federation.action_executor import ActionExecutor, Watcher
from asyncfl.federation.event_order import EventOrder
from asyncfl.federation.phases import Workload
from asyncfl.federation.prepare import Federation
from asyncfl.live import wire
from asyncfl.live.clock import StepClock, Terms
from asyncfl.live.received_updates import ReceivedUpdates
from asyncfl.live.report_rules import ReportRules
from asyncfl.live.reports import LiveEventLog, Reports
from asyncfl.server import Server
from asyncfl.trace import Recorder

Handling: TypeAlias = Iterator[list[messages.Action]]
"""Actions of the server, in lists: each is carried out before the next is asked for."""
Begins: TypeAlias = Callable[[], Handling]
"""Begins a handling. It can be pickled, unlike one that has begun."""


class ClientLink(Protocol):
    """A client's connection, as far as its state machine needs it."""

    @property
    def peer(self) -> str:
        """Name of the other end, for messages."""
        ...

    def write(self, message: wire.Message, models: messages.Vector | messages.Download | None = None) -> None:
        """Send a message after those before it."""
        ...

    def end(self, reason: str) -> None:
        """Close the connection."""
        ...


class RunContext(ActionExecutor):
    """The server and the records that all clients of a run share."""

    event_log: LiveEventLog

    def __init__(
        self, federation: Federation, server: Server, clock: StepClock, terms: Terms, watcher: Watcher | None = None
    ) -> None:
        super().__init__(server, LiveEventLog(Recorder(federation.resolved.seed), clock), watcher=watcher)
        scenario = federation.resolved.scenario
        self.federation, self.clock, self.shape = federation, clock, terms.shape
        self.terms = terms
        self.attackers = federation.attackers
        self.every_task = federation.path.every_task
        self.serial = scenario.protocol.scoring == "serial"
        self.failure_detection = scenario.world.failure_detection
        self.load = Workload.of(scenario, server.samples)
        self.updates = ReceivedUpdates(federation, server, self.load, terms)
        self.reports = Reports(self.event_log, server.tasks, self.traffic, scenario, terms)
        self.report_rules = ReportRules(scenario, self.load, shape=terms.shape)
        self.trained = 0
        """Updates that have arrived."""
        self.spent: dict[int, float] = {}
        """Client -> time at which its budget was spent."""
        self.later: deque[Begins] = deque()
        """What comes before any further message, see `handle_later`."""
        self._next = 0
        """Number of those that `handle_next` put first."""
        self.alarms: dict[int, tuple[float, EventOrder, Begins]] = {}
        """Number of an alarm that has not rung -> (time of the clock, place among events of that time, what comes
        then)."""
        self.alarms_set = 0
        """Number of alarms so far."""

    def tell(self, message: Callable[..., messages.Input], *fields: Any) -> list[messages.Action]:
        """Tell the server what happens now, if the run goes on. `fields`: of the message but its time."""
        return [] if self.stopped is not None else self.server.handle(message(self.clock.now, *fields))

    def handle_later(self, do: Callable[..., Handling], *arguments: Any) -> None:
        """Have something handled before any further message."""
        self.later.append(partial(do, *arguments))

    def handle_next(self, do: Callable[..., Handling], *arguments: Any) -> None:
        """Have something handled before all else that waits, after earlier calls of this kind."""
        self.later.insert(self._next, partial(do, *arguments))
        self._next += 1

    def take_later(self) -> Handling:
        """Begin to handle the first of what waits."""
        self._next = max(0, self._next - 1)
        return self.later.popleft()()

    def set_alarm(self, time_s: float, order: EventOrder, do: Callable[..., Handling], *arguments: Any) -> None:
        """Have something handled at that time of the clock. `order`: among the events of that time."""
        self.alarms[self.alarms_set] = time_s, order, partial(do, *arguments)
        self.alarms_set += 1

    def ring(self, alarm: int) -> None:
        """Handle an alarm whose time has come."""
        self.later.append(self.alarms.pop(alarm)[2])

    @property
    def real_s(self) -> float:
        """Real seconds since the beginning."""
        return self.clock.now / self.terms.speedup

    def attacks(self, task: int, client: int) -> bool:
        """Whether the client of a task is an attacker."""
        return self.attackers is not None and self.attackers.malicious(task, client)
