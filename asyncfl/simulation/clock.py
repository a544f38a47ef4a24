"""Virtual time, and the log of events in it.

Nothing runs between two events: a task in flight is a record with a call pending in SimPy's queue, and idle clients
cost nothing. So the state of a run between two steps of the clock is plain data that can be pickled. Events at the same
time are ordered by when they were scheduled.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from heapq import heappush
from typing import Any, TypeAlias

import simpy
from simpy.events import NORMAL, URGENT

from asyncfl.base.messages import Input
from asyncfl.federation.action_executor import EventLog
from asyncfl.server import Server, ServerPhase
from asyncfl.trace import Recorder
from asyncfl.world import WorldState

Tell: TypeAlias = Callable[[Input], None]
"""Function that passes a message to the server and executes the actions that follow."""
Call: TypeAlias = Callable[..., object]
"""Function that the clock calls: a bound method or a partial of one, so that it can be pickled."""


def _call(event: ScheduledCall) -> None:
    event.do(*event.arguments)


_CALL: Any = [_call]


class ScheduledCall(simpy.Event):
    """Event in SimPy's queue that calls a function. Cheaper than a timeout, which has a list of callbacks of its
    own."""

    __slots__ = ("arguments", "callbacks", "do")
    _ok = True
    _value = None

    def __init__(self, do: Call, arguments: tuple[Any, ...]) -> None:
        self.do = do
        self.arguments = arguments
        self.callbacks = _CALL


class Environment(simpy.Environment):
    """SimPy's environment, with calls and with events at given times. It can be pickled between two steps."""

    def at(self, time_s: float) -> simpy.Event:
        """Return an event at exactly `time_s`. A timeout would add a delay to the time, and round the sum."""
        event = simpy.Event(self)
        event._ok, event._value = True, None
        heappush(self._queue, (time_s, NORMAL, next(self._eid), event))
        return event

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_eid": next(self._eid)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _eid=itertools.count(state["_eid"]))


class Clock(EventLog):
    """Virtual time of one seed. Logs every event with the time and the current version."""

    def __init__(self, server: Server, world: WorldState, recorder: Recorder, tell: Tell) -> None:
        """`tell`: passes a message to the server and executes the actions that follow."""
        self.env = Environment()
        super().__init__(recorder.add, self.env)
        self.server = server
        self.world = world
        self.recorder = recorder
        self.tell = tell
        self.version = 0

    @property
    def stopped(self) -> bool:
        """Whether the server has stopped. Pending events are then ignored."""
        return self.server.phase is ServerPhase.STOPPED

    def step(self) -> None:
        """Process the next event. Raises any exception of a call, KeyboardInterrupt included."""
        self.env.step()

    def soon(self, do: Call, *arguments: Any) -> None:
        """Call `do` now, after the current event and earlier calls of this kind, before anything else happens."""
        env = self.env
        heappush(env._queue, (env._now, URGENT, next(env._eid), ScheduledCall(do, arguments)))

    def later(self, delay_s: float, do: Call, *arguments: Any) -> None:
        """Call `do` after `delay_s` >= 0 seconds."""
        env = self.env
        heappush(env._queue, (env._now + delay_s, NORMAL, next(env._eid), ScheduledCall(do, arguments)))

    def at(self, time_s: float, do: Call, *arguments: Any) -> None:
        """Call `do` at exactly `time_s`, which must be finite and not before now."""
        env = self.env
        heappush(env._queue, (time_s, NORMAL, next(env._eid), ScheduledCall(do, arguments)))

    def either(self, event: simpy.Event, until_s: float) -> simpy.Event:
        """Return an event that follows `event` or the time `until_s`, whichever is first; inf: never."""
        return event if until_s == math.inf else event | self.env.at(until_s)

    def stay(self, client: int, duration_s: float, do: Call) -> None:
        """Call `do(True)` after `duration_s`, or `do(False)` when the client goes offline before."""
        until_s = self.world.presence.next_change(client, self.env._now)
        if self.env._now + duration_s <= until_s:
            self.later(duration_s, do, True)
        else:
            self.at(until_s, do, False)
