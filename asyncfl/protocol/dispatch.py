"""Dispatch policies: how many clients are sent a model, and when."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import Field

from asyncfl.base.component import Component, choice, default_property
from asyncfl.base.errors import Fault
from asyncfl.base.quantities import MeasuredIn

Share = Annotated[float, Field(gt=0, lt=1)]
Count = Annotated[int, Field(ge=1)]


def number_of(amount: int | float | None, clients: int) -> int:
    """Convert an amount to a number of clients: a count, a share of all `clients` (a float below 1), or None for
    all."""
    if amount is None:
        return clients
    return amount if isinstance(amount, int) else max(1, round(amount * clients))


def _too_many(field: str, amount: int | float | None, clients: int) -> Iterator[Fault]:
    if number_of(amount, clients) > clients:
        yield Fault(field, f"must be 1..clients ({clients}), got {amount}; lower it or raise data.clients")


class DispatchPolicy(Component):
    """Base class of the policies that decide how many tasks begin, and when. A `Selection` decides which clients get
    them."""

    logged: ClassVar[tuple[str, ...]] = ("clients.tasks", "events.dispatched")

    @property
    def in_cohorts(self) -> bool:
        """Whether clients are asked in cohorts only, one per version, and no task begins in between."""
        return type(self).level is DispatchPolicy.level

    def at_publish(self, clients: int) -> int:
        """Return the number of tasks to begin together when a version is published, if enough clients are idle; 0
        without cohorts."""
        return 0

    def wanted(self, clients: int) -> int:
        """Return the number of updates needed of such a cohort; the others are reserves. By default there are no
        reserves."""
        return self.at_publish(clients)

    def level(self, clients: int) -> int:
        """Return the number of tasks to keep in flight between publications; 0 to begin none between them."""
        return 0

    def faults(self, clients: int) -> Iterator[Fault]:
        """Yield the settings that cannot work with `clients` clients, with fields named relative to the policy."""
        yield from ()


class CohortDispatch(DispatchPolicy):
    """Draw a cohort at each publication: a number or a share of all clients, among the idle that are not banned.
    Source: McMahan et al. 2017, algorithm 1."""

    kind: Literal["cohort"] = "cohort"
    participants: Annotated[Count | Share | None, MeasuredIn("clients or share")] = None
    """Clients per version: a count, a share of all clients below 1, or null for all. Source: SAFL, algorithm 1, line
    3."""
    over_selection: Annotated[float, Field(ge=1, allow_inf_nan=False), MeasuredIn("factor")] = 1.0
    """Factor by which more clients are drawn than are needed; updates beyond the needed number have the fate
    surplus."""

    def wanted(self, clients: int) -> int:
        return number_of(self.participants, clients)

    def at_publish(self, clients: int) -> int:
        return min(clients, math.ceil(self.wanted(clients) * self.over_selection - 1e-9))

    def faults(self, clients: int) -> Iterator[Fault]:
        yield from _too_many("participants", self.participants, clients)


class ConstantDispatch(DispatchPolicy):
    """Keep a fixed number of tasks in flight: begin another for each that arrives or is known to be lost. Source:
    Nguyen et al. 2022, concurrency."""

    kind: Literal["constant"] = "constant"
    in_flight: Annotated[Count | Share, MeasuredIn("tasks or share"), Field(examples=[10])]
    """M: a count, or a share of all clients below 1."""

    def level(self, clients: int) -> int:
        return number_of(self.in_flight, clients)

    def faults(self, clients: int) -> Iterator[Fault]:
        yield from _too_many("in_flight", self.in_flight, clients)


class ContinuousDispatch(DispatchPolicy):
    """Give each client a new task as soon as it is idle. Source: Xie, Koyejo, Gupta 2019, algorithm 1."""

    kind: Literal["continuous"] = "continuous"

    def level(self, clients: int) -> int:
        return clients


if TYPE_CHECKING:
    AnyDispatch = DispatchPolicy
else:
    AnyDispatch: Any = choice(DispatchPolicy, CohortDispatch, ConstantDispatch, ContinuousDispatch)


class BufferStatus(NamedTuple):
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
    is_last: bool = False
    """Whether the buffer makes the last version of the run."""


class Opening(Component):
    """Base class of the conditions at which the server aggregates. Subclasses implement `target`."""

    logged: ClassVar[tuple[str, ...]] = ("rounds.participants", "events.timer_fired", "events.short_buffer")
    one_of: ClassVar[tuple[str, ...]] = ("target",)

    @property
    def whole_cohort(self) -> bool:
        """Whether a buffer always holds the whole cohort, except for lost updates."""
        return False

    @default_property
    def updates(self) -> int | None:
        """Fixed number of updates per aggregation; further ones wait for the next. None: all in the buffer."""
        return None

    @default_property
    def least(self) -> int:
        """Fewest updates with which the server may aggregate while further ones can arrive; `target` decides whether it
        does."""
        return 1

    @default_property
    def seconds(self) -> float | None:
        """Virtual seconds from the publication of a version to its deadline; None without a deadline."""
        return None

    @default_property
    def poll_s(self) -> float | None:
        """Seconds between the times at which the server looks at the buffer, counted from the publication of a version:
        it aggregates at such a time only. None: at each arrival."""
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

    @property
    def least(self) -> int:
        return self.updates

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


class OpenPoll(Opening):
    """Look at the buffer at regular times, and aggregate all that has arrived once these are `at_least` updates: the
    more arrive between two looks, the larger the buffer. Source: Hidalgo-Izquierdo, Carrion, Caminero 2026
    (arXiv:2606.24230), FedSaSync."""

    kind: Literal["poll"] = "poll"
    at_least: Annotated[int, Field(ge=1, examples=[8]), MeasuredIn("updates")]
    """M, the semi-asynchronous degree: fewest updates to aggregate."""
    poll_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 0.05
    """Virtual seconds between two looks; the first is at the publication of a version."""
    last_waits: bool = False
    """Whether the last version waits for every update that can still arrive."""

    def target(self, filling: BufferStatus) -> int:
        return filling.held + filling.coming if self.last_waits and filling.is_last else self.at_least

    def faults(self, wanted: int) -> Iterator[Fault]:
        if self.at_least > wanted:
            yield Fault("at_least", f"must be 1..participants ({wanted}), got {self.at_least}; lower it")


if TYPE_CHECKING:
    AnyOpening = Opening
else:
    AnyOpening: Any = choice(Opening, OpenAll, OpenQuorum, OpenDeadline, OpenPoll)
