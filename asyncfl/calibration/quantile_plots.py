"""Quantile plots of a fitted world: observed values against the quantiles of the fitted distribution."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from asyncfl.base.figure_style import OKABE_ITO, canvas, save, styled
from asyncfl.base.quantities import PLAIN, Scale, scale_of, with_unit
from asyncfl.calibration.fit import FittedQuantity
from asyncfl.calibration.fit_table import describe_distribution

POINTS = 1000
"""Largest number of points in a plot."""


def quantile_plot_files(parts: Sequence[FittedQuantity], stem: Path) -> list[tuple[FittedQuantity, Path]]:
    """Return the parts that are not constant, each with the path of its plot without ending.

    stem: path of the world file without ending; the name of a plot begins with it.
    """
    varied = [part for part in parts if not part.shape.distribution.is_constant]
    return [(part, stem.with_name(f"{stem.name}-{part.name.replace(' ', '-')}")) for part in varied]


def draw_quantile_plots(parts: Sequence[FittedQuantity], caption: str, stem: Path) -> list[Path]:
    """Write a quantile plot of each part that is not constant, as SVG, PNG and PDF, and return their paths."""
    written: list[Path] = []
    with styled():
        for part, file in quantile_plot_files(parts, stem):
            shape = part.shape
            page, (axis,) = canvas(1, caption, f"{part.name}: {describe_distribution(shape.distribution, part.unit)}")
            scale = scale_of([float(shape.exact[-1])], part.unit) if part.unit == "s" else PLAIN
            if part.unit == "bps":
                scale = Scale(1e6, "Mbit/s")
            number = len(shape.exact)
            at = np.unique(np.linspace(0, number - 1, min(number, POINTS)).round().astype(np.int64))
            seen, expected = shape.exact[at] / scale.factor, shape.expected[at] / scale.factor
            ends = [min(seen[0], expected[0]), max(seen[-1], expected[-1])]
            axis.plot(ends, ends, color="#000000", linewidth=0.8, linestyle=(0, (4, 2)))
            axis.plot(expected, seen, "o", color=OKABE_ITO[0], markersize=3, alpha=0.7)
            axis.set_xlabel(with_unit("expected quantile", scale))
            axis.set_ylabel(with_unit(f"observed, of {part.sample}", scale))
            written += save(page, file)
    return written
