"""Characters of matplotlib's fonts as maps of the distance to the outline.

From a distance map a glyph can be drawn with soft edges at any position, angle and stroke width by one look-up per
pixel: coverage is a ramp over distance + half the extra width (Green, "Improved alpha-tested magnification", SIGGRAPH
2007).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

UPRIGHT = (
    "DejaVuSans.ttf", "DejaVuSans-Bold.ttf", "DejaVuSansMono.ttf", "DejaVuSerif.ttf", "DejaVuSerif-Bold.ttf",
    "STIXGeneral.ttf", "STIXGeneralBol.ttf", "cmr10.ttf", "cmss10.ttf", "cmtt10.ttf",
)  # fmt: skip
SLANTED = (
    "DejaVuSans-Oblique.ttf", "DejaVuSerif-Italic.ttf", "DejaVuSerif-BoldItalic.ttf", "STIXGeneralItalic.ttf",
    "STIXGeneralBolIta.ttf",
)  # fmt: skip
SANS = (
    "DejaVuSans.ttf",
    "DejaVuSans-Bold.ttf",
    "DejaVuSansMono.ttf",
    "DejaVuSansMono-Bold.ttf",
    "cmss10.ttf",
)

WIDE = ("DejaVuSans.ttf", "DejaVuSans-Bold.ttf", "DejaVuSansMono.ttf", "DejaVuSerif.ttf", "DejaVuSerif-Bold.ttf")
"""Fonts with Greek and Cyrillic letters."""

WINDOW = 32.0
"""Side of the square that a map covers, in units in which a glyph is HEIGHT pixels high."""
HEIGHT = 20.0
RESOLUTION = 64
"""Cells along the side of a map."""
_OVERSAMPLING = 2
_REACH = 4.0


@dataclass(frozen=True)
class Atlas:
    """Distance maps of every class in every variant.

    `maps` is (classes * variants, RESOLUTION, RESOLUTION) float32: signed distance to the outline in pixels, positive
    inside, clipped at 4; glyph k of class c is map c * variants + k.
    """

    maps: NDArray[np.float32]
    variants: int


@lru_cache(maxsize=8)
def atlas(characters: str, fonts: tuple[str, ...]) -> Atlas:
    """Build the atlas with one class per character and one variant per font."""
    maps = [_distance(_coverage(font, character)) for character in characters for font in fonts]
    return Atlas(np.stack(maps), len(fonts))


def _coverage(font_file: str, character: str) -> NDArray[np.uint8]:
    """Draw a glyph HEIGHT pixels high (or as wide as that, if wider) in the middle of the window."""
    import matplotlib
    from matplotlib.ft2font import FT2Font, LoadFlags

    font = FT2Font(str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / font_file))
    side = RESOLUTION * _OVERSAMPLING
    wanted = side * HEIGHT / WINDOW
    points = wanted
    for _ in range(2):  # the first pass measures the glyph
        font.set_size(points, 72)
        font.set_text(character, 0.0, flags=LoadFlags.NO_HINTING)
        font.draw_glyphs_to_bitmap(antialiased=True)
        drawn = np.asarray(font.get_image())
        rows, columns = np.flatnonzero(drawn.any(1)), np.flatnonzero(drawn.any(0))
        drawn = drawn[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
        points *= wanted / max(drawn.shape)
    canvas = np.zeros((side, side), np.uint8)
    top, left = (side - drawn.shape[0]) // 2, (side - drawn.shape[1]) // 2
    canvas[top : top + drawn.shape[0], left : left + drawn.shape[1]] = drawn
    return canvas


def _distance(coverage: NDArray[np.uint8]) -> NDArray[np.float32]:
    from scipy.ndimage import distance_transform_edt

    inside = coverage > 127
    cells = distance_transform_edt(inside) - distance_transform_edt(~inside)
    pixels = cells * WINDOW / len(coverage)
    coarse = pixels.reshape(RESOLUTION, _OVERSAMPLING, RESOLUTION, _OVERSAMPLING).mean((1, 3))
    reached: NDArray[np.float32] = np.clip(coarse, -_REACH, _REACH).astype(np.float32)
    return reached
