"""When the buffer opens: what the server waits for before it aggregates."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from asyncfl.component import Component, choice, default_property
from asyncfl.errors import Fault
from asyncfl.quantities import MeasuredIn


@dataclass(frozen=True, slots=True)
class BufferStatus:
    """What an opening rule may look at."""

    held: int
    """Updates in the buffer."""
    coming: int
    """Tasks in flight whose update could still enter this buffer."""
    cohort: int
    """Clients drawn for this version; 0 where clients are not drawn in cohorts."""
    wanted: int
    """Updates the protocol asks for; with over-selection less than the cohort."""
    deadline_passed: bool = False


class Opening(Component):
    """Decides when the buffer opens."""

    logged: ClassVar[tuple[str, ...]] = (
        "rounds.participants",
        "events.timer_fired",
        "events.short_buffer",
    )

    @property
    def whole_cohort(self) -> bool:
        """Whether a buffer is always a whole cohort, as far as it comes."""
        return False

    @default_property
    def updates(self) -> int | None:
        """Updates that enter an aggregation, whoever was asked; more wait for the next. None: all that are there."""
        return None

    @default_property
    def seconds(self) -> float | None:
        """Virtual seconds from the publication of a version to its deadline; None: there is none."""
        return None

    def target(self, filling: BufferStatus) -> int:
        """Number of updates at which the buffer opens, if that many can come."""
        raise NotImplementedError

    def is_open(self, filling: BufferStatus) -> bool:
        """Whether enough has come. A buffer that nothing more can enter opens anyway, if it holds anything."""
        return filling.held >= max(1, self.target(filling))

    def faults(self, wanted: int) -> Iterator[Fault]:
        """What cannot work where `wanted` updates are asked for, fields named relative to the rule."""
        yield from ()


class OpenAll(Opening):
    """When all of the cohort (less its reserves) have come: the synchronous rule.

    Source: McMahan et al. 2017, algorithm 1.
    """

    kind: Literal["all"] = "all"

    @property
    def whole_cohort(self) -> bool:
        """Yes."""
        return True

    def target(self, filling: BufferStatus) -> int:
        """The cohort without its reserves."""
        return min(filling.wanted, filling.cohort)


class OpenCount(Opening):
    """When a fixed number has come: the buffered rule."""

    kind: Literal["count"] = "count"
    updates: Annotated[int, Field(ge=1)]
    """K, the size of the buffer."""

    def target(self, filling: BufferStatus) -> int:
        """K."""
        return self.updates


class OpenQuorum(Opening):
    """When a share of the cohort has come; the rest is late. Source: Bonawitz et al. 2019, section 2.2."""

    kind: Literal["quorum"] = "quorum"
    share: Annotated[float, Field(gt=0, le=1, examples=[0.8]), MeasuredIn("share")]
    """Share of the clients wanted for a version, 0..1."""

    def target(self, filling: BufferStatus) -> int:
        """The share of the cohort without its reserves, rounded up."""
        # 1e-9: a share such as 0.07 of 100 clients is 7, not 8 for the sake of a rounding error.
        return math.ceil(self.share * min(filling.wanted, filling.cohort) - 1e-9)


class OpenDeadline(Opening):
    """When all have come or the time is up, whichever is first; with too few, at the next arrivals.

    Source: Bonawitz et al. 2019, section 2.2.
    """

    kind: Literal["deadline"] = "deadline"
    seconds: Annotated[float, Field(gt=0, examples=[5.0]), MeasuredIn("s")]
    """Virtual seconds from the publication of a version."""
    at_least: Annotated[int, Field(ge=1), MeasuredIn("updates")] = 1
    """Updates without which the buffer stays shut even after the deadline."""

    def target(self, filling: BufferStatus) -> int:
        """All of the cohort before the deadline, `at_least` after it."""
        everyone = min(filling.wanted, filling.cohort)
        return min(self.at_least, everyone) if filling.deadline_passed else everyone

    def faults(self, wanted: int) -> Iterator[Fault]:
        """More updates to wait for than are asked for."""
        if self.at_least > wanted:
            yield Fault("at_least", f"must be 1..participants ({wanted}), got {self.at_least}; lower it")


if TYPE_CHECKING:
    AnyOpening = Opening
else:
    AnyOpening: Any = choice(Opening, OpenAll, OpenQuorum, OpenDeadline)
