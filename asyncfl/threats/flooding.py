"""Flooding: uploads more often than honest clients, where the server does not wait for all."""

from typing import Annotated, Literal

from pydantic import Field

from asyncfl.base.quantities import MeasuredIn
from asyncfl.threats.attack import Attack


class Flooding(Attack):
    """Finishes tasks several times as often, which raises the attackers' share of arrivals; combine it with another
    attack. Source: ours."""

    kind: Literal["flooding"] = "flooding"
    times: Annotated[float, Field(ge=1, allow_inf_nan=False), MeasuredIn("factor")] = 5.0
    """rho: factor on the frequency of finished tasks, compared with an honest client of the same speed, >= 1."""

    @property
    def rate(self) -> float:
        return self.times
