"""Sageflow: groups updates by staleness, leaves out uncertain models and trusts those of low loss on public data."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from asyncfl.base.arrays import Floats, Ints, Vector
from asyncfl.base.quantities import MeasuredIn
from asyncfl.defences.buffer import Buffer, DefenceContext
from asyncfl.defences.robust_rule import weighted_sum
from asyncfl.defences.rule import Aggregate, Rule, present

NONE_LEFT = "sageflow: the entropy of every model was too large, no update was used"
LEAST = 1e-12  # smallest probability and loss, so that logarithms and powers are finite


class Sageflow(Rule):
    """Mean of the updates of each staleness, weighed by the loss of their models on the server's own samples, and of
    these groups by their weights.

    With `most_entropy` an uploaded model is left out if the mean entropy of its predictions on the root set is that or
    more. In the group of one staleness an update has a share in proportion to its weight over the `loss_power`-th power
    of its model's loss. A group counts by the sum of its updates' weights: with `staleness: {kind: polynomial,
    exponent: lambda}` this is the source's m / (tau + 1)^lambda.

    Use it in asynchronous runs if the server holds clean samples. An untrained model has the entropy ln(classes), 2.3
    for ten: a limit that honest models exceed in their first versions stops training at its start, so it must be set
    for each task. The source mixes models, which is `application: mix`; with `delta` updates are added. Source: Park,
    Han, Choi, Moon 2021; the defaults of both settings are ours.
    """

    kind: Literal["sageflow"] = "sageflow"
    alongside: ClassVar[Mapping[str, Any]] = {"defence.root_samples": 100}
    needs_root: ClassVar[bool] = True
    needs_classes: ClassVar[bool] = True
    most_entropy: Annotated[float, Field(gt=0), MeasuredIn("nats")] | None = None
    """E_th: mean entropy of predictions from which a model is left out, > 0; null: none is, which is not the source's
    choice."""
    loss_power: Annotated[float, Field(ge=0, allow_inf_nan=False), MeasuredIn("1")] = 1.0
    """delta: power of the loss that a model's weight is divided by, >= 0; 0: losses do not count."""

    def aggregate(self, updates: Vector, weights: Floats) -> Vector:
        raise ValueError(
            "Sageflow needs entropies and losses: call `aggregate_groups(updates, weights, staleness, entropies, "
            "losses)` or `step`"
        )

    def aggregate_groups(
        self, updates: Vector, weights: Floats, staleness: Ints, entropies: Floats, losses: Floats
    ) -> Aggregate:
        """Return the aggregate of `updates` (n, n_parameters), see `Rule.aggregate`. The others are (n,): the staleness
        of each update, and the mean entropy and loss of its model on the root set; those of updates without weight are
        ignored."""
        rows = present(updates, weights)
        # Predictions that are no numbers have an infinite entropy.
        kept = rows[entropies[rows] < (np.inf if self.most_entropy is None else self.most_entropy)]
        weighed = np.zeros(len(updates))
        for age in np.unique(staleness[kept]):
            group = kept[staleness[kept] == age]
            # Relative to the smallest loss, so that no power overflows.
            trust = np.maximum(losses[group], LEAST)
            share = weights[group] * (trust.min() / trust) ** self.loss_power
            weighed[group] = weights[group].sum() * share / share.sum()
        if len(kept):
            weighed *= weights.sum() / weighed.sum()
        notes = (NONE_LEFT,) if len(rows) and not len(kept) else ()
        return Aggregate(weighted_sum(weighed, updates), weighed, notes)

    def start(self, context: DefenceContext, random: np.random.Generator) -> DefenceContext:
        return context

    def step(self, state: DefenceContext, buffer: Buffer, weights: Floats) -> tuple[Aggregate, DefenceContext]:
        entropies, losses = np.full(len(buffer), np.inf), np.full(len(buffer), np.inf)
        for row in present(buffer.deltas, weights):
            entropies[row], losses[row] = entropy_and_loss(*state.trusted_predictions(buffer.models[row]))
        return self.aggregate_groups(buffer.deltas, weights, buffer.staleness, entropies, losses), state


def entropy_and_loss(predicted: Floats, labels: Ints) -> tuple[float, float]:
    """Return the mean entropy and the mean cross-entropy, nats, of probabilities `predicted` (m, classes) for `labels`
    (m,); both infinite if a probability is not finite."""
    if not np.isfinite(predicted).all():
        return np.inf, np.inf
    safe = np.maximum(predicted, LEAST)
    entropy = -(predicted * np.log(safe)).sum(axis=1).mean()
    return float(entropy), float(-np.log(safe[np.arange(len(labels)), labels]).mean())
