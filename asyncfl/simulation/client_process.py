"""A task or a request for scores as a process: a phase of a client, on links and processors that may be shared.

A phase is broken off when the client goes offline.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, ClassVar

import simpy

from asyncfl.protocol.events import Kind
from asyncfl.simulation.capacity import NOTHING_SENT, Sent, Transmission, Work
from asyncfl.simulation.clock import NEVER, Moment, ResumableProcess
from asyncfl.simulation.event_order import EventOrder, Priority
from asyncfl.simulation.phases import LinkMessage, MessageEvent

if TYPE_CHECKING:
    from asyncfl.simulation.client_processes import ClientProcesses


class ClientProcess(ResumableProcess):
    """A task or a request for scores of one client."""

    __slots__ = ("began_s", "client", "message", "order", "place", "processes", "shared", "until")
    part: ClassVar[int]
    """See `EventOrder`."""

    def __init__(self, processes: ClientProcesses, client: int, order: EventOrder) -> None:
        """`order`: of its events among those of the same time."""
        self.processes = processes
        self.client = client
        self.order = order
        self.message: LinkMessage | None = None
        """Message in transmission; None: the client computes."""
        self.place: int | None = None
        """Place at which the client computes, or for which it waits."""
        self.began_s: float | None = None
        """Begin of the current phase; None while the client waits for a place to compute."""
        self.until = NEVER
        """When the phase, or the wait for a place, is broken off."""
        self.shared: Transmission | Work | None = None
        """The phase on a shared link or processor; None if it takes its own time."""

    @abstractmethod
    def _logger(self, message: LinkMessage) -> Callable[[MessageEvent], None]:
        """Return a function that logs an event of the message."""

    def _offline(self) -> Moment:
        """Return when the client next goes offline."""
        clock = self.processes.clock
        offline_s = clock.world.presence.next_change(self.client, clock.now)
        if offline_s == math.inf:
            return NEVER
        return Moment(offline_s, EventOrder(Priority.PRESENCE, self.client, self.part))

    def _ask_for_place(self) -> None:
        """Ask for a place to compute, as these are limited."""
        self.until, self.place = self._offline(), self.processes.workers.ask()

    def _wait_for_place(self, place: int) -> Generator[simpy.Event, Any, bool]:
        """Wait for the place that the client has asked for. Returns False if the client goes offline before."""
        is_free = yield from self.processes.workers.wait(place, self.until)
        if not is_free:
            self.place = None
        return is_free

    def _leave_place(self, place: int) -> None:
        self.processes.workers.leave(place)
        self.place = None

    def _begin_phase(self, duration_s: float, until: Moment) -> None:
        """Begin a phase that lasts for `duration_s`, or longer where its link or processor is shared. It is broken off
        at `until`."""
        processes, message = self.processes, self.message
        now_s = processes.clock.now
        self.began_s, self.until, self.shared = now_s, until, None
        if message is None:
            if processes.workers.processors.are_shared:
                self.shared = processes.workers.processors.begin(duration_s, self.order, until)
        elif processes.are_shared and (link := processes.shared.get(message.way)) is not None:
            self.shared = Transmission(link, message, self.order, until, self._logger(message))
        elif message.transfer.resent_at_s or message.transfer.caught_s < math.inf:
            note = self._logger(message)
            for mark in message.events():
                at = Moment(now_s + mark.at_s, self.order)
                if at <= until and (processes.whole or mark.kind is Kind.OVERHEARD):
                    processes.clock.at(at, note, mark)

    def _pass_phase(self, duration_s: float) -> Generator[simpy.Event, Any, Sent | None]:
        """Pass the rest of a phase that has begun. Returns None, or the bytes and transmissions that had left if it was
        broken off."""
        assert self.began_s is not None
        if self.shared is not None:
            broken = yield from self.shared.run()
            return broken
        clock, message = self.processes.clock, self.message
        end = Moment(self.began_s + duration_s, self.order)
        if end <= self.until:
            yield clock.env.timeout_at(end)
            return None
        yield clock.env.timeout_at(self.until)
        return NOTHING_SENT if message is None else message.broken_off(clock.now - self.began_s)
