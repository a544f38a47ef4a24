"""Messages on the links: what is sent again, what the tap holds of them, and how much it all is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from asyncfl.federation.traffic import Traffic, Way
from asyncfl.simulation.clock import Clock
from asyncfl.simulation.tasks import TaskInFlight, TasksInFlight
from asyncfl.trace import Kind
from asyncfl.trace.events import SCORING_DOWN
from asyncfl.world import Transfer

ARRIVED: dict[Way, Kind] = {"down": Kind.DOWNLOADED, "up": Kind.UPLOADED}
"""What a message of a task that arrives is recorded as."""


class Transfers:
    """The messages of one seed."""

    def __init__(self, clock: Clock, tasks: TasksInFlight) -> None:
        self.clock = clock
        self.tasks = tasks
        self.traffic = Traffic()

    # --- of tasks --------------------------------------------------------------------------------------------------

    def begin(self, task: TaskInFlight, transfer: Transfer, speed: float, way: Way) -> None:
        """Have written down when packets are sent again, and when the tap has all: as long as the client is online.

        `speed`: how many times as fast as usual.
        """
        if not (transfer.waits_s or transfer.overheard):
            return
        clock = self.clock
        until = clock.world.next_change(task.client, clock.now)
        again = partial(clock.note, Kind.RETRANSMITTED, task, detail=way)
        for at_s, record in _marks(transfer, again, partial(self._overheard, task, way)):
            if clock.now + at_s / speed <= until:
                clock.later(at_s / speed, record)

    def end(self, task: TaskInFlight, transfer: Transfer, way: Way) -> None:
        """Write down what became of a message whose client was online to its end."""
        self.traffic.count(transfer.sent_bytes, way)
        kind = ARRIVED[way] if transfer.delivered else Kind.LOST
        self.clock.note(kind, task, size=transfer.sent_bytes, attempt=transfer.attempts, detail=way)

    def _overheard(self, task: TaskInFlight, way: str) -> None:
        task.overheard |= way != "down"
        held = self.traffic.overheard_down if way == "down" else self.traffic.overheard_up
        held[task.client] = held.get(task.client, 0) + 1
        if way == "down":
            self.traffic.overheard_versions.add(task.base_version)
        self.clock.note(Kind.OVERHEARD, task, detail=way)

    # --- of requests for scores ------------------------------------------------------------------------------------

    def begin_scoring(self, client: int, transfer: Transfer, way: str) -> None:
        """The same for models to score on their way to `client`, or its scores on their way back."""
        if not (transfer.waits_s or transfer.overheard):
            return
        clock = self.clock
        until = clock.world.next_change(client, clock.now)
        again = partial(clock.record, Kind.RETRANSMITTED, client, way)
        for at_s, record in _marks(transfer, again, partial(self._overheard_scoring, client, way)):
            if clock.now + at_s <= until:
                clock.later(at_s, record)

    def _overheard_scoring(self, client: int, way: str) -> None:
        """The tap has the models of a request, and so each update of the buffer; or it has scores."""
        self.clock.record(Kind.OVERHEARD, client, way)
        for task in self.tasks.collected() if way == SCORING_DOWN else ():
            if not task.overheard:
                self._overheard(task, way)


def _marks(
    transfer: Transfer, again: Callable[..., None], overheard: Callable[[], None]
) -> Iterator[tuple[float, Callable[[], None]]]:
    """What there is to write down of a message on its way, each with its time in seconds after the start."""
    for attempt, (at_s, size) in enumerate(zip(transfer.waits_s, transfer.resent_bytes, strict=True), 2):
        yield at_s, partial(again, size=size, attempt=attempt)
    if transfer.overheard:
        yield transfer.overheard_s, overheard
