"""Components of a user's own, with fields of several sorts."""

from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from asyncfl.base.component import Described
from asyncfl.base.quantities import MeasuredIn
from asyncfl.protocol.staleness import Staleness
from asyncfl.world.distributions import Distribution


class Depth(Described):
    """How far back versions are looked at."""

    layers: Annotated[int, Field(ge=1), MeasuredIn("layers")] = 2
    """Layers that are compared."""


class Slowing(Staleness):
    """Weights updates by their age and a wait.

    Use it where clients are slow.

        s(tau) = 1 / (1 + tau)

    Source: Somebody et al. 2020, section 4, equation 3.
    """

    logged: ClassVar[tuple[str, ...]] = ("rounds.staleness_mean",)

    kind: str = "my_rules:Slowing"
    wait_s: Annotated[float, Field(gt=0, le=1e6, examples=[2.5])]
    """Time after which an update counts half."""
    clients: Annotated[int, Field(ge=1), MeasuredIn("clients")] | None = None
    """Clients that count; null: all."""
    shape: Literal["soft", "hard"] = "soft"
    """Shape of the weight."""
    depth: Depth = Depth()
    """A section within."""


class Steady(Distribution):
    """Always the same."""

    kind: str = "tests.manual.own_rule:Steady"

    def draw(self, rng: Any, size: int) -> Any:
        return np.ones(size)

    @property
    def expected(self) -> float:
        return 1.0

    def length_biased(self, rng: Any, size: int) -> Any:
        return np.ones(size)
