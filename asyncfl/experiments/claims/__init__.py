"""What a paper says, as checks on measured values: one kind of claim in one file, found by its `check`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from asyncfl.experiments.claims.alike import Alike
from asyncfl.experiments.claims.at_least import AtLeast
from asyncfl.experiments.claims.base import ClaimBase, Point, PointVerdict
from asyncfl.experiments.claims.best_at import BestAt
from asyncfl.experiments.claims.crossover import Crossover
from asyncfl.experiments.claims.interior_best import InteriorBest
from asyncfl.experiments.claims.near import Near
from asyncfl.experiments.claims.no_worse import NoWorse
from asyncfl.experiments.claims.order import Order
from asyncfl.experiments.claims.times import Times

Claim = Annotated[
    Order | BestAt | InteriorBest | Crossover | AtLeast | Near | NoWorse | Alike | Times, Field(discriminator="check")
]

__all__ = [
    "Alike",
    "AtLeast",
    "BestAt",
    "Claim",
    "ClaimBase",
    "Crossover",
    "InteriorBest",
    "Near",
    "NoWorse",
    "Order",
    "Point",
    "PointVerdict",
    "Times",
]
