"""Capacity that users share on the clock: bandwidth of a link and processors of a machine, fairly; places to compute,
first come, first served."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import simpy

from asyncfl.federation.event_order import LAST, SERVER, EventOrder, Priority
from asyncfl.federation.phases import LinkMessage, MessageEvent
from asyncfl.simulation.clock import NEVER, Call, Clock, Moment
from asyncfl.trace import Kind
from asyncfl.world.fair_link import FairLink


class FairShare:
    """Shares out a capacity in one seed, see `FairLink`. Its flows of bits may stand for any work."""

    def __init__(self, clock: Clock, capacity: float) -> None:
        """`capacity`: total amount per second."""
        self._clock = clock
        self._flows = FairLink(capacity)
        self._waiting: dict[int, tuple[EventOrder, Call]] = {}
        """Active flow -> its place among those that end at the same time, and the function to call then."""
        self._is_settling = False
        self._settled = 0

    def take(self, amount: float, cap: float, order: EventOrder, until: Moment, do: Call) -> None:
        """Call `do` with None once `amount` > 0 has been received, at most `cap` per second, or at `until`, if that is
        earlier, with the amount that is missing. `order`: among those that end at the same time."""
        flow = self._flows.join(self._clock.now, amount, cap)
        self._waiting[flow] = order, do
        self._changed()
        if until.time_s < math.inf:
            self._clock.at(until, self._given_up, flow)

    def _given_up(self, flow: int) -> None:
        if flow in self._waiting:
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
            self._clock.later(wait_s, self._waiting[flow][0], self._is_through, flow, self._settled)

    def _is_through(self, flow: int, settled: int) -> None:
        # If another flow has joined or left since, at an earlier time, this flow ends at another time.
        if settled == self._settled and flow in self._waiting:
            self._flows.leave(self._clock.now, flow)
            self._end(flow, None)

    def _end(self, flow: int, missing: float | None) -> None:
        _, do = self._waiting.pop(flow)
        self._changed()
        do(missing)


class ServerLink:
    """One direction of the server's link in one seed. A transmission uses the link from its first packet to its last.
    While a sender waits for an acknowledgement or for the arrival of the last packet, it does not."""

    def __init__(self, clock: Clock, capacity_bps: float) -> None:
        """`capacity_bps`: bits per second that all messages share."""
        self.clock = clock
        self.bandwidth = FairShare(clock, capacity_bps)

    def carry(
        self, message: LinkMessage, order: EventOrder, until: Moment, note: Callable[[MessageEvent], None], do: Call
    ) -> None:
        """Transmit `message` until it has arrived or its sender gives up.

        Call `do` with None then; if it would have ended after `until`, with the bytes sent and transmissions begun by
        then. `order`: of its events among those of the same time. `note`: called when packets are sent again, and when
        the eavesdropper has the message, in part or whole. A part counts from when the client's own link would have
        sent the first packet.
        """
        _Transmission(self, message, order, until, note, do).send()


class _Transmission:
    """A message on the server's link."""

    def __init__(
        self,
        link: ServerLink,
        message: LinkMessage,
        order: EventOrder,
        until: Moment,
        note: Callable[[MessageEvent], None],
        do: Call,
    ) -> None:
        self._link, self._message, self._order, self._until = link, message, order, until
        self._note, self._do = note, do
        self._bursts = tuple(message.transfer.bursts)
        self._attempt = 0
        """Transmissions begun."""
        self._left_packets = 0

    def send(self) -> None:
        """Send the next burst, if there is one."""
        clock, (transfer, _, speed) = self._link.clock, self._message
        if self._attempt == len(self._bursts):
            self._do(None)
            return
        burst = self._bursts[self._attempt]
        self._attempt += 1
        if self._attempt > 1:
            self._note(MessageEvent(0.0, Kind.RETRANSMITTED, burst.size_bytes, self._attempt))
        caught_s = clock.now + transfer.packet_s / speed + transfer.to_tap_s / speed
        if burst.caught and not (burst.overheard and transfer.packets == 1) and self._is_in_time(caught_s):
            clock.at(Moment(caught_s, self._order), self._note, MessageEvent(0.0, Kind.OVERHEARD_IN_PART))
        packet_bits = 8 * transfer.payload_bytes / transfer.packets
        cap_bps = speed * packet_bits / transfer.packet_s if transfer.packet_s > 0 else math.inf
        self._link.bandwidth.take(burst.packets * packet_bits, cap_bps, self._order, self._until, self._sent)

    def _sent(self, unsent_bits: float | None) -> None:
        clock, (transfer, _, speed) = self._link.clock, self._message
        burst = self._bursts[self._attempt - 1]
        self._left_packets += burst.packets
        if unsent_bits is not None:
            # 1e-9: a packet that leaves at exactly this time has left, despite rounding.
            packet_bits = 8 * transfer.payload_bytes / transfer.packets
            self._left_packets -= math.ceil(unsent_bits / packet_bits - 1e-9)
            self._break_off()
            return
        to_tap_s, pause_s = transfer.to_tap_s / speed, burst.pause_s / speed
        if burst.overheard and self._is_in_time(clock.now + to_tap_s):
            clock.later(to_tap_s, self._order, self._note, MessageEvent(0.0, Kind.OVERHEARD))
        if self._is_in_time(clock.now + pause_s):
            clock.later(pause_s, self._order, self.send)
        else:
            clock.at(self._until, self._break_off)

    def _is_in_time(self, time_s: float) -> bool:
        return Moment(time_s, self._order) <= self._until

    def _break_off(self) -> None:
        self._do((self._message.transfer.bytes_of(self._left_packets), self._attempt))


