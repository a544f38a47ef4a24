"""FLAME: the mean of the majority cluster, clipped to the median length, with a little noise."""

import copy
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from asyncfl.base.arrays import Bools, Floats, Vector
from asyncfl.base.quantities import MeasuredIn
from asyncfl.defences.buffer import Buffer, DefenceContext
from asyncfl.defences.clipping import clipping_factors
from asyncfl.defences.distances import norms
from asyncfl.defences.robust_rule import weighted_sum
from asyncfl.defences.rule import Aggregate, Rule, present


class Flame(Rule):
    """Mean of the updates in the single cluster of more than half of them, clipped to the median length, plus noise.

    HDBSCAN on cosine distances (clusters of at least n // 2 + 1, one neighbour) admits one cluster; two groups of equal
    size form one. Admitted updates are clipped to S, the median length of all n updates, and averaged by their weights.
    Gaussian noise of deviation `noise_factor` S times the sum of the weights is added to each parameter.

    Use it against backdoors, if attackers are a minority with another direction. The source compares whole models of
    synchronous clients. Asynchronous models differ more by their base versions than by training, so updates are
    compared instead (`compare: models` is the source's choice). One or two updates are admitted as they are. Source:
    Nguyen et al. 2022.
    """

    kind: Literal["flame"] = "flame"
    compare: Literal["updates", "models"] = "updates"
    """Vectors whose cosines are compared."""
    noise_factor: Annotated[float, Field(ge=0, allow_inf_nan=False), MeasuredIn("median lengths")] = 0.001
    """lambda: standard deviation of the noise, in median lengths, >= 0; the source uses .001 for images."""

    def aggregate(self, updates: Vector, weights: Floats) -> Vector:
        """Return the aggregate without noise, comparing updates."""
        return self._aggregate_admitted(updates, updates, weights)[0].update

    def weigh(self, updates: Vector, weights: Floats) -> Floats:
        return self._aggregate_admitted(updates, updates, weights)[0].weights

    def start(self, context: DefenceContext, random: np.random.Generator) -> Any:
        return random

    def step(self, state: Any, buffer: Buffer, weights: Floats) -> tuple[Aggregate, Any]:
        compared = buffer.deltas if self.compare == "updates" else buffer.models
        made, length = self._aggregate_admitted(compared, buffer.deltas, weights)
        following = copy.deepcopy(state)
        std = np.float32(self.noise_factor * length * weights.sum())
        if not std:
            return made, following
        noise = std * following.standard_normal(len(made.update), dtype=np.float32)
        return Aggregate(made.update + noise, made.weights), following

    def _aggregate_admitted(self, compared: Vector, updates: Vector, weights: Floats) -> tuple[Aggregate, float]:
        """Return the aggregate of the admitted updates without noise, and S. `compared`: vectors to compare."""
        rows = present(updates, weights)
        weighed = np.zeros(len(updates))
        if not len(rows):
            return Aggregate(np.zeros(updates.shape[1], dtype=updates.dtype), weighed), 0.0
        inside, lengths = majority(compared[rows]), norms(updates[rows])
        median, admitted = float(np.median(lengths)), rows[inside]
        shares = weights[admitted] / weights[admitted].sum()
        weighed[admitted] = float(weights.sum()) * shares * clipping_factors(lengths[inside], median)
        return Aggregate(weighted_sum(weighed, updates), weighed), median


def majority(vectors: Vector) -> Bools:
    """Return whether each of the vectors (n, n_parameters) is in the cluster of more than half of them, (n,) bool: all
    if no smaller one separates. Vectors of length 0 have cosine 0 with all others."""
    n = len(vectors)
    if n <= 2:
        return np.ones(n, dtype=bool)
    # Importing it takes a second, and few runs need it.
    from sklearn.cluster import HDBSCAN

    lengths = norms(vectors)
    units = vectors / np.where(lengths > 0, lengths, np.inf)[:, None]
    distances = np.clip(1.0 - units @ units.T, 0.0, 2.0)
    np.fill_diagonal(distances, 0.0)
    clusters = HDBSCAN(
        min_cluster_size=n // 2 + 1, min_samples=1, metric="precomputed", allow_single_cluster=True, copy=True
    )
    return np.asarray(clusters.fit(distances).labels_ >= 0)
