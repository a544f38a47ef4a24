"""Figures of an experiment, each chosen by its `kind`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from asyncfl.experiments.figures.base import FigureBase
from asyncfl.experiments.figures.heatmap import Heatmap
from asyncfl.experiments.figures.measured import Bars, BoundCurves, Curves, Final
from asyncfl.experiments.figures.sheet import Sheet

Figure = Annotated[Curves | Final | Bars | Heatmap | Sheet | BoundCurves, Field(discriminator="kind")]

__all__ = ["Bars", "BoundCurves", "Curves", "Figure", "FigureBase", "Final", "Heatmap", "Sheet"]
