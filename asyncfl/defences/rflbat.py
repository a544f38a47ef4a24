"""RFLBAT: finds backdoors among updates by their first two principal components."""

import copy
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from asyncfl.base.arrays import Bools, Floats, Ints, Vector
from asyncfl.base.quantities import MeasuredIn
from asyncfl.defences.buffer import Buffer, DefenceContext
from asyncfl.defences.distances import inner_products, squared_distances
from asyncfl.defences.robust_rule import weighted_sum
from asyncfl.defences.rule import Aggregate, Rule, present


class Rflbat(Rule):
    """Mean of the updates of one cluster in the plane of their first two principal components, without outliers.

    An update whose summed distance to the others in this plane exceeds `outlying` times the median is left out. The
    others are clustered by k-means, with the number of clusters by the gap statistic, at most `clusters`. Kept is the
    cluster whose updates resemble each other least: that of the smallest median of their mean cosines, a single update
    counting as 1. Of these the updates beyond `straying` times the median of their summed distances are left out.

    Use it against backdoors, if attackers resemble each other more than honest clients do. Weights do not enter the
    selection, but the mean. Source: Wang et al. 2022.
    """

    kind: Literal["rflbat"] = "rflbat"
    outlying: Annotated[float, Field(ge=1, allow_inf_nan=False), MeasuredIn("median distances")] = 10.0
    """epsilon_1: largest summed distance of an update before the clustering, in medians, >= 1."""
    straying: Annotated[float, Field(ge=1, allow_inf_nan=False), MeasuredIn("median distances")] = 4.0
    """epsilon_2: largest summed distance of an update within its cluster, in medians, >= 1."""
    clusters: Annotated[int, Field(ge=1, le=100), MeasuredIn("clusters")] = 9
    """K_max: largest number of clusters, >= 1."""
    references: Annotated[int, Field(ge=2, le=1000), MeasuredIn("sets")] = 5
    """Number of uniform sets that the gap statistic compares with, >= 2."""

    def aggregate(self, updates: Vector, weights: Floats) -> Vector:
        """Return the aggregate, with the reference sets of a fixed seed."""
        return self._made(updates, weights, np.random.default_rng(0)).update

    def weigh(self, updates: Vector, weights: Floats) -> Floats:
        return self._made(updates, weights, np.random.default_rng(0)).weights

    def start(self, context: DefenceContext, random: np.random.Generator) -> Any:
        return random

    def step(self, state: Any, buffer: Buffer, weights: Floats) -> tuple[Aggregate, Any]:
        following = copy.deepcopy(state)
        return self._made(buffer.deltas, weights, following), following

    def _made(self, updates: Vector, weights: Floats, random: np.random.Generator) -> Aggregate:
        """Return the aggregate of `updates` (n, n_parameters). `random` is advanced."""
        rows, weighed = present(updates, weights), np.zeros(len(updates))
        if not len(rows):
            return Aggregate(np.zeros(updates.shape[1], dtype=updates.dtype), weighed)
        kept = rows[self.select(updates[rows], random)]
        weighed[kept] = float(weights.sum()) * weights[kept] / weights[kept].sum()
        return Aggregate(weighted_sum(weighed, updates), weighed)

    def select(self, updates: Vector, random: np.random.Generator) -> Ints:
        """Return the indices of the selected rows of `updates` (n >= 1, n_parameters), at least one. `random` is
        advanced."""
        plane = principal_plane(updates)
        # In one order, so that k-means does not depend on that of arrival.
        order = np.lexsort(np.round(plane, 12).T)
        near = order[_within(plane[order], self.outlying)]
        groups = cluster(plane[near], self.clusters, self.references, random)
        lengths = np.sqrt(np.diagonal(gram := inner_products(updates, updates)))
        scale = np.multiply.outer(lengths, lengths)
        cosines = np.divide(gram, scale, out=np.zeros_like(gram), where=scale > 0)
        members = [near[groups == group] for group in range(int(groups.max()) + 1)]
        likeness = [
            float(np.median(cosines[np.ix_(one, one)].mean(axis=1))) if len(one) > 1 else 1.0 for one in members
        ]
        chosen = members[int(np.argmin(likeness))]
        return np.asarray(chosen[_within(plane[chosen], self.straying)])


def principal_plane(updates: Vector) -> Floats:
    """Return the coordinates (n, 2) of `updates` (n, n_parameters) along their first two principal components, in units
    of the largest one."""
    squares = squared_distances(updates)
    # The Gram matrix of the centred updates follows from their distances.
    gram = -0.5 * (squares - squares.mean(axis=0) - squares.mean(axis=1)[:, None] + squares.mean())
    values, vectors = np.linalg.eigh(gram)
    found = vectors[:, ::-1][:, :2] * np.sqrt(np.maximum(values[::-1][:2], 0.0))
    # The sign of an eigenvector is arbitrary; the larger side is taken as positive.
    found *= np.where((found**3).sum(axis=0) < 0, -1.0, 1.0)
    plane = np.zeros((len(updates), 2))
    plane[:, : found.shape[1]] = found / max(float(np.abs(found).max()), np.finfo(float).tiny)
    return plane


def _within(points: Floats, limit: float) -> Bools:
    """Return whether the summed distance of each of `points` (n, 2) to the others is at most `limit` medians, (n,)."""
    distances = np.linalg.norm(points[:, None] - points, axis=2).sum(axis=1)
    return np.asarray(distances <= limit * np.median(distances))


def cluster(points: Floats, most: int, references: int, random: np.random.Generator) -> Ints:
    """Return the cluster of each of `points` (n, 2), numbered from 0, by k-means, with the number of clusters by the
    gap statistic: the smallest k with Gap(k) >= Gap(k + 1) - s_(k+1), of at most `most` and at most the distinct points
    less one. Source: Tibshirani, Walther, Hastie 2001, with `references` uniform sets in the points' box."""
    low, size = points.min(axis=0), np.ptp(points, axis=0)
    distinct = len(np.unique(np.round(points, 12), axis=0))
    if distinct <= 2 or not size.any():
        return np.zeros(len(points), dtype=np.int64)
    most = min(most, distinct - 1)
    own, labels = zip(*(_k_means(points, k, random) for k in range(1, most + 1)), strict=True)
    drawn = np.array(
        [
            [_k_means(uniform, k, random)[0] for k in range(1, most + 1)]
            for uniform in (low + size * random.random(points.shape) for _ in range(references))
        ]
    )
    gap = drawn.mean(axis=0) - np.array(own)
    spread = drawn.std(axis=0) * np.sqrt(1 + 1 / references)
    enough = np.flatnonzero(gap[:-1] >= gap[1:] - spread[1:])
    return np.asarray(labels[int(enough[0]) if len(enough) else most - 1])


def _k_means(points: Floats, k: int, random: np.random.Generator) -> tuple[float, Ints]:
    """Return the logarithm of the sum of squares within k clusters, and the cluster of each point (n,)."""
    # Importing it takes a second, and few runs need it.
    from sklearn.cluster import KMeans

    found = KMeans(k, n_init=5, random_state=int(random.integers(1 << 31))).fit(points)
    return float(np.log(max(found.inertia_, np.finfo(float).tiny))), np.asarray(found.labels_, dtype=np.int64)
