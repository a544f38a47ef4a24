"""What a claim answers where an interval ends just at its margin, and how each kind words its numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pydantic import TypeAdapter

from asyncfl.analysis.claims import Alike, Claim, NoWorse, Order, PointVerdict, Times
from asyncfl.analysis.claims.base import answer_of
from asyncfl.analysis.grid import Grid, bound_grid
from asyncfl.analysis.statistics import Interval, convention, t_interval

INF = math.inf
YES, NO, OPEN = "holds", "does not hold", "not decided"
PAIR = {"says": "so", "along": "x", "at": 1, "than": 2}


def between(low: float, high: float) -> Interval:
    return Interval((low + high) / 2, low, high, 3)


@pytest.mark.parametrize(
    ("claim", "low", "high", "answer"),
    [
        (Alike(**PAIR, margin=0.5), -0.5, 0.5, YES),
        (Alike(**PAIR, margin=0.5), -0.5, 0.75, OPEN),
        (Alike(**PAIR, margin=0.5), -0.75, 0.5, OPEN),
        (Alike(**PAIR, margin=0.5), 0.5, 1.0, OPEN),
        (Alike(**PAIR, margin=0.5), 0.75, 1.0, NO),
        (Alike(**PAIR, margin=0.5), -1.0, -0.5, OPEN),
        (Alike(**PAIR, margin=0.5), -1.0, -0.75, NO),
        (NoWorse(**PAIR, margin=0.5), -0.5, 3.0, YES),
        (NoWorse(**PAIR, margin=0.5), -0.75, -0.5, OPEN),
        (NoWorse(**PAIR, margin=0.5), -1.0, -0.75, NO),
        (NoWorse(**PAIR), 0.0, 1.0, YES),
        (NoWorse(**PAIR), -1.0, -0.25, NO),
        (Times(**PAIR, factor=4), math.log(4), 9.0, YES),
        (Times(**PAIR, factor=4), 0.5, math.log(4), OPEN),
        (Times(**PAIR, factor=4), 0.5, 1.0, NO),
        (Times(**PAIR, factor=1), 0.0, 1.0, OPEN),
        (Times(**PAIR, factor=1), -1.0, 0.0, NO),
        (Times(**PAIR, factor=1), 0.25, 1.0, YES),
    ],
)
def test_an_interval_that_ends_at_the_margin(claim: Any, low: float, high: float, answer: str) -> None:
    assert claim.answer(between(low, high)) == answer


@pytest.mark.parametrize(
    ("intervals", "answer"),
    [
        ([(0.25, 1.0), (0.5, 2.0)], YES),
        ([(0.25, 1.0), (0.0, 2.0)], OPEN),
        ([(0.25, 1.0), (-1.0, 0.0)], NO),
        ([(0.25, 1.0), (-1.0, 0.25)], OPEN),
    ],
)
def test_every_comparison_must_lie_above_0(intervals: list[tuple[float, float]], answer: str) -> None:
    assert answer_of([between(*one) for one in intervals]) == answer


@pytest.mark.parametrize(
    ("far", "near", "answer"),
    [
        ((0.25, 1.0), (-1.0, 1.0), YES),
        ((0.25, 1.0), (-1.0, 0.0), YES),
        ((0.25, 1.0), (-1.0, -0.25), NO),
        ((0.0, 1.0), (0.25, 1.0), OPEN),
        ((-1.0, 0.0), (0.25, 1.0), NO),
    ],
)
def test_neighbours_that_tie(far: tuple[float, float], near: tuple[float, float], answer: str) -> None:
    assert Order._answer_with_ties(between(*far), [between(*near)]) == answer


def formula(**values: float) -> Grid:
    """A bound over the axis `x`: exact values."""
    return bound_grid({"x": tuple(values)}, pd.DataFrame({"x": list(values), "bound": list(values.values())}))


def judged(claim: dict[str, Any], on: Grid) -> PointVerdict:
    (found,) = TypeAdapter(Claim).validate_python({"says": "so", "value": "final bound", **claim}).judge(on)
    return found


@pytest.mark.parametrize(
    ("claim", "answer", "measured", "reason"),
    [
        (
            {"check": "order", "along": "x"},
            YES,
            "x a: 4, b: 2, c: 1",
            "least clear step: from b to c it falls by 1",
        ),
        (
            {"check": "order", "along": "x", "direction": "rises"},
            NO,
            "x a: 4, b: 2, c: 1",
            "least clear step: from a to b it rises by -2",
        ),
        (
            {"check": "best_at", "along": "x", "at": "c"},
            YES,
            "x a: 4, b: 2, c: 1",
            "c is better than b by 1",
        ),
        (
            {"check": "best_at", "along": "x", "at": "b"},
            NO,
            "x a: 4, b: 2, c: 1",
            "b is better than c by -1",
        ),
        (
            {"check": "interior_best", "along": "x", "goal": "high"},
            NO,
            "x a: 4, b: 2, c: 1",
            "best inside is b; better than the end a by -2",
        ),
        (
            {"check": "alike", "along": "x", "at": "a", "than": "b", "margin": 0.5},
            NO,
            "x a: 4, b: 2",
            "a is better than b by -2, alike within 0.5",
        ),
        (
            {"check": "no_worse", "along": "x", "at": "a", "than": "b", "margin": 2},
            YES,
            "x a: 4, b: 2",
            "a is better than b by -2, margin 2",
        ),
        (
            {"check": "times", "along": "x", "at": "c", "than": "a", "factor": 4},
            YES,
            "x c: 1, a: 4",
            "c is better than a by a factor in [4, 4], wanted 4",
        ),
        (
            {"check": "at_least", "threshold": 4, "where": {"x": "a"}},
            YES,
            "final bound 4",
            "wanted at most 4, got 4",
        ),
        (
            {"check": "at_least", "threshold": 4, "goal": "high", "where": {"x": "a"}},
            YES,
            "final bound 4",
            "wanted at least 4, got 4",
        ),
        (
            {"check": "near", "target": 3, "tolerance": 1, "where": {"x": "a"}},
            YES,
            "final bound 4",
            "wanted 3 ± 1, got 4",
        ),
        (
            {"check": "near", "target": 3, "tolerance": 1, "where": {"x": "b"}},
            YES,
            "final bound 2",
            "wanted 3 ± 1, got 2",
        ),
        (
            {"check": "near", "target": 3, "tolerance": 0.5, "where": {"x": "a"}},
            NO,
            "final bound 4",
            "wanted 3 ± 0.5, got 4",
        ),
    ],
)
def test_each_kind_says_what_it_measured_and_what_decided(
    claim: dict[str, Any], answer: str, measured: str, reason: str
) -> None:
    found = judged(claim, formula(a=4.0, b=2.0, c=1.0))
    assert (found.answer, found.measured, found.reason, found.seeds) == (answer, measured, reason, 1)


def ends(*losses: float) -> Grid:
    """Seeds of one cell with these final losses; one that diverged is infinitely bad."""
    frame = pd.DataFrame({"x": 1, "seed": range(len(losses)), "round": 1, "train_loss": losses, "diverged": False})
    frame["diverged"] = np.isinf(frame["train_loss"])
    return Grid({"x": (1,)}, frame, frame)


@pytest.mark.parametrize(
    ("claim", "answer"),
    [
        ({"check": "at_least", "threshold": 1.0}, OPEN),
        ({"check": "at_least", "threshold": 0.75}, NO),
        ({"check": "near", "target": 0.5, "tolerance": 0.5}, OPEN),
        ({"check": "near", "target": 0.5, "tolerance": 0.25}, NO),
    ],
)
def test_of_a_diverged_seed_only_the_least_is_known(claim: dict[str, Any], answer: str) -> None:
    found = judged({"value": "final train_loss", **claim}, ends(1.0, INF))
    assert (found.answer, found.measured, found.seeds) == (answer, "final train_loss diverged", 2)
    assert found.reason.endswith("got [1, ∞]")


def test_zero_belongs_to_neither_side() -> None:
    assert not between(0.0, 1.0).above_zero
    assert not between(-1.0, 0.0).below_zero
    assert between(-1.0, -0.25).below_zero
    assert t_interval([INF]) == Interval(INF, -INF, INF, 1)
    assert t_interval([-INF, -1.0]) == Interval(-INF, -INF, -1.0, 2)


def test_what_numbers_over_seeds_mean() -> None:
    assert convention(1) == "value of n = 1 seed, which tells no interval (–)"
    assert convention(2).endswith("n = 2 seeds; with two that is 12.7 times half their difference")
    assert convention(3) == "mean ± half of the 95 % t interval over n = 3 seeds"
