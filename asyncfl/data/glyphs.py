"""Characters of matplotlib's fonts as maps of the distance to the outline, drawn distorted, many at once.

From a distance map a glyph can be drawn with soft edges at any position, angle and stroke width by one look-up per
pixel: coverage is a ramp over distance + half the extra width (Green, "Improved alpha-tested magnification", SIGGRAPH
2007). The position on the glyph of each pixel is a linear function of a few numbers per sample: six of an affine map
and a few waves for the bending. One matrix product gives all positions of all samples, and one look-up their distances.

Maps are drawn once on a machine and kept in the user's cache folder: the libraries that draw them take longer to import
than a small run.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

import numpy as np

from asyncfl.base.files.user_cache import cached_bytes
from asyncfl.data.sample_source import Floats, Ints

UPRIGHT = (
    "DejaVuSans.ttf", "DejaVuSans-Bold.ttf", "DejaVuSansMono.ttf", "DejaVuSerif.ttf", "DejaVuSerif-Bold.ttf",
    "STIXGeneral.ttf", "STIXGeneralBol.ttf", "cmr10.ttf", "cmss10.ttf", "cmtt10.ttf",
)  # fmt: skip
SLANTED = (
    "DejaVuSans-Oblique.ttf", "DejaVuSerif-Italic.ttf", "DejaVuSerif-BoldItalic.ttf", "STIXGeneralItalic.ttf",
    "STIXGeneralBolIta.ttf",
)  # fmt: skip
SANS = ("DejaVuSans.ttf", "DejaVuSans-Bold.ttf", "DejaVuSansMono.ttf", "DejaVuSansMono-Bold.ttf", "cmss10.ttf")
WIDE = ("DejaVuSans.ttf", "DejaVuSans-Bold.ttf", "DejaVuSansMono.ttf", "DejaVuSerif.ttf", "DejaVuSerif-Bold.ttf")
"""Fonts with Greek and Cyrillic letters."""

WINDOW = 32.0  # side of the square that a map covers, in units in which a glyph is HEIGHT pixels high
HEIGHT = 20.0
RESOLUTION = 64  # cells along the side of a map
_OVERSAMPLING = 2
_REACH = 4.0


@lru_cache(maxsize=8)
def atlas(characters: str, fonts: tuple[str, ...]) -> Floats:
    """Return maps (characters * fonts, cells, cells) of the signed distance to the outline in pixels, positive
    inside, clipped at 4: character c in font f is map c * len(fonts) + f."""

    def draw() -> bytes:
        maps = np.stack([_distance_map(font, character) for character in characters for font in fonts])
        return maps.astype("<f4").tobytes()

    # All on which maps depend: this file, and the libraries, of which matplotlib holds the fonts.
    made_by = [Path(__file__).read_bytes(), *(version(name).encode() for name in ("matplotlib", "scipy", "numpy"))]
    named = b"\0".join([*made_by, characters.encode(), *(font.encode() for font in fonts)])
    found = cached_bytes(f"glyphs-{hashlib.sha256(named).hexdigest()[:32]}", draw)
    return np.frombuffer(found, "<f4").reshape(len(characters) * len(fonts), RESOLUTION, RESOLUTION).astype(np.float32)


def _distance_map(font_file: str, character: str) -> Floats:
    """Draw a glyph HEIGHT pixels high (or as wide as that, if wider) in the middle of the window."""
    import matplotlib
    from matplotlib.ft2font import FT2Font, LoadFlags
    from scipy.ndimage import distance_transform_edt

    font = FT2Font(str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / font_file))
    side = RESOLUTION * _OVERSAMPLING
    points = wanted = side * HEIGHT / WINDOW
    for _ in range(2):  # the first pass measures the glyph
        font.set_size(points, 72)
        font.set_text(character, 0.0, flags=LoadFlags.NO_HINTING)
        font.draw_glyphs_to_bitmap(antialiased=True)
        drawn = np.asarray(font.get_image())
        rows, columns = np.flatnonzero(drawn.any(1)), np.flatnonzero(drawn.any(0))
        drawn = drawn[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
        points *= wanted / max(drawn.shape)
    inside = np.zeros((side, side), np.bool_)
    top, left = (side - drawn.shape[0]) // 2, (side - drawn.shape[1]) // 2
    inside[top : top + drawn.shape[0], left : left + drawn.shape[1]] = drawn > 127
    pixels = (distance_transform_edt(inside) - distance_transform_edt(~inside)) * WINDOW / side
    coarse = pixels.reshape(RESOLUTION, _OVERSAMPLING, RESOLUTION, _OVERSAMPLING).mean((1, 3))
    return np.asarray(np.clip(coarse, -_REACH, _REACH), np.float32)


WAVES = ((0, 1), (1, 0), (1, 1), (0, 2), (2, 0), (1, 2), (2, 1), (2, 2))
"""Half periods along y and x of the waves of the bending."""
DRAWS = 7 + 2 * len(WAVES)  # uniform random numbers per sample


@dataclass(frozen=True)
class Distortion:
    """Ranges of the random distortion: the largest absolute value of each, drawn uniformly.

    `turn` in degrees, `shear` and `stretch` as ratios, `shift` and `bend` (of each wave) in pixels of a glyph 20 high;
    `scale` and `width` (added to the stroke, in pixels) are the smallest and largest values.
    """

    turn: float
    shear: float
    stretch: float
    scale: tuple[float, float]
    shift: float
    bend: float
    width: tuple[float, float]


@lru_cache(maxsize=8)
def _basis(side: int) -> Floats:
    """Return (3 + waves, side * side): 1, x, y in pixels of an image 28 wide, and the waves."""
    axis = (np.arange(side) + 0.5) * 28.0 / side - 14.0
    y, x = (grid.ravel() for grid in np.meshgrid(axis, axis, indexing="ij"))
    u, v = (y + 14.0) * np.pi / 28.0, (x + 14.0) * np.pi / 28.0
    waves = [np.cos(p * u) * np.cos(q * v) for p, q in WAVES]
    return np.stack([np.ones_like(x), x, y, *waves]).astype(np.float32)


def distances(maps: Floats, chosen: Ints, side: int, distortion: Distortion, draws: Floats) -> Floats:
    """Compute signed distances (n, side * side) to the outline, stroke width added, positive inside, in pixels.

    maps: (glyphs, cells, cells), see `atlas`. chosen: (n,) glyph of each sample. draws: (n, DRAWS) uniform 0..1.
    """
    d = distortion
    either = 2.0 * draws - 1.0
    turn = np.deg2rad(d.turn) * either[:, 0]
    shear = d.shear * either[:, 1]
    stretch = np.exp(d.stretch * either[:, 2])
    scale = d.scale[0] + (d.scale[1] - d.scale[0]) * draws[:, 3]
    cos, sin = np.cos(turn) / scale, np.sin(turn) / scale
    shift_x, shift_y = d.shift * either[:, 4], d.shift * either[:, 5]
    # The inverse map, from image to glyph: undo the shift, then the turn and the scale, then shear and stretch.
    to_x = np.stack([cos * stretch - shear * sin, sin * stretch + shear * cos], 1)
    to_y = np.stack([-sin, cos], 1)
    waves = len(WAVES)
    place = np.empty((2, len(draws), 3 + waves), np.float32)
    for axis, to in enumerate((to_x, to_y)):
        place[axis, :, 0] = -to[:, 0] * shift_x - to[:, 1] * shift_y
        place[axis, :, 1:3] = to
        place[axis, :, 3:] = d.bend * either[:, 7 + axis * waves : 7 + (axis + 1) * waves]
    cells = maps.shape[1]
    place *= cells / WINDOW
    place[:, :, 0] += cells / 2
    x, y = place @ _basis(side)
    np.clip(x, 0, cells - 1, out=x)
    np.clip(y, 0, cells - 1, out=y)
    index = y.astype(np.int32)
    index *= cells
    index += x.astype(np.int32)
    index += (chosen * cells**2).astype(np.int32)[:, None]
    found: Floats = maps.ravel().take(index)
    width = d.width[0] + (d.width[1] - d.width[0]) * draws[:, 6]
    found += (width / 2).astype(np.float32)[:, None]
    return found
