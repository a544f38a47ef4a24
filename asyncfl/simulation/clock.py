"""Virtual time, and the record of what happens in it.

One process per task in flight; a client at rest costs nothing. What two events of the same time do is settled by the
order in which they were scheduled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from typing import TypeAlias

import simpy

from asyncfl.federation.event_log import EventLog
from asyncfl.messages import Input
from asyncfl.server import Server, ServerPhase
from asyncfl.trace import Recorder
from asyncfl.world import WorldState

Steps: TypeAlias = Generator[simpy.Event, None, None]
"""What a process waits for, one after another."""
Waiting: TypeAlias = Generator[simpy.Event, None, bool]
"""Part of a process; its value is whether it came to its end."""
Tell: TypeAlias = Callable[[Input], None]
"""Hands a message to the server, and carries out the answer."""


class Clock(EventLog):
    """The time of one seed. Every event is recorded here, with the time and the version that is out."""

    def __init__(self, server: Server, world: WorldState, recorder: Recorder, tell: Tell) -> None:
        """`tell`: hands the server what happens, and carries out its answer."""
        super().__init__(recorder.add)
        self.env = simpy.Environment()
        self.server = server
        self.world = world
        self.recorder = recorder
        self.tell = tell
        self.version = 0
        self._failure: BaseException | None = None

    @property
    def now(self) -> float:
        """Virtual seconds since the start."""
        return self.env.now

    @property
    def stopped(self) -> bool:
        """Whether the server has stopped: what was still to come does not happen."""
        return self.server.phase is ServerPhase.STOPPED

    def step(self) -> None:
        """Have the next thing happen. Raises what a process raised in it, KeyboardInterrupt included."""
        self.env.step()
        if self._failure is not None:
            # Now, and not when SimPy comes to the process that failed: in between the run might end as if it were
            # whole.
            raise self._failure

    def start(self, steps: Steps) -> simpy.Process:
        """A process that takes these steps, from now on."""
        return self.env.process(self._watched(steps))

    def _watched(self, steps: Steps) -> Steps:
        try:
            yield from steps
        except GeneratorExit:
            # The run is over, and what was still to come is thrown away.
            raise
        except BaseException as error:
            self._failure = error
            raise

    def later(self, delay_s: float, do: Callable[[], None]) -> None:
        """Call `do` after a while: cheaper than a process of its own."""
        event = self.env.timeout(delay_s)
        if event.callbacks is not None:
            event.callbacks.append(lambda _: do())

    def until(self, time_s: float) -> simpy.Timeout:
        """That moment, which is not before now, and finite."""
        delay_s = time_s - self.env.now
        # The sum that SimPy takes may be less than that by a rounding, as if the moment had not come.
        return self.env.timeout(delay_s if self.env.now + delay_s >= time_s else delay_s + math.ulp(time_s))

    def stays(self, client: int, duration_s: float) -> Waiting:
        """Wait as long as that, or until the client goes offline, then False."""
        until = self.world.next_change(client, self.env.now)
        stays = self.env.now + duration_s <= until
        yield self.env.timeout(duration_s) if stays else self.until(until)
        return stays