class Processors:
    """Processors that clients and server of one seed share: with n at work, each gets min(1, processors / n)."""

    def __init__(self, clock: Clock, number: float | None) -> None:
        """`number`: processors in all; None if each client and the server have one of their own."""
        self._clock = clock
        self.are_shared = number is not None
        """Whether work may take longer than it would alone."""
        self._share = None if number is None else FairShare(clock, number)

    def work(self, alone_s: float, do: Call, order: EventOrder = SERVER, until: Moment = NEVER) -> None:
        """Do work that takes `alone_s` on a processor of its own, then call `do` with whether it was done by `until`,
        which is checked only if processors are shared. `order`: of its end among the events of that time."""
        if self._share is None or alone_s == 0:
            self._clock.later(alone_s, order, do, True)
        else:
            self._share.take(alone_s, 1.0, order, until, partial(self._worked, do))

    def _worked(self, do: Call, missing_s: float | None) -> None:
        do(missing_s is None)


class _Places(simpy.Resource):
    """Places to compute. A subclass binds no classes to its instances, unlike SimPy's own, and so can be pickled."""


class Workers:
    """The places at which the clients of one seed compute."""

    def __init__(self, clock: Clock, number: int | None, turnaround_s: float, processors: Processors) -> None:
        """`number`: places in all; None for one per client. `turnaround_s`: seconds that a place stays empty between
        clients. `processors`: processors that clients compute on."""
        self.processors = processors
        self.are_limited = number is not None
        """Whether clients may have to wait for a place."""
        self._clock = clock
        self._turnaround_s = turnaround_s
        self._places = None if number is None else _Places(clock.env, number)

    def wait(self, client: int, part: int, do: Call) -> None:
        """Call `do` with a place, to be passed to `leave`, as soon as one is free; with None when the client goes
        offline before. `part`: see `EventOrder`."""
        if self._places is None:
            do(UNLIMITED)
            return
        place, until_s = self._places.request(), self._clock.world.presence.next_change(client, self._clock.env.now)
        if place.triggered:
            do(place)
        else:
            until = Moment(until_s, EventOrder(Priority.PRESENCE, client, part))
            self._clock.either(place, until).callbacks.append(partial(self._waited, place, do))

    def _waited(self, place: Any, do: Call, _: simpy.Event) -> None:
        if place.triggered:
            do(place)
        else:
            place.cancel()
            do(None)

    def leave(self, place: Any) -> None:
        """Free the place after the turnaround."""
        if self._places is None:
            return
        if self._turnaround_s > 0:
            self._clock.later(self._turnaround_s, SERVER, self._release, place)
        else:
            self._release(place)

    def _release(self, place: Any) -> None:
        if self._places is not None:
            self._places.release(place)


UNLIMITED = "unlimited"
"""Stands for a place if places are unlimited."""
