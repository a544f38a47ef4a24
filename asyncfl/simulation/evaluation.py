"""Quality of a model on the data of a federation: losses, accuracies (or errors), success of a backdoor."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.arrays import Floats, Vector
from asyncfl.base.tables import FairnessColumns, RegressionColumns
from asyncfl.data import FederatedData
from asyncfl.learning import Learner
from asyncfl.learning.loss import is_regression
from asyncfl.learning.metrics import Metric
from asyncfl.learning.personal_layers import PersonalLayers
from asyncfl.measurements import Evaluation, Schedule
from asyncfl.threats import Attack, backdoor_test_set

METRIC = "metric_"
"""Prefix of the columns of the user's own metrics."""
BY_DOMAIN = "test_accuracy_"
"""Prefix of the further columns of a federation of several domains."""
NOT_TESTED = dict.fromkeys(RegressionColumns.model_fields, math.nan)
"""Columns of a regression for a version that was not tested."""
NOT_MEASURED = dict.fromkeys(FairnessColumns.model_fields, math.nan)
"""Columns of fairness for a version whose clients were not evaluated."""


class Measured(NamedTuple):
    """Measurements of one version."""

    columns: dict[str, float]
    """Columns of the table of rounds."""
    losses: list[float]
    """Losses that were measured: a run diverges if one is not finite."""
    by_client: Floats | None
    """(clients, 2) loss and accuracy on each client's own data; None if not due."""
    seconds: float = 0.0
    """Wall-clock seconds that this took."""


class Evaluator:
    """Evaluates models on the data of a federation.

    With personal layers, a published model is evaluated once for each client, with the layers of that client, and means
    over clients are reported. Each client's model is tested on all test samples of its domain.
    """

    def __init__(
        self,
        learner: Learner,
        data: FederatedData,
        attack: Attack | None = None,
        personal: PersonalLayers | None = None,
    ) -> None:
        self.learner = learner if personal is None else personal.learner.whole
        self.data = data
        self.personal = personal
        self.backdoor = None if attack is None else backdoor_test_set(attack, data.test_images, data.test_labels)
        self._equal = len(set(data.sizes.tolist())) == 1

    def measure(self, evaluation: Evaluation, schedule: Schedule, version: int, model: Vector) -> Measured:
        """Make the measurements of a version, (n_parameters,), that are due by `schedule`."""
        columns, losses, by_client = dict[str, float](), list[float](), None
        # The samples of live clients are unknown here.
        if len(self.data.labels) and schedule.is_due(schedule.train_every, version):
            columns["train_loss"] = self.train_loss(model)
            losses.append(columns["train_loss"])
        if schedule.is_due(schedule.test_every, version):
            domains = self.data.domains
            if len(domains) > 1:
                columns["test_loss"], columns["test_accuracy"], shares = self.test_by_domain(model)
                columns |= by_domain(domains, shares)
            else:
                columns["test_loss"], columns["test_accuracy"] = self.test(model)
            columns |= self.regression(model) | self.own_metrics(evaluation.metrics, model)
            columns["attack_success"] = self.attack_success(model)
            losses.append(columns["test_loss"])
        if schedule.clients_every and schedule.is_due(schedule.clients_every, version):
            by_client = self.on_clients(model)
            columns |= fairness(*by_client.T)
        return Measured(columns, losses, by_client)

    def _of(self, client: int, model: Vector) -> Vector:
        return model if self.personal is None else self.personal.whole(client, model)

    def _each(self, model: Vector) -> Iterator[Vector]:
        """Yield `model`, or the model of each client."""
        clients = range(1 if self.personal is None else self.data.clients)
        return (self._of(client, model) for client in clients)

    def train_loss(self, model: Vector) -> float:
        """Compute the mean over clients of the mean loss on the client's own data (NbAFL's metric)."""
        if self._equal and self.personal is None:
            # Clients of one size: the mean of the means is the mean over all samples, in one pass.
            return self.learner.evaluate(model, self.data.images, self.data.labels)[0]
        return float(np.mean([loss for loss, _ in self._on_own_data(model)]))

    def on_clients(self, model: Vector) -> Floats:
        """Compute (clients, 2) mean loss and accuracy (NaN for a regression) on each client's own data."""
        return np.array(self._on_own_data(model), np.float64)

    def _on_own_data(self, model: Vector) -> list[tuple[float, float]]:
        clients = range(self.data.clients)
        return [self.learner.evaluate(self._of(one, model), *self.data.client(one)) for one in clients]

    def test(self, model: Vector) -> tuple[float, float]:
        """Compute mean loss and accuracy (0..1; NaN for a regression) on the test set."""
        test = self.data.test_images, self.data.test_labels
        loss, accuracy = np.mean([self.learner.evaluate(one, *test) for one in self._each(model)], axis=0)
        return float(loss), float(accuracy)

    def test_by_domain(self, model: Vector) -> tuple[float, float, list[float]]:
        """Compute mean loss and accuracy on the test set, and the accuracy in each domain (NaN without test samples).

        Domains with more test samples weigh more in the first two, not in the third; with personal layers all three are
        means over clients.
        """
        counts, nothing = np.diff(self.data.test_offsets), (math.nan, math.nan)
        if self.personal is None:
            domains = range(len(counts))
            found = [self.learner.evaluate(model, *self.data.test_of(i)) if counts[i] else nothing for i in domains]
            tested = np.flatnonzero(counts)
            loss, accuracy = np.average(np.array(found)[tested], axis=0, weights=counts[tested])
            return float(loss), float(accuracy), [share for _, share in found]
        of = self.data.client_domains
        by_client = np.array(
            [
                self.learner.evaluate(own, *self.data.test_of(int(domain))) if counts[domain] else nothing
                for own, domain in zip(self._each(model), of, strict=True)
            ]
        )
        loss, accuracy = by_client[counts[of] > 0].mean(0)
        return float(loss), float(accuracy), [float(by_client[of == one, 1].mean()) for one in range(len(counts))]

    def regression(self, model: Vector) -> dict[str, float]:
        """Return the columns of regression quality on the test set; none with classes."""
        if not is_regression(self.data.test_labels):
            return {}
        return _means([regression_quality(one, self.data.test_labels) for one in self._outputs(model)])

    def own_metrics(self, metrics: Mapping[str, Metric], model: Vector) -> dict[str, float]:
        """Return the columns of the user's own metrics on the test set."""
        if not metrics:
            return {}
        labels = self.data.test_labels
        return _means(
            [{f"{METRIC}{name}": of.value(one, labels) for name, of in metrics.items()} for one in self._outputs(model)]
        )

    def _outputs(self, model: Vector) -> Iterator[NDArray[np.float32]]:
        return (self.learner.outputs(one, self.data.test_images) for one in self._each(model))

    def attack_success(self, model: Vector) -> float:
        """Compute the share of triggered test images classified as the backdoor's class; NaN without a backdoor."""
        if self.backdoor is None:
            return math.nan
        return float(np.mean([self.learner.evaluate(one, *self.backdoor)[1] for one in self._each(model)]))


