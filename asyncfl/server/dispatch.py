"""Dispatch policies: how many clients are sent a model, and when."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from asyncfl.base.component import Component, choice
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
