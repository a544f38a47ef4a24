"""Claims of a paper, as checks of measured values, each chosen by its `check`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from asyncfl.experiments.claims.checks import (
    Agrees,
    Alike,
    AtLeast,
    BestAt,
    Crossover,
    InteriorBest,
    Near,
    NoWorse,
    Order,
    Times,
)
from asyncfl.experiments.claims.predictions import Covers, Predicts

Claim = Annotated[
    Order | BestAt | InteriorBest | Crossover | AtLeast | Agrees | Near | NoWorse | Alike | Times | Predicts | Covers,
    Field(discriminator="check"),
]
