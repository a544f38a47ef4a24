"""The server and the records that all clients of a live run share, and what waits to be handled.

Actions of the server come as a `Handling`: lists, each of which must be carried out before the next is asked for. Those
that wait lie in `LiveExecutor.later` and `LiveExecutor.alarms`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

from asyncfl.base.arrays import Vector
from asyncfl.base.instrument import Instrument
from asyncfl.extras.live.client_messages import FromServer
from asyncfl.extras.live.clock import LiveTiming, StepClock
from asyncfl.extras.live.received_updates import ReceivedUpdates
from asyncfl.extras.live.report_rules import ReportRules
from asyncfl.extras.live.reports import LiveEventLog, Reports
from asyncfl.protocol import Server, messages
from asyncfl.protocol.recorder import Recorder
from asyncfl.simulation.action_executor import ActionExecutor
from asyncfl.simulation.event_order import EventOrder
from asyncfl.simulation.phases import Workload
from asyncfl.simulation.prepare import Federation

Handling: TypeAlias = Iterator[list[messages.Action]]
"""Actions of the server, in lists: each is carried out before the next is asked for."""


class ClientLink(Protocol):
    """A client's connection, as far as its state machine needs it."""

    def send(self, message: FromServer, models: Vector | messages.Download | None = None) -> None:
        """Send a message after those before it. Without effect where the connection has ended."""
        ...


class Alarm(NamedTuple):
    """A handling at a later time."""

    time_s: float
    order: EventOrder
    """Its place among the events of that time."""
    handling: Handling


class LiveExecutor(ActionExecutor):
    """Executor of a live server's actions, with the records that all clients of the run share."""

    event_log: LiveEventLog

    def __init__(
        self,
        federation: Federation,
        server: Server,
        clock: StepClock,
        timing: LiveTiming,
        instruments: Sequence[Instrument] = (),
    ) -> None:
        super().__init__(server, LiveEventLog(Recorder(federation.resolved.seed), clock), instruments=instruments)
        scenario = federation.resolved.scenario
        self.federation, self.clock, self.shape = federation, clock, timing.shape
        self.timing = timing
        self.attackers = federation.attackers
        self.every_task = federation.path.every_task
        self.serial = scenario.protocol.scoring == "serial"
        self.failure_detection = scenario.world.failure_detection
        self.load = Workload.of(scenario, server.samples)
        self.updates = ReceivedUpdates(federation, server, self.load, timing)
        self.reports = Reports(self.event_log, server.tasks, self.traffic, scenario, timing)
        self.report_rules = ReportRules(scenario, self.load, shape=timing.shape)
        self.trained = 0
        """Updates that have arrived."""
        self.spent: dict[int, float] = {}
        """Client -> time at which its budget was spent."""
        self.later: deque[Handling] = deque()
        """Handlings that come before any further message."""
        self._next = 0
        """Number of those that `handle_next` put first."""
        self.alarms: list[Alarm] = []
        """Alarms that have no timer yet."""

    def tell(self, message: Callable[..., messages.Input], *fields: Any) -> list[messages.Action]:
        """Tell the server what happens now, if the run goes on. `fields`: of the message but its time."""
        return [] if self.stopped is not None else self.server.handle(message(*fields, time_s=self.clock.now))

    def handle_next(self, handling: Handling) -> None:
        """Have something handled before all else that waits, after earlier calls of this kind."""
        self.later.insert(self._next, handling)
        self._next += 1

    def take_later(self) -> Handling:
        """Return the first handling that waits, which waits no more."""
        self._next = max(0, self._next - 1)
        return self.later.popleft()

    def attacks(self, task: int, client: int) -> bool:
        """Whether the client of a task is an attacker."""
        return self.attackers is not None and self.attackers.malicious(task, client)
