"""Virtual time, and the log of events in it.

Each task in flight is one SimPy process; idle clients cost nothing. Events at the same time are ordered by when they
were scheduled.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Generator
from typing import Any, TypeAlias

import simpy
from simpy.events import NORMAL

from asyncfl.base.messages import Input
from asyncfl.federation.action_executor import EventLog
from asyncfl.server import Server, ServerPhase
from asyncfl.trace import Recorder
from asyncfl.world import WorldState

Steps: TypeAlias = Generator[simpy.Event, None, None]
"""A process: yields the events it waits for."""
Waiting: TypeAlias = Generator[simpy.Event, None, bool]
"""Part of a process; returns whether it completed."""
Tell: TypeAlias = Callable[[Input], None]
"""Function that passes a message to the server and executes the actions that follow."""


class _Environment(simpy.Environment):
    """SimPy's environment, with events at given times."""

    def at(self, time_s: float) -> simpy.Event:
        """Return an event at exactly `time_s`. A timeout would add a delay to the time, and round the sum."""
        event = simpy.Event(self)
        event._ok, event._value = True, None
        heapq.heappush(self._queue, (time_s, NORMAL, next(self._eid), event))
        return event


class Clock(EventLog):
    """Virtual time of one seed. Logs every event with the time and the current version."""

    def __init__(self, server: Server, world: WorldState, recorder: Recorder, tell: Tell) -> None:
        """`tell`: passes a message to the server and executes the actions that follow."""
        self.env = _Environment()
        super().__init__(recorder.add, self.env)
        self.server = server
        self.world = world
        self.recorder = recorder
        self.tell = tell
        self.version = 0
        self._failure: BaseException | None = None

    @property
    def stopped(self) -> bool:
        """Whether the server has stopped. Pending events are then ignored."""
        return self.server.phase is ServerPhase.STOPPED

    def step(self) -> None:
        """Process the next event. Raises any exception of a process, KeyboardInterrupt included."""
        self.env.step()
        if self._failure is not None:
            # Raise at once. SimPy raises only when it processes the failed process: the run might end normally before.
            raise self._failure

    def start(self, steps: Steps) -> simpy.Process:
        """Start a process now and return it."""
        return self.env.process(self._watched(steps))

    def _watched(self, steps: Steps) -> Steps:
        try:
            yield from steps
        except GeneratorExit:
            # The run has ended and pending processes are closed.
            raise
        except BaseException as error:
            self._failure = error
            raise

    def later(self, delay_s: float, do: Callable[[], Any]) -> None:
        """Call `do` after `delay_s` seconds. Cheaper than a process."""
        event = self.env.timeout(delay_s)
        if event.callbacks is not None:
            event.callbacks.append(lambda _: do())

    def until(self, time_s: float) -> simpy.Event:
        """Return an event at exactly `time_s`, which must be finite and not before now."""
        return self.env.at(time_s)

    def stays(self, client: int, duration_s: float) -> Waiting:
        """Wait for `duration_s` and return True, or until the client goes offline and return False."""
        until = self.world.presence.next_change(client, self.env.now)
        stays = self.env.now + duration_s <= until
        yield self.env.timeout(duration_s) if stays else self.until(until)
        return stays
