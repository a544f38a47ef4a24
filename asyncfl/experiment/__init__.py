"""Experiment files: one YAML holds a grid of scenarios, the figures drawn from it and the claims judged on it."""

from asyncfl.experiment.cells import Cell, cells
from asyncfl.experiment.claim import (
    VALUE,
    Alike,
    AtLeast,
    BestAt,
    Claim,
    Crossover,
    InteriorBest,
    Near,
    NoWorse,
    Order,
    Times,
)
from asyncfl.experiment.code import code_digest, modules_digest
from asyncfl.experiment.figure import Bars, Bound, Bounds, Curves, Figure, Final, Heatmap, Table
from asyncfl.experiment.loading import find, load
from asyncfl.experiment.spec import SCALES, Experiment, Scale
from asyncfl.experiment.target import Target

__all__ = [
    "SCALES",
    "VALUE",
    "Alike",
    "AtLeast",
    "Bars",
    "BestAt",
    "Bound",
    "Bounds",
    "Cell",
    "Claim",
    "Crossover",
    "Curves",
    "Experiment",
    "Figure",
    "Final",
    "Heatmap",
    "InteriorBest",
    "Near",
    "NoWorse",
    "Order",
    "Scale",
    "Table",
    "Target",
    "Times",
    "cells",
    "code_digest",
    "find",
    "load",
    "modules_digest",
]
