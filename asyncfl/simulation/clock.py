"""Virtual time, and the log of events in it.

Nothing runs between two events: a task in flight is a record with a call pending in SimPy's queue, and idle clients
cost nothing. So the state of a run between two steps of the clock is plain data that can be pickled. Events at the same
time have an explicit order (`event_order`); SimPy's own events follow at once from the event before.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any, NamedTuple, TypeAlias

import simpy

from asyncfl.base.messages import Input
from asyncfl.federation.action_executor import EventLog
from asyncfl.federation.event_order import IMMEDIATE, LAST, EventOrder
from asyncfl.server import Server, ServerPhase
from asyncfl.trace import Recorder
from asyncfl.world import WorldState

Tell: TypeAlias = Callable[[Input], None]
"""Function that passes a message to the server and executes the actions that follow."""
Call: TypeAlias = Callable[..., object]
"""Function that the clock calls: a bound method or a partial of one, so that it can be pickled."""


class Moment(NamedTuple):
    """A time, and the place of an event among those of that time. Moments are compared in this order."""

    time_s: float
    order: EventOrder


NEVER = Moment(math.inf, LAST)


class ScheduledCall(simpy.Event):
    """Event in SimPy's queue that calls a function. Cheaper than a timeout, which has a list of callbacks."""

    __slots__ = ("arguments", "do")

    def __init__(self, do: Call, arguments: tuple[Any, ...]) -> None:
        self.do = do
        self.arguments = arguments


class Environment(simpy.Environment):
    """SimPy's environment, with an explicit order of events at equal times. It can be pickled between two steps."""

    def push(self, moment: Moment, event: simpy.Event) -> None:
        """Have `event` processed at exactly that time. A timeout would add a delay to the time, and round the sum."""
        # SimPy declares a number where the order is.
        queue: list[Any] = self._queue
        heappush(queue, (moment.time_s, moment.order, next(self._eid), event))

    def schedule(self, event: simpy.Event, priority: Any = None, delay: float = 0) -> None:
        """Have `event` processed next. See `simpy.Environment.schedule`; `priority` is not used."""
        self.push(Moment(self.now + delay, IMMEDIATE), event)

    def at(self, moment: Moment) -> simpy.Event:
        """Return an event at that moment."""
        event = simpy.Event(self)
        event._ok, event._value = True, None
        self.push(moment, event)
        return event

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_eid": next(self._eid)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _eid=itertools.count(state["_eid"]))


class Clock(EventLog):
    """Virtual time of one seed. Logs every event with the time and the current version."""

    now: float = 0
    """Seconds since the start."""

    def __init__(self, server: Server, world: WorldState, recorder: Recorder, tell: Tell) -> None:
        """`tell`: passes a message to the server and executes the actions that follow."""
        self.env = Environment()
        super().__init__(recorder, self.env)
        self.server = server
        self.world = world
        self.recorder = recorder
        self.tell = tell
        self.version = 0
        self._soon: deque[tuple[Call, tuple[Any, ...]]] = deque()

    @property
    def stopped(self) -> bool:
        """Whether the server has stopped. Pending events are then ignored."""
        return self.server.phase is ServerPhase.STOPPED

    @property
    def goes_on(self) -> bool:
        """Whether there is a further event."""
        return bool(self._soon or self.env._queue)

    def step(self) -> None:
        """Process the next event. Raises any exception of a call, KeyboardInterrupt included."""
        if self._soon:
            do, arguments = self._soon.popleft()
            do(*arguments)
            return
        env = self.env
        self.now, _, _, event = heappop(env._queue)
        env._now = self.now
        if type(event) is ScheduledCall:
            event.do(*event.arguments)
        else:  # one of SimPy's own; none ever fails
            callbacks, event.callbacks = event.callbacks, None  # type: ignore[assignment]
            for callback in callbacks:
                callback(event)

    def soon(self, do: Call, *arguments: Any) -> None:
        """Call `do` now, after the current event and earlier calls of this kind, before anything else happens."""
        self._soon.append((do, arguments))

    def later(self, delay_s: float, order: EventOrder, do: Call, *arguments: Any) -> None:
        """Call `do` after `delay_s` >= 0 seconds. `order`: among the events of that time."""
        self.at(Moment(self.now + delay_s, order), do, *arguments)

    def at(self, moment: Moment, do: Call, *arguments: Any) -> None:
        """Call `do` at exactly that moment, whose time must be finite and not before now."""
        self.env.push(moment, ScheduledCall(do, arguments))

    def either(self, event: simpy.Event, until: Moment) -> simpy.Event:
        """Return an event that follows `event` or `until`, whichever is first; infinite: never."""
        return event if until.time_s == math.inf else event | self.env.at(until)
