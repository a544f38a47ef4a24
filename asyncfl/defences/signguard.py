"""SignGuard: leaves out updates of odd length or odd signs, and clips the others to the median length."""

import copy
import math
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from asyncfl.base.arrays import Bools, Floats, Vector
from asyncfl.base.quantities import MeasuredIn
from asyncfl.defences.buffer import Buffer, DefenceContext
from asyncfl.defences.clipping import clipping_factors
from asyncfl.defences.distances import inner_products, norms, squared_distances
from asyncfl.defences.robust_rule import weighted_sum
from asyncfl.defences.rule import Aggregate, Rule, present

NEIGHBOURS = 0.5
"""Share of the other updates within the bandwidth of mean shift, on average."""
NONE_LEFT = "signguard: the lengths and the signs that most updates have are of different ones, no update was used"


class SignGuard(Rule):
    """Mean of the updates whose length and whose shares of signs are those of most, clipped to the median length.

    S1 holds the updates that are `shortest` to `longest` times as long as the median. Each update is described by its
    shares of positive, zero and negative entries among `coordinates` of the parameters, drawn at random, and by
    `similarity`; S2 is the largest cluster of these by mean shift. The mean is of the updates in both.

    Use it against attacks that change signs, such as `sign_flip` and `ipm`, without knowing how many attack. The noise
    of privacy makes the signs of all updates alike. Weights count in the mean. Lengths, shares and the bandwidth of
    mean shift, the mean distance within which half of the other updates lie, are as in the authors' program, which
    draws the coordinates in a row and divides each share by its largest. Source: Xu et al. 2022.
    """

    kind: Literal["signguard"] = "signguard"
    shortest: Annotated[float, Field(ge=0, allow_inf_nan=False), MeasuredIn("median lengths")] = 0.1
    """L: smallest length of an update, in median lengths, >= 0, below `longest`."""
    longest: Annotated[float, Field(gt=0, allow_inf_nan=False), MeasuredIn("median lengths")] = 3.0
    """R: largest length of an update, in median lengths, at least 1."""
    coordinates: Annotated[float, Field(gt=0, le=1), MeasuredIn("share")] = 0.1
    """Share of the parameters whose signs are counted, 0 exclusive..1."""
    similarity: Literal["none", "cosine", "distance"] = "none"
    """Further feature: the median cosine (SignGuard-Sim) or distance (SignGuard-Dist) to the other updates; distances
    are divided by their median."""

    @model_validator(mode="after")
    def _check_lengths(self) -> Self:
        if not self.shortest <= 1 <= self.longest:
            raise ValueError(f"shortest must be <= 1 and longest >= 1, got {self.shortest:g} and {self.longest:g}")
        return self

    def aggregate(self, updates: Vector, weights: Floats) -> Vector:
        """Return the aggregate by the signs of all parameters, none drawn."""
        return self._made(updates, weights, None).update

    def weigh(self, updates: Vector, weights: Floats) -> Floats:
        return self._made(updates, weights, None).weights

    def start(self, context: DefenceContext, random: np.random.Generator) -> Any:
        return random

    def step(self, state: Any, buffer: Buffer, weights: Floats) -> tuple[Aggregate, Any]:
        following = copy.deepcopy(state)
        return self._made(buffer.deltas, weights, following), following

    def _made(self, updates: Vector, weights: Floats, random: np.random.Generator | None) -> Aggregate:
        """Return the aggregate of `updates` (n, n_parameters). `random` is advanced; None: all signs are counted."""
        rows, weighed = present(updates, weights), np.zeros(len(updates))
        if not len(rows):
            return Aggregate(np.zeros(updates.shape[1], dtype=updates.dtype), weighed)
        given = updates[rows]
        lengths = norms(given)
        median = float(np.median(lengths))
        usual = (lengths >= self.shortest * median) & (lengths <= self.longest * median)
        kept = rows[usual & largest_cluster(self._features(given, random))]
        if not len(kept):
            return Aggregate(np.zeros(updates.shape[1], dtype=updates.dtype), weighed, (NONE_LEFT,))
        shares = weights[kept] / weights[kept].sum()
        weighed[kept] = float(weights.sum()) * shares * clipping_factors(norms(updates[kept]), median)
        return Aggregate(weighted_sum(weighed, updates), weighed)

    def _features(self, updates: Vector, random: np.random.Generator | None) -> Floats:
        """Return the features (n, 3) or (n, 4) of `updates` (n, n_parameters)."""
        chosen = updates
        if random is not None:
            number = max(1, round(self.coordinates * updates.shape[1]))
            chosen = updates[:, random.choice(updates.shape[1], number, replace=False)]
        features = [(chosen > 0).mean(axis=1), (chosen == 0).mean(axis=1), (chosen < 0).mean(axis=1)]
        if self.similarity != "none" and len(updates) > 1:
            features.append(_likeness(updates, self.similarity))
        return np.stack(features, axis=1)


def _likeness(updates: Vector, similarity: str) -> Floats:
    """Return the median cosine, or the median distance over the median of these, of each update to the others, (n,)."""
    n = len(updates)
    others = ~np.eye(n, dtype=bool)
    if similarity == "distance":
        distances = np.median(np.sqrt(squared_distances(updates))[others].reshape(n, n - 1), axis=1)
        scale = float(np.median(distances))
        return np.asarray(distances / scale if scale else distances)
    lengths = norms(updates)
    scales = np.multiply.outer(lengths, lengths)
    products = inner_products(updates, updates)
    cosines = np.divide(products, scales, out=np.zeros((n, n)), where=scales > 0)
    return np.asarray(np.median(cosines[others].reshape(n, n - 1), axis=1))


def largest_cluster(features: Floats) -> Bools:
    """Return which points (n, k) are in the largest cluster by mean shift, (n,): all if they are equal or at most two.
    Of clusters of one size the first that mean shift finds counts, which is the denser one."""
    if len(features) <= 2 or (features == features[0]).all():
        return np.ones(len(features), dtype=bool)
    # Importing it takes a second, and few runs need it.
    from sklearn.cluster import MeanShift, estimate_bandwidth

    # scikit-learn counts a point as its own neighbour.
    quantile = (math.ceil(NEIGHBOURS * (len(features) - 1)) + 1 + 1e-9) / len(features)
    # More than half may be equal; then any other point is apart from these.
    bandwidth = max(float(estimate_bandwidth(features, quantile=min(quantile, 1.0))), 1e-6)
    labels = MeanShift(bandwidth=bandwidth).fit(features).labels_
    return np.asarray(labels == np.argmax(np.bincount(labels)))
