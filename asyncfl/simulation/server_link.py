"""The server's side of the links on the clock: messages in transmission share its bandwidth."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from functools import partial

import simpy

from asyncfl.federation.phases import LinkMessage, MessageEvent
from asyncfl.simulation.clock import Clock
from asyncfl.simulation.fair_share import FairShare
from asyncfl.trace import Kind


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
