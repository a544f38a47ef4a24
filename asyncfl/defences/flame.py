"""FLAME: the mean of the majority's cluster, each update cut to the median length, with a little noise."""

from __future__ import annotations

import copy
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from asyncfl.defences.buffer import Buffer
from asyncfl.defences.detector import DefenceContext
from asyncfl.defences.norm_clipping import clipping_factors
from asyncfl.defences.norms import norms
from asyncfl.defences.robust_rule import weighted_sum
from asyncfl.defences.rule import Aggregate, Rule, present
from asyncfl.messages import Vector
from asyncfl.quantities import MeasuredIn


class Flame(Rule):
    """Mean of the updates in the one cluster that more than half of them make, clipped to the median length, and noise.

    HDBSCAN over cosine distances, with clusters of at least n // 2 + 1 and one neighbour, admits one cluster; two camps
    of equal size are one. The admitted are scaled down to S, the median length of all n updates, and averaged by their
    weights; Gaussian noise of deviation `noise_factor` S is added to each parameter, times the sum of the weights.

    Use it against backdoors, where attackers are a minority that points elsewhere. The source compares whole models,
    which all start from one; those of asynchronous clients differ by the versions that they started from more than by
    what was learnt, so updates are compared instead (`compare: models`: as printed). Two updates, or one, are admitted
    as they are. Source: Nguyen et al. 2022.
    """

    kind: Literal["flame"] = "flame"
    compare: Literal["updates", "models"] = "updates"
    """What cosines are taken between."""
    noise_factor: Annotated[float, Field(ge=0, allow_inf_nan=False), MeasuredIn("median lengths")] = 0.001
    """lambda: deviation of the noise over the median length, >= 0; the source takes .001 for images."""

    def aggregate(self, updates: Vector, weights: NDArray[np.float64]) -> Vector:
        """The aggregate without noise, comparing updates."""
        return self._admitted(updates, updates, weights)[0].update

    def weigh(self, updates: Vector, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """What each update weighs, comparing updates; 0 outside of the cluster, less than its share where clipped."""
        return self._admitted(updates, updates, weights)[0].weights

    def start(self, context: DefenceContext, random: np.random.Generator) -> Any:
        """The stream that noise is drawn from."""
        return random

    def step(self, state: Any, buffer: Buffer, weights: NDArray[np.float64]) -> tuple[Aggregate, Any]:
        compared = buffer.deltas if self.compare == "updates" else buffer.models
        made, length = self._admitted(compared, buffer.deltas, weights)
        following = copy.deepcopy(state)
        std = np.float32(self.noise_factor * length * weights.sum())
        if not std:
            return made, following
        noise = std * following.standard_normal(len(made.update), dtype=np.float32)
        return Aggregate(made.update + noise, made.weights), following

    def _admitted(self, compared: Vector, updates: Vector, weights: NDArray[np.float64]) -> tuple[Aggregate, float]:
        """The aggregate without noise, and S; `compared`: (n_updates, n_parameters) what cosines are between."""
        rows = present(updates, weights)
        weighed = np.zeros(len(updates))
        if not len(rows):
            return Aggregate(np.zeros(updates.shape[1], dtype=updates.dtype), weighed), 0.0
        inside = majority(compared[rows])
        lengths = norms(updates[rows])
        median = float(np.median(lengths))
        admitted = rows[inside]
        mass, shares = float(weights.sum()), weights[admitted] / weights[admitted].sum()
        weighed[admitted] = mass * shares * clipping_factors(lengths[inside], median)
        return Aggregate(weighted_sum(weighed, updates), weighed), median


def majority(vectors: Vector) -> NDArray[np.bool_]:
    """(n,) which of the vectors (n, n_parameters) are in the one cluster of more than half of them.

    There always is one: with no other cluster as large, what falls apart last is it, all of them where nothing did
    before. Vectors without a length are at cosine 0 with all others.
    """
    n = len(vectors)
    if n <= 2:
        return np.ones(n, dtype=bool)
    # Takes a second to import, and few runs need it.
    from sklearn.cluster import HDBSCAN

    lengths = norms(vectors)
    units = vectors / np.where(lengths > 0, lengths, np.inf)[:, None]
    distances = np.clip(1.0 - units @ units.T, 0.0, 2.0)
    np.fill_diagonal(distances, 0.0)
    clusters = HDBSCAN(
        min_cluster_size=n // 2 + 1, min_samples=1, metric="precomputed", allow_single_cluster=True, copy=True
    )
    return np.asarray(clusters.fit(distances).labels_ >= 0)
