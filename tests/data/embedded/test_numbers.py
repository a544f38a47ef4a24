"""Where pixels of stand-ins come from, and what they lie on, against a written list; fonts are not asked.

`python tests/data/embedded/test_numbers.py` writes the list anew; read the difference.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asyncfl.data.embedded import textures, warp
from asyncfl.data.embedded.characters import _bytes, _slope
from asyncfl.data.embedded.glyphs import _distance
from asyncfl.data.embedded.handwriting import Handwriting
from asyncfl.data.embedded.source import STYLES, _by_block
from asyncfl.data.embedded.style import between, coverage
from asyncfl.data.embedded.warp import Distortion
from tests.written import compare, write

LIST = Path(__file__).with_name("numbers.json")
EACH = {
    "turn": (40.0, 0, 0, (1, 1), 0, 0, (0, 0)),
    "shear": (0, 0.6, 0, (1, 1), 0, 0, (0, 0)),
    "stretch": (0, 0, 0.7, (1, 1), 0, 0, (0, 0)),
    "scale": (0, 0, 0, (0.6, 1.7), 0, 0, (0, 0)),
    "shift": (0, 0, 0, (1, 1), 5.0, 0, (0, 0)),
    "bend": (0, 0, 0, (1, 1), 0, 1.5, (0, 0)),
    "width": (0, 0, 0, (1, 1), 0, 0, (-1.0, 3.0)),
    "all": (15, 0.25, 0.2, (0.8, 1.05), 1.6, 0.9, (-0.6, 1.2)),
}
"""A distortion of each kind alone, and all of them."""


def _draws(count: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).random((5, count), np.float32)


def _warped(distortion: tuple[Any, ...]) -> Any:
    axis = np.linspace(-1, 1, 48)
    maps = np.stack([np.sin(3 * axis[:, None]) + axis, np.cos(2 * axis[:, None]) * axis * 2]).astype(np.float32)
    chosen, draws = np.array([0, 1, 1, 0, 1]), _draws(warp.DRAWS)
    offset = np.arange(5, dtype=np.float32)
    # Each place is that of the nearest cell, so a hair decides now and then: means do not mind.
    found = [warp.distances(maps, chosen, side, Distortion(*distortion), draws, offset) for side in (16, 28)]
    return [(10 + one.reshape(5, 4, -1).mean(2)).round(2).tolist() for one in found]


CALLS: dict[str, Callable[[], Any]] = {
    **{f"warped by {name}": lambda distortion=distortion: _warped(distortion) for name, distortion in EACH.items()},
    "pieces of textures": lambda: [textures.pieces(side, _draws(textures.DRAWS)) for side in (8, 28)],
    "sheets of textures": lambda: [np.abs(textures._sheets()), textures._sheets()[:3]],
    "slopes of light": lambda: [np.abs(_slope(6, _draws(2))), _slope(2, _draws(2))[0]],
    "bytes": lambda: _bytes(np.linspace(-0.5, 1.5, 12, dtype=np.float32).reshape(1, 4, 3), 2),
    "numbers between": lambda: between(-0.25, 0.75, _draws(2)[0]),
    "coverage": lambda: [coverage(np.linspace(-3, 3, 9), one) for one in (0.5, 1.2, 4.0)],
    "distances to an outline": lambda: _distance(np.pad(np.full((40, 10), 200, np.uint8), ((44, 44), (59, 59)))),
    "digits written by hand": lambda: [
        np.round(Handwriting(Distortion(*EACH["all"])).render(np.arange(10), draws, split).mean((1, 2))).tolist()
        for draws in (np.random.default_rng(1).random((10, 1 + warp.DRAWS), np.float32),)
        for split in ("train", "test")
    ],
    "styles": lambda: [[style.classes, style.draws] for style in STYLES.values()],
    "blocks": lambda: [
        [block, rows.tolist(), inside.tolist()] for block, rows, inside in _by_block(np.array([7, 1203, 499, 500, 0]))
    ],
}


@pytest.mark.parametrize("name", CALLS)
def test_no_number_moves(name: str) -> None:
    compare(LIST, name, CALLS[name], rel=2e-3 if "warped" in name else 1e-4)


if __name__ == "__main__":
    write(LIST, CALLS)
