"""A contact sheet of images: true ones above, below them a row for each of their reconstructions."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from asyncfl.results.figure_style import canvas_of, save, styled

SHOWN = 8  # images of a row
SIDE = 0.86  # inches of an image
FOOT = 0.2  # inches of the numbers below it
NAME_LETTERS = 16  # letters in a line of a row's name
NAMES = 1.25  # inches of the names

Images = NDArray[np.float32]
"""(n, channels, height, width), pixels 0..1."""


@dataclass(frozen=True)
class SheetRow:
    """True images, or reconstructions of those in the row of true ones above.

    `name`: stands before them; lines are kept. `images`: (n, channels, height, width), each of the true image at its
    place. `psnr_db`, `ssim`: (n,) in dB and -1..1; empty for true images.
    """

    name: str
    images: Images
    psnr_db: Sequence[float] = ()
    ssim: Sequence[float] = ()


def true_row(images: Images) -> SheetRow:
    return SheetRow("true images", images)


def draw_sheet(rows: Sequence[SheetRow], caption: str, title: str, stem: str | Path) -> list[Path]:
    """Write `stem`.svg, .png and .pdf of the first images of each row, and return their paths.

    PSNR in dB and SSIM stand below each reconstruction.
    """
    columns = min(SHOWN, max(len(row.images) for row in rows))
    with styled():
        wide = columns * (SIDE + 0.08)
        page, (left, bottom, width, tall) = canvas_of(NAMES + wide, len(rows) * (SIDE + FOOT), caption, title)
        step, down = (width - width * NAMES / (NAMES + wide)) / columns, tall / len(rows)
        across, high = SIDE * step / (SIDE + 0.08), SIDE / (SIDE + FOOT) * down
        for place, row in enumerate(rows):
            top = bottom + tall - place * down
            name = row.name if "$" in row.name else textwrap.fill(row.name, NAME_LETTERS)
            page.text(0.012, top - high / 2, name, fontsize=8, va="center", weight="bold")
            for column, picture in enumerate(row.images[:columns]):
                corner = (left + width - columns * step + column * step, top - high)
                axis = page.add_axes((*corner, across, high))
                axis.set_axis_off()
                shown = picture[0] if len(picture) == 1 else picture.transpose(1, 2, 0)
                axis.imshow(shown, cmap="gray", vmin=0.0, vmax=1.0, interpolation="nearest")
                if row.ssim:
                    quality = f"{decibels(row.psnr_db[column])}, {row.ssim[column]:.2f}"
                    below = corner[0] + across / 2, corner[1] - 0.01 * down
                    page.text(*below, quality, fontsize=5.5, ha="center", va="top")
        return save(page, stem)


def decibels(value: float) -> str:
    """Return a PSNR as text, to a tenth of a dB."""
    return "∞ dB" if math.isinf(value) else f"{value:.1f} dB"
