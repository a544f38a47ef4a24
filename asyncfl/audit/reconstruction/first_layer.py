"""Images from the gradient of a dense first layer with a bias, by division.

For an input x, unit j of the layer adds d_j x to row j of the weights' gradient and d_j to the bias' gradient, where
d_j is the backpropagated error of the unit. The row divided by the bias gradient is the image exactly if a single image
had an error at the unit (Phong et al. 2018, section 3; Geiping et al. 2020, proposition 3.1). Of several images it is a
mix, weighted by their errors.

A single image is read from all units at once: rows = d x^T, so x = rows^T d / |d|^2 has the least error under noise. Of
several images every unit gives a candidate. Mixes with errors of both signs leave the range of pixels. Those inside the
range lie in the convex hull of the images, whose corners are the images themselves. Corners are found one after another
by successive projection (Araujo et al. 2001): take the longest candidate, and project the others on its orthogonal
complement.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from asyncfl.learning.layout import Layer, Layout

LEGIBLE = 0.2
"""Largest noise std of a candidate, relative to the range of pixels, unless there are too few such candidates."""
OUTSIDE = 0.02
"""Tolerance beyond the range of pixels, relative to the range, in addition to four standard deviations of the noise."""
SAME = 1e-3
"""Relative length of a projected candidate below which it is a mix of the corners that were found."""


@dataclass(frozen=True)
class PixelRange:
    """Least and largest value of the network's input, for each channel."""

    low: NDArray[np.float32]
    high: NDArray[np.float32]

    def to_unit(self, images: NDArray[np.floating]) -> NDArray[np.float32]:
        """Return images (n, channels, height, width) scaled to pixels 0..1; values outside the range are clipped."""
        scaled = (images - self.low) / (self.high - self.low)
        unit: NDArray[np.float32] = np.clip(np.nan_to_num(scaled, nan=0.0), 0.0, 1.0).astype(np.float32)
        return unit


def dense_first_layer(layout: Layout, inputs: int) -> Layer | None:
    """Return the first layer if it is dense over all `inputs` and has a bias, else None."""
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
    """Reconstruct images from the mean gradient (n_parameters,) over `count` images by division.

    `layer`: see `dense_first_layer`; `pixels`: range of the network's input; `noise_std`: standard deviation of the
    noise on each component of the gradient. A factor on gradient and noise changes nothing.

    Returns (n <= count, *shape) images as the network's input: fewer if the units tell fewer apart, none if no unit had
    an error.
    """
    rows = gradient[layer.start : layer.bias_start].reshape(layer.weight_shape).astype(np.float64)
    errors = gradient[layer.bias_start : layer.stop].astype(np.float64)
    used = np.isfinite(errors) & np.isfinite(rows).all(axis=1) & (errors != 0)
    rows, errors = rows[used], errors[used]
    if not len(errors):
        return np.empty((0, *shape), np.float32)
    if count == 1:
        # Noise on the errors inflates |d|^2; subtract its expectation unless that removes nearly all.
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
    """Return the candidates (k, pixels) that may be images, and the noise std of each (k,), `blur`, in pixel ranges."""
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
    """Return (n <= count, pixels) corners of the convex hull of candidates (m, pixels), by successive projection."""
    left = candidates.copy()
    lengths = np.linalg.norm(candidates, axis=1)
    chosen: list[int] = []
    while len(chosen) < min(count, len(candidates)):
        new = np.linalg.norm(left, axis=1)
        new[new <= SAME * np.maximum(lengths, 1e-12)] = 0.0
        if not new.any():
            break
        # Of several copies of one image, take the one with the least noise.
        best = np.flatnonzero(new >= (1 - SAME) * new.max())
        index = int(best[np.argmin(blur[best])])
        chosen.append(index)
        across = left[index] / np.linalg.norm(left[index])
        left -= np.outer(left @ across, across)
    return candidates[chosen]
