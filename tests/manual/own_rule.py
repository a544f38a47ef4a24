"""A component and its base with fields of every sort, so that what is told of them changes with nothing else.

    w <- w + eta u

Formulas of the module stand here.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from asyncfl.component import Described
from asyncfl.quantities import MeasuredIn
from asyncfl.server.staleness import Staleness
from asyncfl.world.distributions import Distribution


class Inner(Described):
    """A section of its own."""

    depth: Annotated[int, Field(ge=1), MeasuredIn("layers")] = 2
    """How deep it goes."""


class Everything(Staleness):
    """Weights `tau_i` by a * b [c] < d, of all sorts.

    A second paragraph
    in two lines.

        s(tau) = 1 / (1 + tau)

    - an item
    - another
      of two lines

    Source: Somebody et al. 2020, section 4, equation 3.
    """

    logged: ClassVar[tuple[str, ...]] = ("rounds.staleness_mean", "events.discarded", "ledger.status", "summary.notes")
    in_examples: ClassVar[tuple[str, ...]] = ("shares",)
    alongside: ClassVar[dict[str, Any]] = {"protocol.kind": "buffered", "training.lr": 0.5, "protocol.rounds": 7}

    kind: str = "my_rules:Everything"
    wait_s: Annotated[float, Field(gt=0, le=1e6, examples=[2.5])]
    """Seconds that it waits. What is said after the first sentence stands further down. Source: ours."""
    clients: Annotated[int, Field(ge=1), MeasuredIn("clients")] | None = None
    """Clients that count; null: all.

    - with a list
    """
    shares: tuple[Annotated[float, Field(ge=0, le=1)], ...] = ()
    """Shares of them."""
    word: Literal["soft", "hard"] = "soft"
    """What it is called."""
    names: dict[str, int] = Field(default_factory=dict)
    """Numbers by name."""
    inner: Inner = Inner()
    """A section within."""
    silent: bool = True
    """Whether it says nothing."""


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
