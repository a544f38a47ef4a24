"""The server's side of the links on the clock, where it is narrow: messages under way share it."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from functools import partial

import simpy

from asyncfl.federation.phases import Mark, Sending
from asyncfl.simulation.clock import Clock
from asyncfl.trace import Kind
from asyncfl.world.fair_link import FairLink


class ServerLink:
    """One direction of one seed. A transmission is on the link from its first packet to its last; who waits for an
    acknowledgement, or for the last packet to arrive, leaves the link to others."""

    def __init__(self, clock: Clock, capacity_bps: float) -> None:
        """`capacity_bps`: bits per second that all messages share."""
        self._clock = clock
        self._link = FairLink(capacity_bps)
        self._through: dict[int, simpy.Event] = {}
        self._is_settling = False
        self._settled = 0

    def carry(
        self, sending: Sending, until_s: float, note: Callable[[Mark], None]
    ) -> Generator[simpy.Event, None, tuple[int, int] | None]:
        """Take a message from its first packet to its end: it is there, or the sender gives it up.

        Its value is None; where it would have ended after `until_s`, bytes that had left by then, and transmissions
        that had begun. `note`: is told when packets are sent again, and when the tap has all.
        """
        clock, transfer, speed = self._clock, sending.transfer, sending.speed
        packet_bits = 8 * transfer.payload_bytes / transfer.packets
        cap_bps = speed * packet_bits / transfer.packet_s if transfer.packet_s > 0 else math.inf
        left_packets = 0
        for attempt, burst in enumerate(transfer.bursts, 1):
            if attempt > 1:
                note(Mark(0.0, Kind.RETRANSMITTED, burst.size_bytes, attempt))
            unsent_bits = yield from self._send(burst.packets * packet_bits, cap_bps, until_s)
            if unsent_bits > 0:
                # 1e-9: a packet that leaves at this very moment has left, whatever the rounding says.
                left_packets += burst.packets - math.ceil(unsent_bits / packet_bits - 1e-9)
                return transfer.bytes_of(left_packets), attempt
            left_packets += burst.packets
            if burst.overheard:
                note(Mark(0.0, Kind.OVERHEARD))
            pause_s = burst.pause_s / speed
            stays = clock.now + pause_s <= until_s
            yield clock.env.timeout(pause_s) if stays else clock.until(until_s)
            if not stays:
                return transfer.bytes_of(left_packets), attempt
        return None

    def _send(self, bits: float, cap_bps: float, until_s: float) -> Generator[simpy.Event, None, float]:
        """Send that many bits. Its value is those that had not left at `until_s`."""
        env = self._clock.env
        flow = self._link.join(env.now, bits, cap_bps)
        through = self._through[flow] = env.event()
        self._changed()
        yield through if until_s == math.inf else through | self._clock.until(until_s)
        if through.triggered:
            return 0.0
        del self._through[flow]
        unsent_bits = self._link.leave(env.now, flow)
        self._changed()
        return unsent_bits

    def _changed(self) -> None:
        """Rates are worked out once for all that join and leave at one moment."""
        if not self._is_settling:
            self._is_settling = True
            self._clock.later(0.0, self._settle)

    def _settle(self) -> None:
        self._is_settling = False
        self._settled += 1
        wait_s, flows = self._link.soonest(self._clock.now)
        if flows:
            self._clock.later(wait_s, partial(self._are_through, flows, self._settled))

    def _are_through(self, flows: tuple[int, ...], settled: int) -> None:
        if settled != self._settled:
            # Somebody has joined or left since: these are through at another time.
            return
        for flow in flows:
            # Who went offline at this very moment has left already.
            if flow in self._through:
                self._link.leave(self._clock.now, flow)
                self._through.pop(flow).succeed()
        self._changed()
