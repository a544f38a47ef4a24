"""Messages on the links: retransmissions, eavesdropping, and traffic."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from functools import partial
from typing import TypeAlias

import simpy

from asyncfl.federation.phases import LinkMessage, MessageEvent
from asyncfl.federation.traffic import Traffic
from asyncfl.server.tasks import TaskRecord
from asyncfl.simulation.capacity import FairShare
from asyncfl.simulation.clock import Clock
from asyncfl.trace import Kind
from asyncfl.trace.events import CAUGHT, SCORING_DOWN

Note: TypeAlias = Callable[[MessageEvent], None]
"""Function that logs an event of a message in transmission."""


class ServerLink:
    """One direction of the server's link in one seed. A transmission uses the link from its first packet to its last.
    While a sender waits for an acknowledgement or for the arrival of the last packet, it does not."""

    def __init__(self, clock: Clock, capacity_bps: float) -> None:
        """`capacity_bps`: bits per second that all messages share."""
        self._clock = clock
        self._bandwidth = FairShare(clock, capacity_bps)

    def carry(
        self, sending: LinkMessage, until_s: float, note: Note
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


class Transfers:
    """The messages of one seed."""

    def __init__(self, clock: Clock, traffic: Traffic) -> None:
        self.clock = clock
        self.traffic = traffic
        links = {"down": clock.world.downlink.link, "up": clock.world.uplink.link}
        self._shared = {
            way: ServerLink(clock, link.server_bandwidth_bps) for way, link in links.items() if link.is_shared
        }

    @property
    def any_shared(self) -> bool:
        """Whether messages share a link, so that the duration of a transmission is not known in advance."""
        return bool(self._shared)

    def shares(self, sending: LinkMessage | None) -> bool:
        """Whether the message goes over a shared link."""
        return sending is not None and sending.way in self._shared

    def begin(self, client: int, sending: LinkMessage, note: Note) -> None:
        """Schedule the log entries of retransmissions and eavesdropping of a message, as long as the client is
        online. `note`: from `task_note` or `scoring_note`."""
        if not (sending.transfer.resent_at_s or sending.transfer.caught_s < math.inf):
            return
        clock = self.clock
        until = clock.world.next_change(client, clock.now)
        for mark in sending.events():
            if clock.now + mark.at_s <= until:
                clock.later(mark.at_s, partial(note, mark))

    def share(
        self, sending: LinkMessage, until_s: float, note: Note
    ) -> Generator[simpy.Event, None, tuple[int, int] | None]:
        """Transmit a message over a shared link. Arguments and result as in `ServerLink.carry`."""
        return self._shared[sending.way].carry(sending, until_s, note)

    def end(self, task: TaskRecord, kind: Kind, sending: LinkMessage) -> None:
        """Log the end of a message whose client was online until then."""
        transfer, way = sending.transfer, sending.way
        self.traffic.count(transfer.sent_bytes, way)
        self.clock.record_task(kind, task, size=transfer.sent_bytes, attempt=transfer.attempts, detail=way)

    def task_note(self, task: TaskRecord, way: str) -> Note:
        """Return the function that logs the events of a task's message."""
        return partial(self._note, task, way)

    def scoring_note(self, client: int, way: str) -> Note:
        """Return the function that logs the events of models to score, sent to `client`, or of its scores sent back.
        `way`: name of the message in the trace."""
        return partial(self._note_scoring, client, way)

    def _note(self, task: TaskRecord, way: str, mark: MessageEvent) -> None:
        if mark.kind is Kind.OVERHEARD:
            task.overheard |= way != "down"
            self.traffic.overhear("down" if way == "down" else "up", task.client, task.base_version)
        self.clock.record_task(mark.kind, task, size=mark.size, attempt=mark.attempt, detail=way)

    def _note_scoring(self, client: int, way: str, mark: MessageEvent) -> None:
        self.clock.record(mark.kind, client, way, mark.size, mark.attempt)
        if mark.kind in CAUGHT and way == SCORING_DOWN:
            # The models of a request reveal each update of the buffer.
            for task in self.clock.server.tasks.collected():
                if not task.overheard:
                    self._note(task, way, mark)
