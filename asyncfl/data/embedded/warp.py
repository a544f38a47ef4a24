"""Drawing of turned, sheared, stretched, shifted and bent glyphs, many at once.

The position on the glyph of each pixel is a linear function of a few numbers per sample: six of an affine map and a few
waves for the bending. One matrix product gives all positions of all samples, and one look-up their distances.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from asyncfl.data.embedded.glyphs import WINDOW

Floats = NDArray[np.float32]
WAVES = ((0, 1), (1, 0), (1, 1), (0, 2), (2, 0), (1, 2), (2, 1), (2, 2))
"""Half periods along y and x of the waves of the bending."""
DRAWS = 7 + 2 * len(WAVES)
"""Uniform random numbers per sample."""


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


def distances(
    maps: Floats,
    chosen: NDArray[np.int64],
    side: int,
    distortion: Distortion,
    draws: Floats,
    offset_x: Floats | float = 0.0,
) -> Floats:
    """Compute signed distances (n, side * side) to the outline, stroke width added, positive inside, in pixels.

    maps: (glyphs, cells, cells), see `glyphs.Atlas`. chosen: (n,) glyph of each sample. draws: (n, DRAWS) uniform 0..1.
    """
    d = distortion
    either = 2.0 * draws - 1.0
    turn = np.deg2rad(d.turn) * either[:, 0]
    shear = d.shear * either[:, 1]
    stretch = np.exp(d.stretch * either[:, 2])
    scale = d.scale[0] + (d.scale[1] - d.scale[0]) * draws[:, 3]
    cos, sin = np.cos(turn) / scale, np.sin(turn) / scale
    shift_x, shift_y = d.shift * either[:, 4] + offset_x, d.shift * either[:, 5]
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
