"""Capacity that users share fairly on the clock: the bandwidth of a link, the processors of a machine."""

from __future__ import annotations

import math
from collections.abc import Generator
from functools import partial

import simpy

from asyncfl.simulation.clock import Clock
from asyncfl.world.fair_link import FairLink


class FairShare:
    """Shares out a capacity in one seed, see `FairLink`. Its flows of bits may stand for any work."""

    def __init__(self, clock: Clock, capacity: float) -> None:
        """`capacity`: total amount per second."""
        self._clock = clock
        self._flows = FairLink(capacity)
        self._through: dict[int, simpy.Event] = {}
        self._is_settling = False
        self._settled = 0

    def take(self, amount: float, cap: float, until_s: float) -> Generator[simpy.Event, None, float]:
        """Wait until `amount` > 0 has been received, at most `cap` per second, or until `until_s`. Returns the amount
        that is missing then; 0 if none is."""
        env = self._clock.env
        flow = self._flows.join(env.now, amount, cap)
        through = self._through[flow] = env.event()
        self._changed()
        yield through if until_s == math.inf else through | self._clock.until(until_s)
        if through.triggered:
            return 0.0
        del self._through[flow]
        missing = self._flows.leave(env.now, flow)
        self._changed()
        return missing

    def _changed(self) -> None:
        """Recompute rates once for all flows that join and leave at the same time."""
        if not self._is_settling:
            self._is_settling = True
            self._clock.later(0.0, self._settle)

    def _settle(self) -> None:
        self._is_settling = False
        self._settled += 1
        wait_s, flows = self._flows.next_finished(self._clock.now)
        if flows:
            self._clock.later(wait_s, partial(self._are_through, flows, self._settled))

    def _are_through(self, flows: tuple[int, ...], settled: int) -> None:
        if settled != self._settled:
            # A flow has joined or left since: these flows end at another time.
            return
        for flow in flows:
            # A client that went offline at this time has left already.
            if flow in self._through:
                self._flows.leave(self._clock.now, flow)
                self._through.pop(flow).succeed()
        self._changed()
