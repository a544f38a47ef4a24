"""What a paper says, as checks on measured values, each found by its `check`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from asyncfl.experiments.claims.along import BestAt, Crossover, InteriorBest, Order
from asyncfl.experiments.claims.pairs import Alike, NoWorse, Times
from asyncfl.experiments.claims.values import AtLeast, Near

Claim = Annotated[
    Order | BestAt | InteriorBest | Crossover | AtLeast | Near | NoWorse | Alike | Times, Field(discriminator="check")
]
