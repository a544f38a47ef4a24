"""Experiment files: one YAML holds a grid of scenarios, the figures drawn from it and the claims judged on it."""

from asyncfl.experiment.cells import Cell, cells
from asyncfl.experiment.code import code_digest, modules_digest
from asyncfl.experiment.files import find
from asyncfl.experiment.loading import load
from asyncfl.experiment.spec import SCALES, Experiment, Scale

__all__ = ["SCALES", "Cell", "Experiment", "Scale", "cells", "code_digest", "find", "load", "modules_digest"]
