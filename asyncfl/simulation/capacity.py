"""Capacity that users share on the clock: bandwidth of a link and processors of a machine, fairly; places to compute,
first come, first served."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import simpy

from asyncfl.federation.phases import LinkMessage, MessageEvent
from asyncfl.simulation.clock import Call, Clock
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

    def take(self, amount: float, cap: float, until_s: float, do: Call) -> None:
        """Call `do` with the amount that is missing: with 0 once `amount` > 0 has been received, at most `cap` per
        second, or at `until_s` if that is earlier."""
        env = self._clock.env
        flow = self._flows.join(env.now, amount, cap)
        through = self._through[flow] = env.event()
        self._changed()
        self._clock.either(through, until_s).callbacks.append(partial(self._taken, flow, through, do))

    def _taken(self, flow: int, through: simpy.Event, do: Call, _: simpy.Event) -> None:
        if through.triggered:
            do(0.0)
            return
        del self._through[flow]
        missing = self._flows.leave(self._clock.now, flow)
        self._changed()
        do(missing)

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
            self._clock.later(wait_s, self._are_through, flows, self._settled)

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
        self.clock = clock
        self.bandwidth = FairShare(clock, capacity_bps)

    def carry(self, message: LinkMessage, until_s: float, note: Callable[[MessageEvent], None], do: Call) -> None:
        """Transmit `message` until it has arrived or its sender gives up.

        Call `do` with None then; if it would have ended after `until_s`, with the bytes sent and transmissions begun by
        then. `note`: called when packets are sent again, and when the eavesdropper has the message, in part or whole. A
        part counts from when the client's own link would have sent the first packet.
        """
        _Transmission(self, message, until_s, note, do).send()


class _Transmission:
    """A message on the server's link."""

    def __init__(
        self, link: ServerLink, message: LinkMessage, until_s: float, note: Callable[[MessageEvent], None], do: Call
    ) -> None:
        self._link, self._message, self._until_s, self._note, self._do = link, message, until_s, note, do
        self._bursts = tuple(message.transfer.bursts)
        self._attempt = 0
        """Transmissions begun."""
        self._left_packets = 0

    def send(self) -> None:
        """Send the next burst, if there is one."""
        clock, (transfer, _, speed), until_s = self._link.clock, self._message, self._until_s
        if self._attempt == len(self._bursts):
            self._do(None)
            return
        burst = self._bursts[self._attempt]
        self._attempt += 1
        if self._attempt > 1:
            self._note(MessageEvent(0.0, Kind.RETRANSMITTED, burst.size_bytes, self._attempt))
        caught_s = clock.now + transfer.packet_s / speed + transfer.to_tap_s / speed
        if burst.caught and not (burst.overheard and transfer.packets == 1) and caught_s <= until_s:
            clock.later(caught_s - clock.now, self._note, MessageEvent(0.0, Kind.OVERHEARD_IN_PART))
        packet_bits = 8 * transfer.payload_bytes / transfer.packets
        cap_bps = speed * packet_bits / transfer.packet_s if transfer.packet_s > 0 else math.inf
        self._link.bandwidth.take(burst.packets * packet_bits, cap_bps, until_s, self._sent)

    def _sent(self, unsent_bits: float) -> None:
        clock, (transfer, _, speed), until_s = self._link.clock, self._message, self._until_s
        burst = self._bursts[self._attempt - 1]
        self._left_packets += burst.packets
        if unsent_bits > 0:
            # 1e-9: a packet that leaves at exactly this time has left, despite rounding.
            packet_bits = 8 * transfer.payload_bytes / transfer.packets
            self._left_packets -= math.ceil(unsent_bits / packet_bits - 1e-9)
            self._break_off()
            return
        to_tap_s, pause_s = transfer.to_tap_s / speed, burst.pause_s / speed
        if burst.overheard and clock.now + to_tap_s <= until_s:
            clock.later(to_tap_s, self._note, MessageEvent(0.0, Kind.OVERHEARD))
        if clock.now + pause_s <= until_s:
            clock.later(pause_s, self.send)
        else:
            clock.at(until_s, self._break_off)

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

    def work(self, alone_s: float, do: Call, until_s: float = math.inf) -> None:
        """Do work that takes `alone_s` on a processor of its own, then call `do` with whether it was done by `until_s`,
        which is checked only if processors are shared."""
        if self._share is None or alone_s == 0:
            self._clock.later(alone_s, do, True)
        else:
            self._share.take(alone_s, 1.0, until_s, partial(self._worked, do))

    def _worked(self, do: Call, missing_s: float) -> None:
        do(not missing_s)


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

    def wait(self, client: int, do: Call) -> None:
        """Call `do` with a place, to be passed to `leave`, as soon as one is free; with None when the client goes
        offline before."""
        if self._places is None:
            do(UNLIMITED)
            return
        place, until_s = self._places.request(), self._clock.world.presence.next_change(client, self._clock.env.now)
        if place.triggered:
            do(place)
        else:
            self._clock.either(place, until_s).callbacks.append(partial(self._waited, place, do))

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
            self._clock.later(self._turnaround_s, self._release, place)
        else:
            self._release(place)

    def _release(self, place: Any) -> None:
        if self._places is not None:
            self._places.release(place)


UNLIMITED = "unlimited"
"""Stands for a place if places are unlimited."""
