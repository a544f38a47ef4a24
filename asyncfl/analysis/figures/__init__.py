"""What is drawn from an experiment: one kind of figure in one file, found by its `kind`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from asyncfl.analysis.figures.bars import Bars
from asyncfl.analysis.figures.base import FigureBase
from asyncfl.analysis.figures.bound_curves import BoundCurves
from asyncfl.analysis.figures.curves import Curves
from asyncfl.analysis.figures.final import Final
from asyncfl.analysis.figures.heatmap import Heatmap
from asyncfl.analysis.figures.sheet import Sheet

Figure = Annotated[Curves | Final | Bars | Heatmap | Sheet | BoundCurves, Field(discriminator="kind")]

__all__ = ["Bars", "BoundCurves", "Curves", "Figure", "FigureBase", "Final", "Heatmap", "Sheet"]
