"""Experiment files: one YAML holds a grid of scenarios, the figures drawn from it and the claims judged on it."""

from asyncfl.experiment.cells import Cell, cells
from asyncfl.experiment.claim import VALUE, AtLeast, BestAt, Claim, Crossover, InteriorBest, NoWorse, Order
from asyncfl.experiment.code import code_digest, modules_digest
from asyncfl.experiment.figure import Bars, Bound, Bounds, Curves, Figure, Final, Table
from asyncfl.experiment.loading import find, load
from asyncfl.experiment.spec import SCALES, Experiment, Scale

__all__ = [
    "SCALES",
    "VALUE",
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
    "InteriorBest",
    "NoWorse",
    "Order",
    "Scale",
    "Table",
    "cells",
    "code_digest",
    "find",
    "load",
    "modules_digest",
]
