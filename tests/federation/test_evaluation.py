"""The samples on which a model is evaluated."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from asyncfl.base.streams import Streams
from asyncfl.federation.evaluation import Evaluator, fairness
from asyncfl.learning import make_learner
from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_seed


@pytest.mark.parametrize(
    ("sizes", "loss", "calls"), [((2, 2), 4.5, 1), ((1, 3), (1 + 17 / 3) / 2, 2), ((1, 1, 2), 13 / 3, 3)]
)
def test_every_client_counts_the_same_however_many_samples_it_has(
    sizes: tuple[int, ...], loss: float, calls: int
) -> None:
    """The loss of a sample is its label: 1, 4, 6, 7 and of three clients 1, 4, 8, 8."""
    labels = np.array([1, 4, 6, 7] if len(sizes) == 2 else [1, 4, 8, 8])
    ends = np.cumsum(sizes)
    asked: list[int] = []

    def evaluate(model: Any, images: Any, labels: Any) -> tuple[float, float]:
        asked.append(len(labels))
        return float(np.mean(labels)), 0.0

    data: Any = SimpleNamespace(
        images=labels,
        labels=labels,
        sizes=np.array(sizes),
        clients=len(sizes),
        client=lambda number: (labels[ends[number] - sizes[number] : ends[number]],) * 2,
    )
    learner: Any = SimpleNamespace(evaluate=evaluate)
    assert Evaluator(learner, data).train_loss(np.zeros(1, np.float32)) == pytest.approx(loss)
    assert len(asked) == calls


def test_the_worst_decile_is_the_tenth_that_fares_worst() -> None:
    accuracies, losses = np.linspace(0.05, 1.0, 20), np.linspace(2.0, 0.1, 20)
    found = fairness(losses, accuracies)
    assert found["client_accuracy_worst_decile"] == pytest.approx(0.075)
    assert found["client_loss_worst_decile"] == pytest.approx(1.95)
    assert found["client_accuracy_std"] == pytest.approx(0.05 * math.sqrt((400 - 1) / 12))


def test_accuracies_that_are_not_known_give_none() -> None:
    found = fairness(np.array([1.0, 3.0]), np.array([math.nan, 0.2]))
    assert math.isnan(found["client_accuracy_worst_decile"])
    assert found["client_loss_worst_decile"] == 3.0


def test_the_columns_are_those_of_the_clients_own_data(scenario: Scenario) -> None:
    asked = scenario.override({"evaluation.clients_every": 2})
    rows = simulate_seed(asked, 0).rounds
    assert [math.isnan(row["client_loss_worst_decile"]) for row in rows] == [False, True, False, False]
    data = asked.data.build(Streams(0))
    learner = make_learner(asked.model, asked.training, data.shape, data.classes)
    start = asked.model.initial_parameters(data.shape, data.classes, Streams(0).torch_generator("initial_model"))
    losses = [learner.evaluate(start, *data.client(client))[0] for client in range(5)]
    assert rows[0]["client_loss_worst_decile"] == pytest.approx(max(losses))
    assert rows[0]["client_loss_worst_decile"] >= rows[0]["train_loss"]
    assert max(Evaluator(learner, data).on_clients(start)[:, 0]) == rows[0]["client_loss_worst_decile"]
    assert "client_loss_worst_decile" not in simulate_seed(scenario, 0).rounds[0]
