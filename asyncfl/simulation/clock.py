"""Virtual time of one seed, and the log of events in it.

Whatever takes time is a SimPy process: a generator that yields the events it waits for. Two things are added to SimPy.
Events at the same time have an explicit order (`event_order`); SimPy's own events follow at once from the event before.
And a seed can be interrupted: a generator cannot be pickled, so all that a process needs is in the fields of a
`ResumableProcess`, whose generator begins where these say. A checkpoint holds those objects and the pending calls.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator
from functools import partial
from heapq import heappop, heappush
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
import simpy
from simpy.core import EmptySchedule
from simpy.events import NORMAL, URGENT

from asyncfl.protocol import Server, ServerPhase
from asyncfl.protocol.messages import Input
from asyncfl.simulation.action_executor import EventLog
from asyncfl.simulation.event_order import IMMEDIATE, LAST, EventOrder
from asyncfl.simulation.timeline_recorder import TimelineRecorder
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


class Timeout(simpy.Timeout):
    """A time-out that ends at an exact moment. A delay would be added to the time, and the sum rounded."""

    def __init__(self, env: Environment, moment: Moment) -> None:
        """`moment`: must be finite and not before now."""
        self.moment = moment
        super().__init__(env, moment[0] - env.now)


ScheduledCall: TypeAlias = tuple[Call, tuple[Any, ...]]
"""A function that the clock calls, with its arguments. It stands in the queue like an event, but no process can wait
for it."""


class Environment(simpy.Environment):
    """SimPy's environment, with an explicit order of events at equal times."""

    now: float = 0
    """Seconds since the start."""

    def __init__(self, initial_time: float = 0) -> None:
        super().__init__(initial_time)
        self.now = initial_time
        self.urgent: deque[simpy.Event | ScheduledCall] = deque()
        """Events that come next: processes that begin."""
        self.at_once: deque[simpy.Event] = deque()
        """Events that come after the urgent ones, before time goes on."""
        self.queue: list[tuple[float, EventOrder, int, simpy.Event | ScheduledCall]] = []
        """Heap of the events that come at their time: time, order, number, event."""
        self._numbers = itertools.count()

    def timeout_at(self, moment: Moment) -> simpy.Timeout:
        """Return an event at exactly that moment, which must be finite and not before now."""
        return Timeout(self, moment)

    def schedule(self, event: simpy.Event, priority: int = NORMAL, delay: float = 0) -> None:
        """Have an event processed, see `simpy.Environment.schedule`. Raises the error of a process that has failed."""
        if isinstance(event, Timeout):
            self.push(event.moment, event)
        elif delay > 0:
            self.push(Moment(self.now + delay, IMMEDIATE), event)
        elif priority == URGENT:
            self.urgent.append(event)
        elif event.ok:
            self.at_once.append(event)
        else:
            error: Any = event.value
            raise error

    def push(self, moment: tuple[float, EventOrder], event: simpy.Event | ScheduledCall) -> None:
        """Have an event processed at exactly that moment."""
        time_s, order = moment
        heappush(self.queue, (time_s, order, next(self._numbers), event))

    def peek(self) -> float:
        """Return the time of the next event; inf without one."""
        if self.urgent or self.at_once:
            return self.now
        return self.queue[0][0] if self.queue else math.inf

    def step(self) -> None:
        """Process the next event. Raises EmptySchedule without one, and any exception of a process."""
        event: simpy.Event | ScheduledCall
        if self.urgent:
            event = self.urgent.popleft()
        elif self.at_once:
            event = self.at_once.popleft()
        elif self.queue:
            self.now, _, _, event = heappop(self.queue)
        else:
            raise EmptySchedule
        self.process_event(event)

    @staticmethod
    def process_event(event: simpy.Event | ScheduledCall) -> None:
        """Call a function, or the callbacks of an event, which has been taken from its queue."""
        if isinstance(event, tuple):
            do, arguments = event
            do(*arguments)
            return
        callbacks, event.callbacks = event.callbacks, None  # type: ignore[assignment]
        for callback in callbacks:
            callback(event)

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the time: events are not pickled."""
        return Environment, (self.now,)


class ResumableProcess(ABC):
    """State of a SimPy process, from which the process can begin anywhere."""

    __slots__ = ()

    @abstractmethod
    def run(self) -> Generator[simpy.Event, Any, None]:
        """Yield the events that the process waits for. A generator of a process that was interrupted begins with the
        event that the process was waiting for."""


class Clock(EventLog):
    """Virtual time of one seed. Logs every event with the time and the current version."""

    now: float = 0
    """Seconds since the start."""
    recorder: TimelineRecorder

    def __init__(self, server: Server, world: WorldState, recorder: TimelineRecorder, tell: Tell) -> None:
        """`tell`: passes a message to the server and executes the actions that follow."""
        super().__init__(recorder, self)
        self.env = Environment()
        self.server = server
        self.world = world
        self.recorder = recorder
        self.tell = tell
        self.version = 0
        self.processes: dict[ResumableProcess, simpy.Process] = {}
        """Processes that have not ended, in the order of their begin."""
        self.before_tables: list[Call] = []
        """Calls that write into records what has happened by now, where that is otherwise done later."""
        self._pending: list[Any] = []
        """Processes and calls of a clock that was pickled, until it is resumed."""
        self._last_s: float | None = None
        """Time of its last event."""

    @property
    def stopped(self) -> bool:
        """Whether the server has stopped. Pending events are then ignored."""
        return self.server.phase is ServerPhase.STOPPED

    @property
    def goes_on(self) -> bool:
        """Whether there is a further event."""
        return bool(self.env.queue)

    def step(self) -> None:
        """Process the next event, and all that follow from it at once. Raises any exception of a process or call,
        KeyboardInterrupt included. The clock can be pickled between two steps."""
        env = self.env
        now_s, order, _, event = heappop(env.queue)
        self.now = env.now = now_s
        self.recorder.begin_step(now_s, order)
        env.process_event(event)
        if env.urgent or env.at_once:
            self.settle()

    def settle(self) -> None:
        """Process the events that follow at once from what has happened."""
        env = self.env
        while (env.urgent or env.at_once) and not self.stopped:
            env.step()

    def tasks_table(self, end_s: float) -> pa.Table:
        for catch_up in self.before_tables:
            catch_up()
        return super().tasks_table(end_s)

    def begin(self, process: ResumableProcess) -> None:
        """Begin a process after the current event and processes that began earlier, before anything else happens."""
        self.processes[process] = begun = self.env.process(process.run())
        begun.callbacks.append(partial(self._forget, process))

    def begin_now(self, process: ResumableProcess) -> None:
        """Begin a process, before anything else that follows from the current event."""
        self.begin(process)
        self.env.urgent.rotate(1)
        self.env.step()

    def _forget(self, process: ResumableProcess, _: simpy.Event) -> None:
        del self.processes[process]

    def soon(self, do: Call, *arguments: Any) -> None:
        """Call `do` after the current event and processes that have begun, before anything else happens."""
        self.env.urgent.append((do, arguments))

    def later(self, delay_s: float, order: EventOrder, do: Call, *arguments: Any) -> None:
        """Call `do` after `delay_s` >= 0 seconds. `order`: among the events of that time."""
        self.at(Moment(self.now + delay_s, order), do, *arguments)

    def at(self, moment: Moment, do: Call, *arguments: Any) -> None:
        """Call `do` at exactly that moment, whose time must be finite and not before now."""
        self.env.push(moment, (do, arguments))

    def at_task(self, time_s: float, number: int, do: Call) -> None:
        """Call `do` with the number of a task when its last phase ends, at a time as in `at`."""
        self.env.push((time_s, EventOrder.of_task(number)), (do, (number,)))

    def __getstate__(self) -> dict[str, Any]:
        """Return the state between two steps: of processes and of events, what `resume` needs to begin them again."""
        queue = self.env.queue
        numbers = {id(event): number for _, _, number, event in queue}
        pending: list[tuple[float, Any]] = [
            (numbers.get(id(begun.target), math.inf), process) for process, begun in self.processes.items()
        ]
        for time_s, order, number, event in queue:
            if isinstance(event, tuple):
                pending.append((number, (Moment(time_s, order), *event)))
        # Events at equal times and of equal order happen in the order in which they were scheduled.
        pending.sort(key=lambda one: one[0])
        last_s = max((time_s for time_s, *_ in queue), default=None)
        return self.__dict__ | {"processes": {}, "_pending": [one for _, one in pending], "_last_s": last_s}

    def resume(self) -> None:
        """Begin the processes of a clock that was pickled, each where it was, and schedule its calls."""
        pending, self._pending = self._pending, []
        for one in pending:
            if isinstance(one, ResumableProcess):
                self.begin(one)
            else:
                self.settle()  # what earlier processes wait for comes before this call
                moment, do, arguments = one
                self.at(moment, do, *arguments)
        self.settle()
        if self._last_s is not None:
            # A process may have waited for this without need. If nothing else happens, the run ends then.
            self.env.timeout_at(Moment(self._last_s, LAST))
