"""The samples on which a model is evaluated."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from asyncfl.federation.evaluation import Evaluator


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
