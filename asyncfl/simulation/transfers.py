"""Messages on the links: retransmissions, eavesdropping, and traffic."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from functools import partial

import simpy

from asyncfl.federation.phases import LinkMessage, MessageEvent
from asyncfl.federation.tasks_in_flight import TaskInFlight, TasksInFlight
from asyncfl.federation.traffic import Traffic
from asyncfl.simulation.clock import Clock
from asyncfl.simulation.server_link import ServerLink
from asyncfl.trace import Kind
from asyncfl.trace.events import CAUGHT, SCORING_DOWN


class Transfers:
    """The messages of one seed."""

    def __init__(self, clock: Clock, tasks: TasksInFlight, traffic: Traffic) -> None:
        self.clock = clock
        self.tasks = tasks
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

    # --- messages of tasks -----------------------------------------------------------------------------------------

    def begin(self, task: TaskInFlight, sending: LinkMessage) -> None:
        """Schedule the log entries of retransmissions and eavesdropping of a message, as long as the client is
        online."""
        self._mark(task.client, sending, partial(self._note, task, sending.way))

    def end(self, task: TaskInFlight, kind: Kind, sending: LinkMessage) -> None:
        """Log the end of a message whose client was online until then."""
        transfer, way = sending.transfer, sending.way
        self.traffic.count(transfer.sent_bytes, way)
        self.clock.record_task(kind, task, size=transfer.sent_bytes, attempt=transfer.attempts, detail=way)

    def share(
        self, task: TaskInFlight, sending: LinkMessage, until_s: float
    ) -> Generator[simpy.Event, None, tuple[int, int] | None]:
        """Transmit a message of a task over a shared link. Arguments and result as in `ServerLink.carry`."""
        return self._shared[sending.way].carry(sending, until_s, partial(self._note, task, sending.way))

    def _mark(self, client: int, sending: LinkMessage, note: Callable[[MessageEvent], None]) -> None:
        if not (sending.transfer.resent_at_s or sending.transfer.caught_s < math.inf):
            return
        clock = self.clock
        until = clock.world.next_change(client, clock.now)
        for mark in sending.events():
            if clock.now + mark.at_s <= until:
                clock.later(mark.at_s, partial(note, mark))

    def _note(self, task: TaskInFlight, way: str, mark: MessageEvent) -> None:
        if mark.kind is Kind.OVERHEARD:
            task.overheard |= way != "down"
            self.traffic.overhear("down" if way == "down" else "up", task.client, task.base_version)
        self.clock.record_task(mark.kind, task, size=mark.size, attempt=mark.attempt, detail=way)

    # --- messages of requests for scores ---------------------------------------------------------------------------

    def share_scoring(
        self, client: int, sending: LinkMessage, way: str, until_s: float
    ) -> Generator[simpy.Event, None, tuple[int, int] | None]:
        """Transmit over a shared link models to score to `client`, or its scores back.

        `way`: name of the message in the trace. Returns as `ServerLink.carry`.
        """
        return self._shared[sending.way].carry(sending, until_s, partial(self._note_scoring, client, way))

    def begin_scoring(self, client: int, sending: LinkMessage, way: str) -> None:
        """Schedule the log entries of models to score, sent to `client`, or of its scores sent back; see `begin`.

        `way`: name of the message in the trace.
        """
        self._mark(client, sending, partial(self._note_scoring, client, way))

    def _note_scoring(self, client: int, way: str, mark: MessageEvent) -> None:
        self.clock.record(mark.kind, client, way, mark.size, mark.attempt)
        if mark.kind in CAUGHT and way == SCORING_DOWN:
            # The models of a request reveal each update of the buffer.
            for task in self.tasks.collected():
                if not task.overheard:
                    self._note(task, way, mark)
