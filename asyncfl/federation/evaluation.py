"""Quality of a model on the data of a federation: losses, accuracies (or errors), success of a backdoor."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.messages import Vector
from asyncfl.data import FederatedData
from asyncfl.federation.regression_quality import regression_quality
from asyncfl.learning import Learner
from asyncfl.learning.loss import is_regression
from asyncfl.learning.metrics import Metric
from asyncfl.threats import Attack, backdoor_test_set

METRIC = "metric_"
"""Prefix of the columns of the user's own metrics."""
BY_DOMAIN = "test_accuracy_"
"""Prefix of the further columns of a federation of several domains."""


def by_domain(domains: Sequence[str], accuracies: Sequence[float]) -> dict[str, float]:
    """Return the further columns of a federation of several domains: accuracy in each, their mean, the worst.

    Empty for one domain. Mean and worst are NaN if one of the accuracies is.
    """
    if len(domains) < 2:
        return {}
    columns = {f"{BY_DOMAIN}{name}": value for name, value in zip(domains, accuracies, strict=True)}
    together = {"domains_mean": float(np.mean(accuracies)), "domains_min": float(np.min(accuracies))}
    return columns | {f"{BY_DOMAIN}{name}": value for name, value in together.items()}


class Evaluator:
    """Evaluates models on the data of a federation."""

    def __init__(self, learner: Learner, data: FederatedData, attack: Attack | None = None) -> None:
        self.learner = learner
        self.data = data
        self._backdoor = None if attack is None else backdoor_test_set(attack, data.test_images, data.test_labels)
        self._equal = len(set(data.sizes.tolist())) == 1

    def train_loss(self, model: Vector) -> float:
        """Compute the mean over clients of the mean loss on the client's own data (NbAFL's metric)."""
        if self._equal:
            # Clients of one size: the mean of the means is the mean over all samples, in one pass.
            loss, _ = self.learner.evaluate(model, self.data.images, self.data.labels)
            return loss
        clients = range(self.data.clients)
        return float(np.mean([self.learner.evaluate(model, *self.data.client(client))[0] for client in clients]))

    def test(self, model: Vector) -> tuple[float, float]:
        """Compute mean loss and accuracy (0..1; NaN for a regression) on the test set."""
        return self.learner.evaluate(model, self.data.test_images, self.data.test_labels)

    def test_by_domain(self, model: Vector) -> tuple[float, float, list[float]]:
        """Compute mean loss and accuracy on the test set, and the accuracy in each domain (NaN without test samples).

        Domains with more test samples weigh more in the first two, not in the third.
        """
        counts = np.diff(self.data.test_offsets)
        found = [
            self.learner.evaluate(model, *self.data.test_of(domain)) if count else (math.nan, math.nan)
            for domain, count in enumerate(counts)
        ]
        tested = np.flatnonzero(counts)
        loss, accuracy = np.average(np.array(found)[tested], axis=0, weights=counts[tested])
        return float(loss), float(accuracy), [share for _, share in found]

    def regression(self, model: Vector) -> dict[str, float]:
        """Return the columns of regression quality on the test set; none with classes."""
        if not is_regression(self.data.test_labels):
            return {}
        return regression_quality(self.learner.outputs(model, self.data.test_images), self.data.test_labels)

    def own_metrics(self, metrics: Mapping[str, Metric], model: Vector) -> dict[str, float]:
        """Return the columns of the user's own metrics on the test set."""
        if not metrics:
            return {}
        outputs = self.learner.outputs(model, self.data.test_images)
        return {f"{METRIC}{name}": one.value(outputs, self.data.test_labels) for name, one in metrics.items()}

    def on_clients(self, model: Vector) -> NDArray[np.float64]:
        """Compute (clients, 2) mean loss and accuracy (NaN for a regression) on each client's own data."""
        of_each = [self.learner.evaluate(model, *self.data.client(client)) for client in range(self.data.clients)]
        return np.array(of_each, np.float64)

    def attack_success(self, model: Vector) -> float | None:
        """Compute the share of triggered test images classified as the backdoor's class; None without a backdoor."""
        return None if self._backdoor is None else self.learner.evaluate(model, *self._backdoor)[1]
