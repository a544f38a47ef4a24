"""When the server learns that a client has vanished in the midst of a task.

A client without a connection is known at once: nothing can be sent to it. One that is at a task says that it is still
there (heartbeats), and each sign of life renews the lease of its task. A lease that ends tells the server that the
client is gone. Heartbeats are taken as so frequent that the last of them is the moment at which the client vanished,
and as so small that they cost nothing; real ones that come every h seconds are noticed up to h seconds sooner.

A lease is no limit on the time of a task: who is slow, but there, keeps it. Limits on slow tasks are the protocol's
affair (`open`, `over_selection`, `max_staleness`).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from asyncfl.component import Component, choice
from asyncfl.quantities import MeasuredIn


class FailureDetection(Component):
    """Base of the ways to notice that a client has vanished."""

    logged: ClassVar[tuple[str, ...]] = (
        "events.lost",
        "events.dispatched",
    )

    @abstractmethod
    def detected_s(self, gone_s: float, back_s: float) -> float:
        """Moment at which the server learns of it, seconds; never after `back_s`, when the client is online again.

        `gone_s`: when the client went offline, in the midst of a task or of scoring. `back_s` > `gone_s`: when it
        comes online and asks for work, which says that it has given up what it was at; inf for never.
        """
        raise NotImplementedError


class LeaseDetection(FailureDetection):
    """When the lease of its task ends, unless the client is back before. Source: ours."""

    kind: Literal["lease"] = "lease"
    seconds: Annotated[float, Field(gt=0, allow_inf_nan=False), MeasuredIn("s")] = 30.0
    """Seconds from the last sign of life of a client until the server gives up the task that it is at, > 0."""

    def detected_s(self, gone_s: float, back_s: float) -> float:
        """The lease's end, or the client's return."""
        return min(gone_s + self.seconds, back_s)


class InstantDetection(FailureDetection):
    """At the very moment: what no server can do, to compare with. Source: ours."""

    kind: Literal["instant"] = "instant"

    def detected_s(self, gone_s: float, back_s: float) -> float:
        """At once."""
        return gone_s


if TYPE_CHECKING:
    AnyFailureDetection = FailureDetection
else:
    AnyFailureDetection: Any = choice(FailureDetection, LeaseDetection, InstantDetection)