def _means(rows: list[dict[str, float]]) -> dict[str, float]:
    """Compute the mean of each number over rows that all have it."""
    return {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}


def by_domain(domains: Sequence[str], accuracies: Sequence[float]) -> dict[str, float]:
    """Return the further columns of a federation of several domains: accuracy in each, their mean, the worst.

    Empty for one domain. Mean and worst are NaN if one of the accuracies is.
    """
    if len(domains) < 2:
        return {}
    columns = {f"{BY_DOMAIN}{name}": value for name, value in zip(domains, accuracies, strict=True)}
    together = {"domains_mean": float(np.mean(accuracies)), "domains_min": float(np.min(accuracies))}
    return columns | {f"{BY_DOMAIN}{name}": value for name, value in together.items()}


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


def fairness(losses: Floats, accuracies: Floats) -> dict[str, float]:
    """Compute the fairness columns of the table of rounds from losses and accuracies (clients,) on the clients' own
    data.

    The worst decile is the worst tenth of the clients, rounded up, as in q-FFL (Li et al. 2020, arXiv:1905.10497, table
    1). If an accuracy is NaN, the columns of accuracies are NaN.
    """
    tenth = math.ceil(len(losses) / 10)
    # NaN is sorted last: without this the worst decile would leave it out.
    worst = math.nan if np.isnan(accuracies).any() else float(np.sort(accuracies)[:tenth].mean())
    found = float(accuracies.std()), worst, float(np.sort(losses)[-tenth:].mean())
    return dict(zip(FairnessColumns.model_fields, found, strict=True))
