"""Places to compute for clients that share a machine: first come, first served; and its processors, which the server
may share."""

from __future__ import annotations

import math
from collections.abc import Generator
from functools import partial
from typing import Any

import simpy

from asyncfl.simulation.clock import Clock
from asyncfl.simulation.fair_share import FairShare


class Processors:
    """Processors that clients and server of one seed share: with n at work, each gets min(1, processors / n)."""

    def __init__(self, clock: Clock, number: float | None) -> None:
        """`number`: processors in all; None if each client and the server have one of their own."""
        self._clock = clock
        self._share = None if number is None else FairShare(clock, number)

    @property
    def are_shared(self) -> bool:
        """Whether work may take longer than it would alone."""
        return self._share is not None

    def work(self, alone_s: float, until_s: float = math.inf) -> Generator[simpy.Event, None, bool]:
        """Do work that takes `alone_s` on a processor of its own. Returns whether it was done by `until_s`, which is
        checked only if processors are shared."""
        if self._share is None or alone_s == 0:
            yield self._clock.env.timeout(alone_s)
            return True
        return not (yield from self._share.take(alone_s, 1.0, until_s))


class Workers:
    """The places at which the clients of one seed compute."""

    def __init__(self, clock: Clock, number: int | None, turnaround_s: float, processors: Processors) -> None:
        """`number`: places in all; None for one per client. `turnaround_s`: seconds that a place stays empty between
        clients. `processors`: processors that clients compute on."""
        self.processors = processors
        self._clock = clock
        self._turnaround_s = turnaround_s
        self._places = None if number is None else simpy.Resource(clock.env, number)

    def wait(self, client: int) -> Generator[simpy.Event, None, Any]:
        """Wait for a place. Returns the place, to be passed to `leave`; None if the client went offline before."""
        if self._places is None:
            return UNLIMITED
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
        """Free the place after the turnaround."""
        if self._places is None:
            return
        if self._turnaround_s > 0:
            self._clock.later(self._turnaround_s, partial(self._free, place))
        else:
            self._free(place)

    def _free(self, place: Any) -> None:
        if self._places is not None:
            self._places.release(place)


UNLIMITED = object()
"""Stands for a place if places are unlimited."""
