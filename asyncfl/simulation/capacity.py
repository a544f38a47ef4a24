"""Capacity that users share on the clock: bandwidth of a link and processors of a machine, fairly; places to compute,
first come, first served."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from functools import partial
from typing import Any

import simpy

from asyncfl.federation.phases import LinkMessage, MessageEvent
from asyncfl.simulation.clock import Clock
from asyncfl.trace import Kind
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


class ServerLink:
    """One direction of the server's link in one seed. A transmission uses the link from its first packet to its last.
    While a sender waits for an acknowledgement or for the arrival of the last packet, it does not."""

    def __init__(self, clock: Clock, capacity_bps: float) -> None:
        """`capacity_bps`: bits per second that all messages share."""
        self._clock = clock
        self._bandwidth = FairShare(clock, capacity_bps)

    def carry(
        self, sending: LinkMessage, until_s: float, note: Callable[[MessageEvent], None]
    ) -> Generator[simpy.Event, None, tuple[int, int] | None]:
        """Transmit the message `sending` until it has arrived or its sender gives up.

        Returns None; if it would have ended after `until_s`, the bytes sent and transmissions begun by then. `note`:
        called when packets are sent again, and when the eavesdropper has the message, in part or whole. A part counts
        from when the client's own link would have sent the first packet.
        """
        clock, transfer, speed = self._clock, sending.transfer, sending.speed
        packet_bits = 8 * transfer.payload_bytes / transfer.packets
        cap_bps = speed * packet_bits / transfer.packet_s if transfer.packet_s > 0 else math.inf
        left_packets = 0
        for attempt, burst in enumerate(transfer.bursts, 1):
            if attempt > 1:
                note(MessageEvent(0.0, Kind.RETRANSMITTED, burst.size_bytes, attempt))
            to_tap_s = transfer.to_tap_s / speed
            caught_s = clock.now + transfer.packet_s / speed + to_tap_s
            if burst.caught and not (burst.overheard and transfer.packets == 1) and caught_s <= until_s:
                clock.later(caught_s - clock.now, partial(note, MessageEvent(0.0, Kind.OVERHEARD_IN_PART)))
            unsent_bits = yield from self._bandwidth.take(burst.packets * packet_bits, cap_bps, until_s)
            if unsent_bits > 0:
                # 1e-9: a packet that leaves at exactly this time has left, despite rounding.
                left_packets += burst.packets - math.ceil(unsent_bits / packet_bits - 1e-9)
                return transfer.bytes_of(left_packets), attempt
            left_packets += burst.packets
            if burst.overheard and clock.now + to_tap_s <= until_s:
                clock.later(to_tap_s, partial(note, MessageEvent(0.0, Kind.OVERHEARD)))
            pause_s = burst.pause_s / speed
            stays = clock.now + pause_s <= until_s
            yield clock.env.timeout(pause_s) if stays else clock.until(until_s)
            if not stays:
                return transfer.bytes_of(left_packets), attempt
        return None


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
        place, until_s = self._places.request(), self._clock.world.presence.next_change(client, self._clock.env.now)
        if not place.triggered:
            yield place if until_s == math.inf else place | self._clock.until(until_s)
        if place.triggered:
            return place
        place.cancel()
        return None

    def leave(self, place: Any) -> None:
        """Free the place after the turnaround."""
        if self._places is None:
            return
        if self._turnaround_s > 0:
            self._clock.later(self._turnaround_s, partial(self._places.release, place))
        else:
            self._places.release(place)


UNLIMITED = object()
"""Stands for a place if places are unlimited."""
