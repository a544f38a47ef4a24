"""What claims say of numbers, and what they ask of comparisons."""

from typing import Any

import numpy as np
import pytest

from asyncfl.experiments.claims import AtLeast, Order
from asyncfl.experiments.evidence.samples import Sample


def sample(*values: float) -> Sample:
    return Sample(np.arange(len(values)), np.array(values, dtype=np.float64))


def order(value: str = "final train_loss", **of: Any) -> Order:
    return Order.model_validate({"check": "order", "along": "K", "says": "it falls", "value": value, **of})


def at_least(value: str = "final train_loss", **of: Any) -> AtLeast:
    return AtLeast.model_validate({"check": "at_least", "threshold": 0.5, "says": "enough", "value": value, **of})


def test_long_axes_list_only_the_ends_and_the_extremes() -> None:
    few = {point: sample(float(point)) for point in range(8)}
    assert order().listing(few) == "K 0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 6, 7: 7"
    many = {point: sample(float((point - 3) ** 2 - (20 if point == 6 else 0))) for point in range(9)}
    assert order().listing(many) == "K 0: 9, 6: -11, 8: 25 (ends, lowest and highest of 9)"
    peak = {point: sample(-float((point - 3) ** 2)) for point in range(9)}
    assert order().listing(peak) == "K 0: -9, 3: 0, 8: -25 (ends, lowest and highest of 9)"


@pytest.mark.parametrize(
    ("value", "goal", "low_is_good"),
    [
        ("final train_loss", None, True),
        ("final test_accuracy", None, False),
        ("final honest_flagged_share", None, False),
        ("mean precision", None, False),
        ("lowest recall", None, False),
        ("highest test_r2", None, False),
        ("final test_accuracy", "low", True),
        ("final train_loss", "high", False),
    ],
)
def test_the_goal_follows_from_the_column_unless_it_is_given(value: str, goal: Any, low_is_good: bool) -> None:
    assert order(value, goal=goal).low_is_good is low_is_good
