"""Detection of clients that go offline during a task.

The server notices at once that a client cannot be reached when it sends it something. A client that works on a task
sends heartbeats, and each heartbeat renews the lease of the task. When the lease expires, the server gives the task up.
Heartbeats are modelled as so frequent that the last one is sent when the client goes offline, and as so small that they
take no bandwidth. With real heartbeats every h seconds, a lease expires up to h seconds sooner.

A lease does not limit the time of a task: a slow client that stays online keeps its task. The protocol limits slow
tasks (`open`, `over_selection`, `max_staleness`).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from asyncfl.base.component import Component, choice
from asyncfl.base.quantities import MeasuredIn


class FailureDetection(Component):
    """Base class of the models of failure detection."""

    logged: ClassVar[tuple[str, ...]] = ("events.lost", "events.dispatched")

    @abstractmethod
    def detected_s(self, gone_s: float, back_s: float) -> float:
        """Compute the time at which the server detects that a client went offline, seconds, `gone_s`..`back_s`.

        `gone_s`: time at which the client went offline, during a task or during scoring. `back_s` > `gone_s`: time at
        which it comes online and asks for work, which reveals that its task is lost; inf: never.
        """


class LeaseDetection(FailureDetection):
    """Detection when the lease of the task expires, or when the client returns before that. Source: ours."""

    kind: Literal["lease"] = "lease"
    seconds: Annotated[float, Field(gt=0, allow_inf_nan=False), MeasuredIn("s")] = 30.0
    """Seconds from the last heartbeat of a client until the server gives up its task, > 0."""

    def detected_s(self, gone_s: float, back_s: float) -> float:
        return min(gone_s + self.seconds, back_s)


class InstantDetection(FailureDetection):
    """Detection without delay, an ideal to compare with. Source: ours."""

    kind: Literal["instant"] = "instant"

    def detected_s(self, gone_s: float, back_s: float) -> float:
        return gone_s


if TYPE_CHECKING:
    AnyFailureDetection = FailureDetection
else:
    AnyFailureDetection: Any = choice(FailureDetection, LeaseDetection, InstantDetection)
