"""Images from the gradient of a dense first layer with a bias, by division.

Unit j of the layer sees x and adds d_j x to row j of the weights' gradient and d_j to its bias, d_j the error that
comes back to it. So the row over the bias is the image, exactly, where a single image had an error at the unit (Phong
et al. 2018, section 3; Geiping et al. 2020, proposition 3.1); of several images it is a mix, weighted by their errors.

An image alone is read from all units at once: rows = d x^T, so x = rows^T d / |d|^2 has the least error under noise. Of
several images every unit is a candidate. Mixes with errors of both signs leave the range of pixels; what is inside it
lies within the hull of the images, whose corners are the images themselves. Corners are found one after another by
successive projection (Araujo et al. 2001): the longest candidate, then what is left of the others across from it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from asyncfl.learning.layout import Layer, Layout

LEGIBLE = 0.2
"""Largest deviation of the noise in a candidate, over the range of pixels, of units that are used while there are
others."""
OUTSIDE = 0.02
"""How far beyond the range of pixels a candidate may lie, over the range, beside four deviations of its noise."""
SAME = 1e-3
"""Length of what is new in a candidate, over its own length, below which it shows nothing that is not known."""


@dataclass(frozen=True)
class PixelRange:
    """Least and largest value of a pixel as a network sees it, of each channel."""

    low: NDArray[np.float32]
    """(channels, 1, 1)."""
    high: NDArray[np.float32]
    """(channels, 1, 1)."""

    def to_unit(self, images: NDArray[np.floating]) -> NDArray[np.float32]:
        """Images (n, channels, height, width) with pixels 0..1; what is outside is brought to the nearer end."""
        scaled = (images - self.low) / (self.high - self.low)
        unit: NDArray[np.float32] = np.clip(np.nan_to_num(scaled, nan=0.0), 0.0, 1.0).astype(np.float32)
        return unit


def dense_first_layer(layout: Layout, inputs: int) -> Layer | None:
    """The first layer where it is dense over all `inputs` and has a bias; None: its gradient cannot be divided."""
    first = layout.layers[0] if layout.layers else None
    if first is None or len(first.weight_shape) != 2 or first.weight_shape[1] != inputs or not first.bias_shape:
        return None
    return first


def divided_images(
    gradient: NDArray[np.floating],
    layer: Layer,
    shape: tuple[int, ...],
    count: int,
    pixels: PixelRange,
    noise_std: float = 0.0,
) -> NDArray[np.float32]:
    """(n <= count, *shape) images as the network saw them, from a gradient (n_parameters,) over `count` images.

    `layer`: see `dense_first_layer`; `noise_std`: deviation of the noise on each number of the gradient, in its units.
    A factor on the gradient (and on the noise) changes nothing. Fewer than `count` where units do not tell more apart;
    none where no unit had an error.
    """
    rows = gradient[layer.start : layer.bias_start].reshape(layer.weight_shape).astype(np.float64)
    errors = gradient[layer.bias_start : layer.stop].astype(np.float64)
    used = np.isfinite(errors) & np.isfinite(rows).all(axis=1) & (errors != 0)
    rows, errors = rows[used], errors[used]
    if not len(errors):
        return np.empty((0, *shape), np.float32)
    if count == 1:
        # The noise on the errors is in |d|^2 too, and is taken out while something remains.
        square = float(errors @ errors)
        without = square - len(errors) * noise_std**2
        image: NDArray[np.float32] = (rows.T @ errors / (without if without > 0.1 * square else square)).astype(
            np.float32
        )
        return image.reshape(1, *shape)
    span = np.broadcast_to(pixels.high - pixels.low, shape).reshape(-1).astype(np.float64)
    low = np.broadcast_to(pixels.low, shape).reshape(-1).astype(np.float64)
    candidates = (rows / errors[:, None] - low) / span
    blur = noise_std / (np.abs(errors) * float(span.mean()))
    corners = _corners(*_plausible(candidates, blur, count), count)
    images: NDArray[np.float32] = (corners * span + low).astype(np.float32)
    return images.reshape(-1, *shape)


def _plausible(
    candidates: NDArray[np.float64], blur: NDArray[np.float64], count: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The candidates (m, pixels), pixels 0..1, that could be images, and the noise in each; the clearest if few are."""
    clear = blur <= LEGIBLE
    if clear.sum() < count:
        clear = np.zeros(len(blur), bool)
        clear[np.argsort(blur, kind="stable")[:count]] = True
    margin = (OUTSIDE + 4 * blur)[:, None]
    inside = ((candidates >= -margin) & (candidates <= 1 + margin)).all(axis=1)
    chosen = clear & inside
    if not chosen.any():
        chosen = clear
    return np.clip(candidates[chosen], 0.0, 1.0), blur[chosen]


def _corners(candidates: NDArray[np.float64], blur: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """(n <= count, pixels) corners of the hull of candidates (m, pixels), by successive projection."""
    left = candidates.copy()
    lengths = np.linalg.norm(candidates, axis=1)
    chosen: list[int] = []
    while len(chosen) < min(count, len(candidates)):
        new = np.linalg.norm(left, axis=1)
        new[new <= SAME * np.maximum(lengths, 1e-12)] = 0.0
        if not new.any():
            break
        # Of copies of one image, the clearest.
        best = np.flatnonzero(new >= (1 - SAME) * new.max())
        index = int(best[np.argmin(blur[best])])
        chosen.append(index)
        across = left[index] / np.linalg.norm(left[index])
        left -= np.outer(left @ across, across)
    return candidates[chosen]
