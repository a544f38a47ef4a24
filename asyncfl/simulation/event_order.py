"""Order of events at equal times, on the virtual clock and live on simulated time.

Events happen in the order of (time, priority, number, part). The order of scheduling decides only between events of one
phase of one task. So two runs of a scenario agree where devices are equal, links cost nothing, or limits end together.
The server handles what an event brings before the next event happens.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from asyncfl.protocol import machine


class Priority(IntEnum):
    """Kind of an event. At equal times a lower value comes first."""

    IMMEDIATE = 0
    """Follows at once from the event before."""
    PRESENCE = 1
    """A client goes offline or comes online; number: the client. At a change, the new state holds."""
    DETECTION = 2
    """The server learns that a client went offline or came online; number: the client."""
    LEASE = 3
    """The lease of a client that is offline ends; number: the client."""
    TASK = 4
    """A phase of a task ends; number: the task."""
    SCORING = 5
    """A phase of a request for scores ends; number: the request."""
    SERVER = 6
    """Work of the server or of a mixing node ends."""
    TIMER = 7
    """A timer of the protocol fires; number: of a deadline, its cohort; of a poll, the latest version; -1 for the timer
    that repeats a cohort."""
    TIME_LIMIT = 8
    """The time limit ends the run: after all that happens at this time."""
    LAST = 9
    """Rates of shared capacity change, for all that begins or ends at this time; an asyncio timer of no client."""


class EventOrder(NamedTuple):
    """Place of an event among those of the same time."""

    priority: Priority
    number: int = 0
    """Number of the task, request, client or cohort."""
    part: int = 0
    """For a client: 0 its task, 1 its request for scores, 2 the client itself."""

    @classmethod
    def of_task(cls, number: int) -> EventOrder:
        """Return the place of the end of a task's last phase."""
        # As `cls(Priority.TASK, number)`, at half the cost.
        return tuple.__new__(cls, (Priority.TASK, number, 0))

    @classmethod
    def of_timer(cls, name: str) -> EventOrder:
        """Return the place of a timer of the server."""
        kind, _, number = name.partition(":")
        match kind:
            case machine.AGGREGATION:
                return cls(Priority.SERVER)
            case "time_limit":
                return cls(Priority.TIME_LIMIT)
        return cls(Priority.TIMER, int(number) if number else -1)


IMMEDIATE = EventOrder(Priority.IMMEDIATE)
SERVER = EventOrder(Priority.SERVER)
LAST = EventOrder(Priority.LAST)
