"""Capacity that users share on the clock: bandwidth of a link and processors of a machine, fairly; places to compute,
first come, first served."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from typing import Any, TypeAlias

import simpy

from asyncfl.protocol.events import Kind
from asyncfl.simulation.clock import NEVER, Clock, Moment
from asyncfl.simulation.event_order import LAST, SERVER, EventOrder
from asyncfl.simulation.phases import LinkMessage, MessageEvent
from asyncfl.world.fair_link import FairLink

Sent: TypeAlias = tuple[int, int]
"""Bytes and transmissions of a message that have left."""
NOTHING_SENT: Sent = (-1, -1)
"""Stands for them in a phase without a message."""


class FairShare:
    """Shares out a capacity in one seed, see `FairLink`. Its flows of bits may stand for any work."""

    def __init__(self, clock: Clock, capacity: float) -> None:
        """`capacity`: total amount per second."""
        self._clock = clock
        self._flows = FairLink(capacity)
        self._orders: dict[int, EventOrder] = {}
        """Active flow -> its place among those that end at the same time."""
        self._ends: dict[int, simpy.Event] = {}
        """Active flow -> event at its end, with the amount that is missing as its value."""
        self._is_settling = False
        self._settled = 0

    def join(self, amount: float, cap: float, order: EventOrder, until: Moment) -> int:
        """Start a flow of `amount` > 0, at most `cap` per second, and return its number. It is given up at `until`.
        `order`: of its end among those at the same time."""
        flow = self._flows.join(self._clock.now, amount, cap)
        self._orders[flow] = order
        self._changed()
        if until.time_s < math.inf:
            self._clock.at(until, self._give_up, flow)
        return flow

    def wait(self, flow: int) -> Generator[simpy.Event, Any, float | None]:
        """Wait for the end of a flow. Returns None, or the amount that is missing if it was given up."""
        self._ends[flow] = end = self._clock.env.event()
        missing: float | None = yield end
        return missing

    def _give_up(self, flow: int) -> None:
        if flow in self._orders:
            self._end(flow, self._flows.leave(self._clock.now, flow))

    def _changed(self) -> None:
        """Recompute rates once for all flows that join and leave at the same time."""
        if not self._is_settling:
            self._is_settling = True
            self._clock.later(0.0, LAST, self._settle)

    def _settle(self) -> None:
        self._is_settling = False
        self._settled += 1
        wait_s, flows = self._flows.next_finished(self._clock.now)
        for flow in flows:
            self._clock.later(wait_s, self._orders[flow], self._finish, flow, self._settled)

    def _finish(self, flow: int, settled: int) -> None:
        # If another flow has joined or left since, at an earlier time, this flow ends at another time.
        if settled == self._settled and flow in self._orders:
            self._flows.leave(self._clock.now, flow)
            self._end(flow, None)

    def _end(self, flow: int, missing: float | None) -> None:
        del self._orders[flow]
        self._changed()
        self._ends.pop(flow).succeed(missing)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_ends": {}}


class ServerLink:
    """One direction of the server's link in one seed. A transmission uses the link from its first packet to its last.
    While a sender waits for an acknowledgement or for the arrival of the last packet, it does not."""

    def __init__(self, clock: Clock, capacity_bps: float) -> None:
        """`capacity_bps`: bits per second that all messages share."""
        self.clock = clock
        self.bandwidth = FairShare(clock, capacity_bps)


class Transmission:
    """A message on the server's link, until it has arrived or its sender gives up."""

    def __init__(
        self,
        link: ServerLink,
        message: LinkMessage,
        order: EventOrder,
        until: Moment,
        note: Callable[[MessageEvent], None],
    ) -> None:
        """`order`: of its events among those of the same time. `until`: when it is broken off. `note`: called when
        packets are sent again, and when the eavesdropper has the message, in part or whole. A part counts from when the
        client's own link would have sent the first packet."""
        self._link, self._message, self._order, self._until, self._note = link, message, order, until, note
        self._bursts = tuple(message.transfer.bursts)
        self._attempt = 0
        """Transmissions begun."""
        self._left_packets = 0
        self._flow: int | None = None
        """Flow of the burst that is being sent; None between two bursts."""
        self._pause: Moment | None = None
        """End of the pause after the last burst; None while a burst is being sent."""

    def run(self) -> Generator[simpy.Event, Any, Sent | None]:
        """Send the bursts that are left. Returns None, or the bytes sent and transmissions begun if it was broken
        off."""
        bandwidth, env = self._link.bandwidth, self._link.clock.env
        while True:
            if self._pause is None:
                if self._flow is None:
                    if self._attempt == len(self._bursts):
                        return None
                    self._flow = self._send()
                unsent_bits = yield from bandwidth.wait(self._flow)
                self._flow = None
                self._count(unsent_bits)
                if unsent_bits is not None:
                    break
                self._pause = self._after_burst()
            yield env.timeout_at(min(self._pause, self._until))
            if self._pause > self._until:
                break
            self._pause = None
        return self._message.transfer.bytes_of(self._left_packets), self._attempt

    def _send(self) -> int:
        """Begin to send the next burst, and return its flow."""
        clock, (transfer, _, speed) = self._link.clock, self._message
        burst = self._bursts[self._attempt]
        self._attempt += 1
        if self._attempt > 1:
            self._note(MessageEvent(0.0, Kind.RETRANSMITTED, burst.size_bytes, self._attempt))
        caught = Moment(clock.now + transfer.packet_s / speed + transfer.to_tap_s / speed, self._order)
        if burst.caught and not (burst.overheard and transfer.packets == 1) and caught <= self._until:
            clock.at(caught, self._note, MessageEvent(0.0, Kind.OVERHEARD_IN_PART))
        packet_bits = 8 * transfer.payload_bytes / transfer.packets
        cap_bps = speed * packet_bits / transfer.packet_s if transfer.packet_s > 0 else math.inf
        return self._link.bandwidth.join(burst.packets * packet_bits, cap_bps, self._order, self._until)

    def _count(self, unsent_bits: float | None) -> None:
        """Count the packets of a burst that have left."""
        transfer = self._message.transfer
        self._left_packets += self._bursts[self._attempt - 1].packets
        if unsent_bits is not None:
            # 1e-9: a packet that leaves at exactly this time has left, despite rounding.
            packet_bits = 8 * transfer.payload_bytes / transfer.packets
            self._left_packets -= math.ceil(unsent_bits / packet_bits - 1e-9)

    def _after_burst(self) -> Moment:
        """Return the end of the pause after a burst. The eavesdropper may hear the burst until then."""
        clock, (transfer, _, speed) = self._link.clock, self._message
        burst = self._bursts[self._attempt - 1]
        heard = Moment(clock.now + transfer.to_tap_s / speed, self._order)
        if burst.overheard and heard <= self._until:
            clock.at(heard, self._note, MessageEvent(0.0, Kind.OVERHEARD))
        return Moment(clock.now + burst.pause_s / speed, self._order)


