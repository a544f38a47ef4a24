"""Who gets a model, and when."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from asyncfl.component import Component, choice

Share = Annotated[float, Field(gt=0, lt=1)]
Count = Annotated[int, Field(ge=1)]


def number_of(amount: int | float | None, clients: int) -> int:
    """A number of clients from a count, a share of all `clients` (a float below 1), or None for all of them."""
    if amount is None:
        return clients
    return amount if isinstance(amount, int) else max(1, round(amount * clients))


class Dispatch(Component):
    """Decides how many tasks to begin. What is decided here is only a number; `Population` draws who."""

    def at_publish(self, clients: int) -> int:
        """Tasks to begin together when a version is published, before what is idle limits it; 0: not in cohorts."""
        return 0

    def wanted(self, clients: int) -> int:
        """Updates of such a cohort that are needed; the rest are reserves."""
        return 0

    def level(self, clients: int) -> int:
        """Tasks to keep in flight at any other time."""
        return 0


class CohortDispatch(Dispatch):
    """At each publication draw a number or a share of all clients, as far as they are idle and not banned."""

    kind: Literal["cohort"] = "cohort"
    participants: Count | Share | None = None
    """Clients per version: a count, a share of all clients below 1, or null for all."""
    over_selection: Annotated[float, Field(ge=1)] = 1.0
    """Factor by which more clients are drawn than are needed; what comes too much is surplus."""

    def wanted(self, clients: int) -> int:
        """The participants."""
        return number_of(self.participants, clients)

    def at_publish(self, clients: int) -> int:
        """The participants and their reserves, at most all clients."""
        return min(clients, math.ceil(self.wanted(clients) * self.over_selection - 1e-9))


class ConstantDispatch(Dispatch):
    """Keep a fixed number of tasks in flight: a replacement for each that arrives or is known to be lost."""

    kind: Literal["constant"] = "constant"
    in_flight: Count | Share
    """M: a count, or a share of all clients below 1."""

    def level(self, clients: int) -> int:
        """M as a number."""
        return number_of(self.in_flight, clients)


class ContinuousDispatch(Dispatch):
    """Each client asks for work whenever it is idle, and is served."""

    kind: Literal["continuous"] = "continuous"

    def level(self, clients: int) -> int:
        """All clients."""
        return clients


if TYPE_CHECKING:
    AnyDispatch = Dispatch
else:
    AnyDispatch: Any = choice(Dispatch, CohortDispatch, ConstantDispatch, ContinuousDispatch)
