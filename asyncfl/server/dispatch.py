"""Who gets a model, and when."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from asyncfl.component import Component, choice
from asyncfl.errors import Fault
from asyncfl.quantities import MeasuredIn

Share = Annotated[float, Field(gt=0, lt=1)]
Count = Annotated[int, Field(ge=1)]


def number_of(amount: int | float | None, clients: int) -> int:
    """A number of clients from a count, a share of all `clients` (a float below 1), or None for all of them."""
    if amount is None:
        return clients
    return amount if isinstance(amount, int) else max(1, round(amount * clients))


def _too_many(field: str, amount: int | float | None, clients: int) -> Iterator[Fault]:
    if number_of(amount, clients) > clients:
        yield Fault(field, f"must be 1..clients ({clients}), got {amount}; lower it or raise data.clients")


class DispatchPolicy(Component):
    """Decides how many tasks to begin, and when. Who is given them is for the `Selection` to decide."""

    logged: ClassVar[tuple[str, ...]] = (
        "clients.tasks",
        "events.dispatched",
    )

    @property
    def in_cohorts(self) -> bool:
        """Whether clients are asked in cohorts alone, one for each version: nobody is asked in between."""
        return type(self).level is DispatchPolicy.level

    def at_publish(self, clients: int) -> int:
        """Tasks to begin together when a version is published, before what is idle limits it; 0: not in cohorts."""
        return 0

    def wanted(self, clients: int) -> int:
        """Updates of such a cohort that are needed; the rest are reserves. By default there are none."""
        return self.at_publish(clients)

    def level(self, clients: int) -> int:
        """Tasks to keep in flight at any other time."""
        return 0

    def faults(self, clients: int) -> Iterator[Fault]:
        """What cannot work with `clients` clients, fields named relative to the policy."""
        yield from ()


class CohortDispatch(DispatchPolicy):
    """At each publication draw a number or a share of all clients, as far as they are idle and not banned.

    Source: McMahan et al. 2017, algorithm 1.
    """

    kind: Literal["cohort"] = "cohort"
    participants: Annotated[Count | Share | None, MeasuredIn("clients or share")] = None
    """Clients per version: a count, a share of all clients below 1, or null for all. Source: SAFL, algorithm 1, line
    3."""
    over_selection: Annotated[float, Field(ge=1, allow_inf_nan=False), MeasuredIn("factor")] = 1.0
    """Factor by which more clients are drawn than are needed; what comes too much is surplus."""

    def wanted(self, clients: int) -> int:
        """The participants."""
        return number_of(self.participants, clients)

    def at_publish(self, clients: int) -> int:
        """The participants and their reserves, at most all clients."""
        return min(clients, math.ceil(self.wanted(clients) * self.over_selection - 1e-9))

    def faults(self, clients: int) -> Iterator[Fault]:
        """More participants than there are clients."""
        yield from _too_many("participants", self.participants, clients)


class ConstantDispatch(DispatchPolicy):
    """Keep a fixed number of tasks in flight: a replacement for each that arrives or is known to be lost.

    Source: Nguyen et al. 2022, concurrency.
    """

    kind: Literal["constant"] = "constant"
    in_flight: Annotated[Count | Share, MeasuredIn("tasks or share"), Field(examples=[10])]
    """M: a count, or a share of all clients below 1."""

    def level(self, clients: int) -> int:
        """M as a number."""
        return number_of(self.in_flight, clients)

    def faults(self, clients: int) -> Iterator[Fault]:
        """More tasks than there are clients."""
        yield from _too_many("in_flight", self.in_flight, clients)


class ContinuousDispatch(DispatchPolicy):
    """Each client asks for work whenever it is idle, and is served. Source: Xie, Koyejo, Gupta 2019, algorithm 1."""

    kind: Literal["continuous"] = "continuous"

    def level(self, clients: int) -> int:
        """All clients."""
        return clients


if TYPE_CHECKING:
    AnyDispatch = DispatchPolicy
else:
    AnyDispatch: Any = choice(DispatchPolicy, CohortDispatch, ConstantDispatch, ContinuousDispatch)
