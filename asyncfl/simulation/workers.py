"""Places to compute, where clients share a machine: who finds none free waits its turn, first come, first served."""

from __future__ import annotations

import math
from collections.abc import Generator
from functools import partial
from typing import Any

import simpy

from asyncfl.simulation.clock import Clock


class Workers:
    """The places at which the clients of one seed compute."""

    def __init__(self, clock: Clock, number: int | None, turnaround_s: float) -> None:
        """`number`: of places; None: as many as there are clients. `turnaround_s`: how long one stays empty."""
        self._clock = clock
        self._turnaround_s = turnaround_s
        self._places = None if number is None else simpy.Resource(clock.env, number)

    def wait(self, client: int) -> Generator[simpy.Event, None, Any]:
        """Wait for a place. Its value is the place, to be given to `leave`; None: the client went offline before."""
        if self._places is None:
            return NOWHERE
        env, place = self._clock.env, self._places.request()
        until_s = self._clock.world.next_change(client, env.now)
        if place.triggered:
            return place
        if until_s == math.inf:
            yield place
            return place
        yield place | self._clock.until(until_s)
        if place.triggered:
            return place
        place.cancel()
        return None

    def leave(self, place: Any) -> None:
        """Have the next client come in, after the turnaround."""
        if self._places is None:
            return
        if self._turnaround_s > 0:
            self._clock.later(self._turnaround_s, partial(self._free, place))
        else:
            self._free(place)

    def _free(self, place: Any) -> None:
        if self._places is not None:
            self._places.release(place)


NOWHERE = object()
"""The place where nobody has to wait for one."""
