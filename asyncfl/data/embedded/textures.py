"""Backgrounds that resemble photographs: coloured noise whose power falls with frequency as in photographs."""

from __future__ import annotations

import zlib
from functools import lru_cache

import numpy as np

from asyncfl.data.embedded.style import between
from asyncfl.data.embedded.warp import Floats
from asyncfl.streams import Streams

DRAWS = 6
"""Uniform random numbers per patch."""
_SIDE = 256
_SHEETS = 6


def patches(side: int, draws: Floats) -> Floats:
    """Cut patches (n, side * side, 3), 0..1, from the sheets, each with its own brightness and contrast."""
    sheets = _sheets()
    sheet = (draws[:, 0] * _SHEETS).astype(np.int32)
    top = (draws[:, 1] * _SIDE).astype(np.int32)
    left = (draws[:, 2] * _SIDE).astype(np.int32)
    step = 1 + (draws[:, 3] * 2).astype(np.int32)  # a coarser sampling of a sheet is another texture
    run = np.arange(side, dtype=np.int32)
    rows = (top[:, None] + step[:, None] * run) % _SIDE
    columns = (left[:, None] + step[:, None] * run) % _SIDE
    index = (sheet[:, None] * _SIDE + rows)[:, :, None] * _SIDE + columns[:, None, :]
    found: Floats = sheets.take(index.reshape(len(draws), -1), axis=0)
    found *= between(0.1, 0.28, draws[:, 4])[:, None, None]
    found += between(0.1, 0.65, draws[:, 5])[:, None, None]
    return np.clip(found, 0.0, 1.0, out=found)


@lru_cache(maxsize=1)
def _sheets() -> Floats:
    """Build the sheets (sheets * side * side, 3): noise of mean 0 and deviation 1, periodic; amplitude falls as 1 /
    frequency^1.6."""
    rng = Streams(0).generator("stand_ins", zlib.crc32(b"textures") >> 1)
    frequency = np.hypot(np.fft.fftfreq(_SIDE)[:, None], np.fft.fftfreq(_SIDE)) * _SIDE
    amplitude = np.where(frequency < 2, 0.0, 1.0 / np.maximum(frequency, 1.0) ** 1.6)
    white = rng.standard_normal((_SHEETS, 4, _SIDE, _SIDE))
    shaped = np.fft.ifft2(np.fft.fft2(white) * amplitude).real
    light, colour = shaped[:, :1], shaped[:, 1:]
    sheets = light + 0.3 * colour  # the channels of a photograph are correlated
    sheets /= sheets.std((2, 3), keepdims=True)
    return np.ascontiguousarray(sheets.transpose(0, 2, 3, 1).reshape(-1, 3)).astype(np.float32)
