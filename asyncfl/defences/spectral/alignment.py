"""How well each update goes along with the majority of them: how far in its direction, and how far off it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from asyncfl.defences.spectral.spectrum import Embedding
from asyncfl.defences.two_means import lower_cluster


@dataclass(frozen=True)
class Alignment:
    """How each point lies to the majority m; lengths are in units of the majority's own, |m|."""

    along: NDArray[np.float64]
    """(n,) u: 1 like the majority, 0 nothing, -1 against it."""
    off: NDArray[np.float64]
    """(n,) o: squared distance from the majority's line."""
    doubt: NDArray[np.float64]
    """(n,) |nu| / |m|: how far a point is off by noise alone."""
    blur: NDArray[np.float64]
    """(n,) standard deviation of `along` that is due to the point's own noise."""
    clearness: NDArray[np.float64]
    """(n,) |m| in standard deviations of a point's noise in its direction: how well two opposites can be told apart."""


def alignment_with(
    embedding: Embedding,
    medians: NDArray[np.float64],
    noisiness: NDArray[np.float64] | float = 1.0,
) -> Alignment:
    """How each point of `embedding` (n, r) lies to the majority, its own median.

    `medians`: (n, r), the majority as of the version each update was trained from. `noisiness`: (n,) noise of the
    points over the usual one that the embedding knows.
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
    """How far apart even like updates are: 0 where most points have company, about 1 where they stand alone.

    For every point the squared distance to its nearest quarter (`neighbours`) of all points, less what noise alone
    makes of it, in units of the point's own squared length; then the median over the points. Independent data give
    0, Dirichlet 5 / 2 / 1 / 0.5 label skew about 0.4 / 0.6 / 0.9 / 1. The median and the quarter belong to the
    honest as long as they are more than half: attackers that scatter do not raise it.
    """
    points = embedding.points
    squares = np.einsum("nr,nr->n", points, points)
    distances = squares[:, None] + squares - 2 * points @ points.T
    rank = max(1, int(neighbours * len(points)))
    # Place 0 of the sorted row is the point itself.
    near = np.partition(distances, rank, axis=1)[:, rank]
    noise = 2 * float(embedding.noise @ embedding.noise)
    return float(np.median((near - noise) / np.maximum(np.maximum(squares, noise), np.finfo(float).tiny)))


def lagging(along: NDArray[np.float64], apart: float | None) -> NDArray[np.bool_]:
    """Which points are in a separate minority that goes less far along the majority.

    `along`: (n,) u. The lower of the two best clusters counts when it is the smaller and the means of the two lie more
    than `apart` standard deviations (pooled, within the clusters) and 0.2 from each other; else, and for None, nobody
    does.
    """
    nobody = np.zeros(len(along), dtype=bool)
    if apart is None:
        return nobody
    lower = lower_cluster(along)
    if not 0 < 2 * lower.sum() < len(along):
        return nobody
    low, high = along[lower], along[~lower]
    within = np.sqrt((low.var() * len(low) + high.var() * len(high)) / len(along))
    # A shortfall of less slows nobody down, and without noise any difference would be many deviations.
    return lower if high.mean() - low.mean() > max(apart * within, 0.2) else nobody
