"""Flooding: uploads more often than honest clients, where the server does not wait for all."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from asyncfl.quantities import MeasuredIn
from asyncfl.threats.attack import Attack


class Flooding(Attack):
    """Finishes tasks several times as often, so that its share of arrivals rises; combine it with what it sends.

    Source: ours.
    """

    kind: Literal["flooding"] = "flooding"
    times: Annotated[float, Field(ge=1, allow_inf_nan=False), MeasuredIn("factor")] = 5.0
    """rho: tasks finished per task of a client of the same speed, >= 1."""

    @property
    def rate(self) -> float:
        return self.times