class Processors:
    """Processors that clients and server of one seed share: with n at work, each gets min(1, processors / n)."""

    def __init__(self, clock: Clock, number: float | None) -> None:
        """`number`: processors in all; None if each client and the server have one of their own."""
        self.clock = clock
        self.are_shared = number is not None
        """Whether work may take longer than it would alone."""
        self.share = None if number is None else FairShare(clock, number)

    def begin(self, alone_s: float, order: EventOrder = SERVER, until: Moment = NEVER) -> Work:
        """Begin work that takes `alone_s` on a processor of its own. It is given up at `until` if processors are
        shared. `order`: of its end among the events of that time."""
        if self.share is None or alone_s == 0:
            return Work(self, None, Moment(self.clock.now + alone_s, order))
        return Work(self, self.share.join(alone_s, 1.0, order, until), NEVER)


class Work:
    """Work on a processor."""

    def __init__(self, processors: Processors, flow: int | None, end: Moment) -> None:
        """`flow`: its flow if the processor is shared; None: it ends at `end`."""
        self._processors, self._flow, self._end = processors, flow, end

    def run(self) -> Generator[simpy.Event, Any, Sent | None]:
        """Wait for the end of the work. Returns None, or NOTHING_SENT if it was given up."""
        share = self._processors.share
        if share is None or self._flow is None:
            yield self._processors.clock.env.timeout_at(self._end)
            return None
        missing_s = yield from share.wait(self._flow)
        return None if missing_s is None else NOTHING_SENT


class Workers:
    """The places at which the clients of one seed compute."""

    def __init__(self, clock: Clock, number: int | None, turnaround_s: float, processors: Processors) -> None:
        """`number`: places in all; None for one per client. `turnaround_s`: seconds that a place stays empty between
        clients. `processors`: processors that clients compute on."""
        self.processors = processors
        self.are_limited = number is not None
        """Whether clients may have to wait for a place."""
        self._clock = clock
        self._number = number
        self._turnaround_s = turnaround_s
        self._asked = 0
        """Number of places that were asked for."""
        self._requests: dict[int, Any] = {}
        """Place, in use or asked for -> its request, in the order in which clients asked."""
        self.resume()

    def resume(self) -> None:
        """Ask for the places again that were in use or asked for when this was pickled."""
        if self._number is not None:
            self._places = simpy.Resource(self._clock.env, self._number)
            self._requests = {place: self._places.request() for place in self._requests}

    def ask(self) -> int:
        """Ask for a place, and return its number."""
        place, self._asked = self._asked, self._asked + 1
        self._requests[place] = self._places.request()
        return place

    def wait(self, place: int, until: Moment) -> Generator[simpy.Event, Any, bool]:
        """Wait for a place, and return whether it was free before `until`."""
        request = self._requests[place]
        if not request.triggered:
            never = until.time_s == math.inf
            yield request if never else request | self._clock.env.timeout_at(until)
        if request.triggered:
            return True
        request.cancel()
        del self._requests[place]
        return False

    def leave(self, place: int) -> None:
        """Free a place after the turnaround."""
        if self._turnaround_s > 0:
            self._clock.later(self._turnaround_s, SERVER, self._release, place)
        else:
            self._release(place)

    def _release(self, place: int) -> None:
        self._places.release(self._requests.pop(place))

    def __getstate__(self) -> dict[str, Any]:
        state = {name: value for name, value in self.__dict__.items() if name != "_places"}
        return state | {"_requests": dict.fromkeys(self._requests)}
