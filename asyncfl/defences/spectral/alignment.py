"""Alignment of updates with their majority: the projection on its direction and the distance from it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from asyncfl.defences.spectral.spectrum import Embedding
from asyncfl.defences.two_means import lower_cluster


@dataclass(frozen=True)
class Alignment:
    """Position of each point relative to the majority m; lengths are in units of |m|."""

    along: NDArray[np.float64]
    """(n,) u: 1 like the majority, 0 orthogonal, -1 opposite."""
    off: NDArray[np.float64]
    """(n,) o: squared distance from the line of the majority."""
    doubt: NDArray[np.float64]
    """(n,) |nu| / |m|: expected distance due to noise alone, with nu the standard deviations of a point's
    coordinates."""
    blur: NDArray[np.float64]
    """(n,) standard deviation of `along` due to the point's own noise."""
    clearness: NDArray[np.float64]
    """(n,) |m| in standard deviations of a point's noise along m: how well opposite points can be distinguished."""


def alignment_with(
    embedding: Embedding,
    medians: NDArray[np.float64],
    noisiness: NDArray[np.float64] | float = 1.0,
) -> Alignment:
    """Return the position of each point of `embedding` (n, r) relative to its own majority.

    `medians`: (n, r) m, the majority's position at the version that each update was trained from; where it is 0,
    clearness is 0. `noisiness`: (n,) standard deviation of the noise of each point, relative to `embedding.noise`.
    """
    length = np.linalg.norm(medians, axis=1)
    known = length > 0
    scale = np.where(known, length, 1.0)
    unit = medians / scale[:, None]
    along = np.einsum("nr,nr->n", embedding.points, unit) / scale
    rest = embedding.points / scale[:, None] - along[:, None] * unit
    noise_along = np.linalg.norm(embedding.noise * unit, axis=1)
    return Alignment(
        along,
        np.einsum("nr,nr->n", rest, rest),
        noisiness * float(np.linalg.norm(embedding.noise)) / scale,
        noisiness * noise_along / scale,
        np.where(known, np.divide(length, noise_along, out=np.full_like(length, np.inf), where=noise_along > 0), 0.0),
    )


def looseness(embedding: Embedding, neighbours: float = 0.25) -> float:
    """Return the typical squared distance to similar updates, relative to an update's squared length: 0 if most points
    have near neighbours, about 1 if they have none.

    `embedding`: one point per update. For every point take the squared distance to its k-th nearest point, k being the
    share `neighbours` of all points. Subtract the part due to noise and divide by the point's own squared length. The
    result is the median over the points. IID data give 0, Dirichlet 5 / 2 / 1 / 0.5 label skew about 0.4 / 0.6 / 0.9 /
    1. As long as honest clients are the majority, they determine the median and the k-th distances: scattered attackers
    do not raise the value.
    """
    points = embedding.points
    squares = np.einsum("nr,nr->n", points, points)
    distances = squares[:, None] + squares - 2 * points @ points.T
    rank = max(1, int(neighbours * len(points)))
    # Position 0 of the sorted row is the point itself.
    near = np.partition(distances, rank, axis=1)[:, rank]
    noise = 2 * float(embedding.noise @ embedding.noise)
    return float(np.median((near - noise) / np.maximum(np.maximum(squares, noise), np.finfo(float).tiny)))


def lagging(along: NDArray[np.float64], apart: float | None) -> NDArray[np.bool_]:
    """Return whether each point is in a separate minority with smaller projections on the majority, (n,) bool.

    `along`: (n,) u. The lower of the two best clusters counts if it is the smaller and the cluster means are more than
    `apart` standard deviations (pooled, within the clusters) and 0.2 apart. Otherwise, and for None, all are False.
    """
    none = np.zeros(len(along), dtype=bool)
    if apart is None:
        return none
    lower = lower_cluster(along)
    if not 0 < 2 * lower.sum() < len(along):
        return none
    low, high = along[lower], along[~lower]
    within = np.sqrt((low.var() * len(low) + high.var() * len(high)) / len(along))
    # Smaller shortfalls do no harm, and without noise any difference would be many deviations.
    return lower if high.mean() - low.mean() > max(apart * within, 0.2) else none
