"""A contact sheet of images: true ones above, below them a row for each of their reconstructions."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.figure_style import canvas_of, save, styled

SHOWN = 8
"""Images of a row."""
SIDE = 0.86
"""Inches of an image."""
FOOT = 0.2
"""Inches of the numbers below it."""
NAME_LETTERS = 16
"""Letters of a line of it."""
NAMES = 1.25
"""Inches of what stands before a row."""

Images = NDArray[np.float32]
"""(n, channels, height, width), pixels 0..1."""


@dataclass(frozen=True)
class SheetRow:
    """True images, or reconstructions of those in the row of true ones above."""

    name: str
    """What stands before them; lines are kept."""
    images: Images
    """(n, channels, height, width), each of the true image of its place."""
    psnr_db: Sequence[float] = ()
    """(n,) in dB; none of true images."""
    ssim: Sequence[float] = ()
    """(n,), -1..1; none of true images."""


def true_row(images: Images) -> SheetRow:
    """The row of true images."""
    return SheetRow("true images", images)


def draw_sheet(rows: Sequence[SheetRow], caption: str, title: str, stem: str | Path) -> list[Path]:
    """Writes `stem`.svg, .png and .pdf of the first images of each row, and returns their paths.

    Below each reconstruction stand its PSNR in dB and its SSIM.
    """
    columns = min(SHOWN, max(len(row.images) for row in rows))
    with styled():
        height = len(rows) * (SIDE + FOOT)
        page, box = canvas_of(NAMES + columns * (SIDE + 0.08), height, caption, title)
        left, bottom, width, tall = box
        step, down = (width - width * NAMES / (NAMES + columns * (SIDE + 0.08))) / columns, tall / len(rows)
        across = SIDE * step / (SIDE + 0.08)
        start = left + width - columns * step
        for place, row in enumerate(rows):
            top = bottom + tall - place * down
            page.text(
                0.012,
                top - SIDE / (SIDE + FOOT) * down / 2,
                row.name if "$" in row.name else textwrap.fill(row.name, NAME_LETTERS),
                fontsize=8,
                va="center",
                weight="bold",
            )
            for column in range(min(columns, len(row.images))):
                corner = (start + column * step, top - SIDE / (SIDE + FOOT) * down)
                axis = page.add_axes((*corner, across, SIDE / (SIDE + FOOT) * down))
                axis.set_axis_off()
                picture = row.images[column]
                shown = picture[0] if len(picture) == 1 else picture.transpose(1, 2, 0)
                axis.imshow(shown, cmap="gray", vmin=0.0, vmax=1.0, interpolation="nearest")
                if row.ssim:
                    said = f"{decibels(row.psnr_db[column])}, {row.ssim[column]:.2f}"
                    page.text(
                        corner[0] + across / 2, corner[1] - 0.01 * down, said, fontsize=5.5, ha="center", va="top"
                    )
        return save(page, stem)


def decibels(value: float) -> str:
    """A PSNR in words, to a tenth of a dB."""
    return "∞ dB" if math.isinf(value) else f"{value:.1f} dB"
