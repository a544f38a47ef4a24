"""Conditions at which the server aggregates its buffer (the buffer opens)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from asyncfl.base.component import Component, choice, default_property
from asyncfl.base.errors import Fault
from asyncfl.base.quantities import MeasuredIn


@dataclass(frozen=True, slots=True)
class BufferStatus:
    """State of the buffer that a condition may depend on."""

    held: int
    """Updates in the buffer."""
    coming: int
    """Tasks in flight whose update can still enter this buffer."""
    cohort: int
    """Clients drawn for this version; 0 without cohorts."""
    wanted: int
    """Updates that the protocol asks for; with over-selection fewer than the cohort."""
    deadline_passed: bool = False


class Opening(Component):
    """Base class of the conditions at which the server aggregates. Subclasses implement `target`."""

    logged: ClassVar[tuple[str, ...]] = ("rounds.participants", "events.timer_fired", "events.short_buffer")

    @property
    def whole_cohort(self) -> bool:
        """Whether a buffer always holds the whole cohort, except for lost updates."""
        return False

    @default_property
    def updates(self) -> int | None:
        """Fixed number of updates per aggregation; further ones wait for the next. None: all in the buffer."""
        return None

    @default_property
    def seconds(self) -> float | None:
        """Virtual seconds from the publication of a version to its deadline; None without a deadline."""
        return None

    def target(self, filling: BufferStatus) -> int:
        """Return the number of updates at which the server aggregates, if that many can arrive. `filling`: state of the
        buffer."""
        raise NotImplementedError

    def is_open(self, filling: BufferStatus) -> bool:
        """Whether the buffer holds enough updates: at least `target`, and at least one. If no more updates can arrive,
        the server aggregates what the buffer holds without asking here."""
        return filling.held >= max(1, self.target(filling))

    def faults(self, wanted: int) -> Iterator[Fault]:
        """Yield the settings that cannot work with `wanted` updates asked for, with fields named relative to the
        condition."""
        yield from ()


class OpenAll(Opening):
    """Aggregate when the whole cohort (less its reserves) has arrived: the synchronous condition. Source: McMahan et
    al. 2017, algorithm 1."""

    kind: Literal["all"] = "all"

    @property
    def whole_cohort(self) -> bool:
        return True

    def target(self, filling: BufferStatus) -> int:
        return min(filling.wanted, filling.cohort)


class OpenCount(Opening):
    """Aggregate when a fixed number of updates has arrived: the buffered condition."""

    kind: Literal["count"] = "count"
    updates: Annotated[int, Field(ge=1)]
    """K, the size of the buffer."""

    def target(self, filling: BufferStatus) -> int:
        return self.updates


class OpenQuorum(Opening):
    """Aggregate when a share of the cohort has arrived; the rest is late. Source: Bonawitz et al. 2019, section 2.2."""

    kind: Literal["quorum"] = "quorum"
    share: Annotated[float, Field(gt=0, le=1, examples=[0.8]), MeasuredIn("share")]
    """Share of the clients wanted for a version, above 0 to 1."""

    def target(self, filling: BufferStatus) -> int:
        # 1e-9: a share of 0.07 of 100 clients must be 7, not 8 because of a rounding error.
        return math.ceil(self.share * min(filling.wanted, filling.cohort) - 1e-9)


class OpenDeadline(Opening):
    """Aggregate when the cohort has arrived or the deadline has passed, whichever is first. If fewer than `at_least`
    updates have arrived by then, the server waits for them. Source: Bonawitz et al. 2019, section 2.2."""

    kind: Literal["deadline"] = "deadline"
    seconds: Annotated[float, Field(gt=0, examples=[5.0]), MeasuredIn("s")]
    """Virtual seconds from the publication of a version."""
    at_least: Annotated[int, Field(ge=1), MeasuredIn("updates")] = 1
    """Fewest updates to aggregate, even after the deadline."""

    def target(self, filling: BufferStatus) -> int:
        everyone = min(filling.wanted, filling.cohort)
        return min(self.at_least, everyone) if filling.deadline_passed else everyone

    def faults(self, wanted: int) -> Iterator[Fault]:
        if self.at_least > wanted:
            yield Fault("at_least", f"must be 1..participants ({wanted}), got {self.at_least}; lower it")


if TYPE_CHECKING:
    AnyOpening = Opening
else:
    AnyOpening: Any = choice(Opening, OpenAll, OpenQuorum, OpenDeadline)
