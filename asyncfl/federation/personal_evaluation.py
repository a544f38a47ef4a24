"""Evaluation with personal layers: each client's own model is evaluated, and the mean over clients reported."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np

from asyncfl.base.messages import Vector
from asyncfl.data import FederatedData
from asyncfl.federation.evaluation import Evaluator
from asyncfl.learning.metrics import Metric
from asyncfl.learning.personal_layers import PersonalLayers
from asyncfl.threats import Attack


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
