"""What a paper says, as checks on measured values: one kind of claim in one file, found by its `check`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from asyncfl.analysis.claims.alike import Alike
from asyncfl.analysis.claims.at_least import AtLeast
from asyncfl.analysis.claims.base import ClaimBase, Point, PointVerdict
from asyncfl.analysis.claims.best_at import BestAt
from asyncfl.analysis.claims.crossover import Crossover
from asyncfl.analysis.claims.interior_best import InteriorBest
from asyncfl.analysis.claims.near import Near
from asyncfl.analysis.claims.no_worse import NoWorse
from asyncfl.analysis.claims.order import Order
from asyncfl.analysis.claims.times import Times

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
