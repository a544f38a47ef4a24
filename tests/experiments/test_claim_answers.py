"""Answers of claims where a value lies just at its margin, and the words of their numbers."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from pydantic import TypeAdapter

from asyncfl.experiments.claims import AtLeast, Claim, Order
from asyncfl.experiments.claims.base import PointVerdict
from asyncfl.experiments.evidence.p_values import Sample
from asyncfl.experiments.grid import Grid, bound_grid

YES, NO, OPEN = "holds", "does not hold", "not decided"
PAIR = {"along": "x", "at": "a", "than": "b"}


def formula(**values: float) -> Grid:
    """A bound over the axis `x`: exact values."""
    return bound_grid({"x": tuple(values)}, pd.DataFrame({"x": list(values), "bound": list(values.values())}))


def judged(claim: dict[str, Any], on: Grid) -> PointVerdict:
    (found,) = TypeAdapter(Claim).validate_python({"says": "so", "value": "final bound", **claim}).judge(on)
    return found


@pytest.mark.parametrize(
    ("claim", "a", "answer"),
    [
        ({"check": "alike", "margin": 0.5}, 3.5, YES),
        ({"check": "alike", "margin": 0.5}, 4.5, YES),
        ({"check": "alike", "margin": 0.5}, 3.25, NO),
        ({"check": "alike", "margin": 0.5}, 4.75, NO),
        ({"check": "no_worse", "margin": 0.5}, 4.5, YES),
        ({"check": "no_worse", "margin": 0.5}, 4.75, NO),
        ({"check": "no_worse"}, 4.0, YES),
        ({"check": "no_worse"}, 4.25, NO),
        ({"check": "times", "factor": 4}, 1.0, YES),
        ({"check": "times", "factor": 4}, 1.25, NO),
        ({"check": "times", "factor": 1}, 4.0, NO),
        ({"check": "times", "factor": 1}, 3.75, YES),
    ],
)
def test_values_at_the_margin_are_within_it(claim: dict[str, Any], a: float, answer: str) -> None:
    assert judged({**PAIR, **claim}, formula(a=a, b=4.0)).answer == answer


@pytest.mark.parametrize(
    ("values", "answer"),
    [((4, 4, 2), YES), ((4, 4.5, 2), YES), ((4, 4.75, 2), NO), ((4, 4.5, 4), NO), ((4, 3, 4.5), NO)],
)
def test_neighbours_that_tie(values: tuple[float, ...], answer: str) -> None:
    claim = {"check": "order", "along": "x", "strict": False, "margin": 0.5}
    assert judged(claim, formula(**dict(zip("abc", values, strict=True)))).answer == answer


def ends(*losses: float) -> Grid:
    """Seeds of one cell with these final losses; one that diverged is infinitely bad."""
    frame = pd.DataFrame({"x": 1, "seed": range(len(losses)), "round": 1, "train_loss": losses, "diverged": False})
    frame["diverged"] = np.isinf(frame["train_loss"])
    return Grid({"x": (1,)}, frame, frame)


@pytest.mark.parametrize("seeds", [2, 7])
@pytest.mark.parametrize(
    ("claim", "answer"),
    [
        ({"check": "at_least", "threshold": 1.0}, OPEN),
        ({"check": "at_least", "threshold": 0.75}, NO),
        ({"check": "near", "target": 0.5, "tolerance": 0.5}, OPEN),
        ({"check": "near", "target": 0.5, "tolerance": 0.25}, NO),
    ],
)
def test_a_diverged_seed_gives_a_one_sided_interval(claim: dict[str, Any], answer: str, seeds: int) -> None:
    found = judged({"value": "final train_loss", **claim}, ends(*[1.0] * (seeds - 1), np.inf))
    assert (found.measured, found.decision.by.reading.seeds) == ("final train_loss diverged", seeds)
    assert found.answer == (answer if seeds == 7 else OPEN)
    assert found.reason.endswith("got [1, ∞]" if seeds == 7 else "got [−∞, ∞]")


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
