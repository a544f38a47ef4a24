"""Quality of a model on the data of a federation: losses, accuracies (or errors), success of a backdoor."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.columns import FairnessColumns, RegressionColumns
from asyncfl.base.messages import Vector
from asyncfl.data import FederatedData
from asyncfl.learning import Learner
from asyncfl.learning.loss import is_regression
from asyncfl.learning.metrics import Metric
from asyncfl.learning.personal_layers import PersonalLayers
from asyncfl.threats import Attack, backdoor_test_set

METRIC = "metric_"
"""Prefix of the columns of the user's own metrics."""
BY_DOMAIN = "test_accuracy_"
"""Prefix of the further columns of a federation of several domains."""
NOT_TESTED = dict.fromkeys(RegressionColumns.model_fields, math.nan)
"""Columns of a regression for a version that was not tested."""
NOT_MEASURED = dict.fromkeys(FairnessColumns.model_fields, math.nan)
"""Columns of fairness for a version whose clients were not evaluated."""


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


def regression_quality(outputs: NDArray[np.float32], labels: NDArray[Any]) -> dict[str, float]:
    """Compute the regression columns of the table of rounds from predictions and labels of the test set, both (m,
    outputs).

    R^2 is one minus the squared error over that of the mean of the labels, averaged over the outputs; NaN if all labels
    of an output are equal.
    """
    wanted = labels.astype(np.float64)
    wrong = outputs.astype(np.float64) - wanted
    varies = np.square(wanted - wanted.mean(0)).sum(0)
    known = np.ptp(wanted, axis=0).all()
    explained = float((1 - np.square(wrong).sum(0) / varies).mean()) if known else math.nan
    return dict(zip(RegressionColumns.model_fields, (explained, float(np.abs(wrong).mean())), strict=True))


def fairness(losses: NDArray[np.float64], accuracies: NDArray[np.float64]) -> dict[str, float]:
    """Compute the fairness columns of the table of rounds from losses and accuracies (clients,) on the clients' own
    data.

    The worst decile is the worst tenth of the clients, rounded up, as in q-FFL (Li et al. 2020, arXiv:1905.10497, table
    1). If an accuracy is NaN, the columns of accuracies are NaN.
    """
    tenth = math.ceil(len(losses) / 10)
    numbers = (
        float(accuracies.std()),
        float(np.sort(accuracies)[:tenth].mean()),
        float(np.sort(losses)[-tenth:].mean()),
    )
    found = dict(zip(FairnessColumns.model_fields, numbers, strict=True))
    return {
        name: math.nan if name.startswith("client_accuracy") and np.isnan(accuracies).any() else value
        for name, value in found.items()
    }


def personal_notes(parts: PersonalLayers | None) -> list[str]:
    """Return notes for the reader of the numbers; none if all layers are shared."""
    if parts is None:
        return []
    own, shared = len(parts.learner.initial), parts.learner.n_parameters
    return [
        f"model.personal: {own} of {own + shared} parameters stay at each client; a published model is evaluated with "
        "each client's own layers, and the mean over all clients is reported"
    ]


class PersonalEvaluator(Evaluator):
    """Evaluates a published model with each client's personal layers; reports means over clients.

    Each client's model is tested on all test samples of its domain.
    """

    def __init__(self, parts: PersonalLayers, data: FederatedData, attack: Attack | None = None) -> None:
        super().__init__(parts.learner.whole, data, attack)
        self.parts = parts

    def _models(self, model: Vector) -> Iterator[tuple[int, Vector]]:
        """Yield each client with its own model."""
        return ((client, self.parts.whole(client, model)) for client in range(self.data.clients))

    def train_loss(self, model: Vector) -> float:
        return float(np.mean([self.learner.evaluate(own, *self.data.client(i))[0] for i, own in self._models(model)]))

    def test(self, model: Vector) -> tuple[float, float]:
        found = [super(PersonalEvaluator, self).test(own) for _, own in self._models(model)]
        loss, accuracy = np.mean(found, axis=0)
        return float(loss), float(accuracy)

    def test_by_domain(self, model: Vector) -> tuple[float, float, list[float]]:
        """Compute mean loss and accuracy over the clients, each on the test set of its domain, and the mean accuracy of
        each domain's clients (NaN without test samples)."""
        tested = np.diff(self.data.test_offsets) > 0
        of = self.data.client_domains
        found = np.array(
            [
                self.learner.evaluate(own, *self.data.test_of(int(of[i]))) if tested[of[i]] else (math.nan, math.nan)
                for i, own in self._models(model)
            ]
        )
        loss, accuracy = found[tested[of]].mean(0)
        return float(loss), float(accuracy), [float(found[of == one, 1].mean()) for one in range(len(tested))]

    def regression(self, model: Vector) -> dict[str, float]:
        return _means([super(PersonalEvaluator, self).regression(own) for _, own in self._models(model)])

    def own_metrics(self, metrics: Mapping[str, Metric], model: Vector) -> dict[str, float]:
        if not metrics:
            return {}
        return _means([super(PersonalEvaluator, self).own_metrics(metrics, own) for _, own in self._models(model)])

    def on_clients(self, model: Vector) -> np.ndarray:
        return np.array([self.learner.evaluate(own, *self.data.client(i)) for i, own in self._models(model)])

    def attack_success(self, model: Vector) -> float | None:
        if self._backdoor is None:
            return None
        return float(np.mean([self.learner.evaluate(own, *self._backdoor)[1] for _, own in self._models(model)]))


def _means(rows: list[dict[str, float]]) -> dict[str, float]:
    """Compute the mean of each number over rows that all have it."""
    return {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}
