"""Means over seeds with their intervals."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from asyncfl.experiments.evidence.p_values import Sample
from asyncfl.experiments.intervals import Estimate, difference, finals, mean, over_seeds


def ends(**columns):
    """Ends of one cell, a seed for each value."""
    seeds = len(next(iter(columns.values())))
    return pd.DataFrame({"seed": range(seeds), "diverged": False, **columns})


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1.0, np.nan, 3.0], (2.0, -10.7062, 14.7062, 2)),  # t(1, .975) = 12.7062
        ([5, 5, 5], (5.0, 5.0, 5.0, 3)),
        ([4.0, np.nan], (4.0, np.nan, np.nan, 1)),
        ([2.0, np.inf], (np.inf, np.nan, np.nan, 2)),
        ([-np.inf, np.inf, 1.0], (np.nan, np.nan, np.nan, 3)),
    ],
    ids=["not all evaluated", "whole numbers", "one seed", "a target not reached", "both infinities"],
)
def test_mean_interval_and_number(values, expected):
    (row,) = over_seeds(ends(x=values), [], by_round=False).itertuples(index=False)
    assert row[0] == "x"
    np.testing.assert_allclose(row[1:5], expected, rtol=1e-4)


def test_an_interval_of_a_share_is_as_wide_below_its_mean_as_above_it():
    found = over_seeds(ends(test_accuracy=[0.99, 1.0, 0.95]), [], by_round=False).iloc[0]
    assert found["high"] > 1, "figures end it at 1; tables print half of it"
    assert found["high"] - found["mean"] == pytest.approx(found["mean"] - found["low"])


def test_groups_stay_in_the_order_of_the_rows_and_agree_with_each_by_itself():
    rng = np.random.default_rng(0)
    cells = pd.MultiIndex.from_product([["b", "a"], [0, 1, 2], range(9)], names=["axis", "round", "seed"])
    frame = cells.to_frame(index=False).assign(x=rng.normal(size=54), y=rng.integers(0, 9, 54))
    frame["diverged"] = rng.random(54) < 0.1
    frame.loc[rng.random(54) < 0.2, "x"] = np.nan
    found = over_seeds(frame, ["axis"], by_round=True)
    assert list(zip(found["axis"], found["round"], found["metric"], strict=True)) == [
        (axis, at, metric) for axis in "ba" for at in range(3) for metric in "xy"
    ]
    for row in found.itertuples():
        group = frame[(frame["axis"] == row.axis) & (frame["round"] == row.round)]
        sound = group.loc[~group["diverged"], row.metric]
        known = sound.dropna()
        low, high = stats.t.interval(0.95, len(known) - 1, known.mean(), stats.sem(known))
        assert (row.mean, row.seeds) == (pytest.approx(known.mean()), len(known))
        assert (row.low, row.high) == (pytest.approx(low), pytest.approx(high))
        assert row.diverged == group["diverged"].sum()


def sample(**values: float) -> Sample:
    return Sample(np.array([int(seed[1:]) for seed in values]), np.array(list(values.values())))


def test_a_mean_has_the_interval_of_student() -> None:
    """Of 1, 2, 3: mean 2, deviation 1, t of two degrees of freedom 4.3027, over sqrt 3."""
    found = mean(sample(s0=1.0, s1=2.0, s2=3.0))
    assert (found.mean, found.half, found.seeds) == (2.0, pytest.approx(4.302653 / math.sqrt(3)), 3)
    assert str(found) == "2 ± 2.5"
    assert str(mean(sample(s0=0.5))) == "0.5"
    assert str(Estimate.of(np.empty(0))) == "—"


def test_differences_are_those_of_seeds_that_both_have() -> None:
    a, b = sample(s0=1.0, s1=5.0, s3=7.0), sample(s1=6.0, s2=9.0, s3=8.0)
    found = difference(a, b)
    assert (found.mean, found.half, found.seeds) == (1.0, 0.0, 2)


def test_last_values_are_those_of_sound_seeds_at_their_newest_evaluation() -> None:
    rounds = pd.DataFrame(
        {
            "seed": [0, 0, 1, 1, 2],
            "version": [1, 2, 1, 2, 1],
            "test_accuracy": [0.5, math.nan, 0.1, 0.7, 0.9],
            "epsilon_exact_max": [math.inf] * 5,
            "metric_gap": [1.0, 2.0, 3.0, 4.0, 5.0],
            "sigma_u": [1.0] * 5,
            "diverged": [False, False, False, False, True],
        }
    )
    found = finals(rounds)
    assert {name: one.values.tolist() for name, one in found.items()} == {
        "test_accuracy": [0.5, 0.7],
        "metric_gap": [2.0, 4.0],
    }
    assert found["test_accuracy"].seeds.tolist() == [0, 1]


def test_an_epsilon_is_shown_where_some_seed_has_spent_one() -> None:
    rounds = pd.DataFrame({"seed": [0, 1], "version": [1, 1], "diverged": [False, False]})
    for epsilons, shown in (([0.0, 0.0], False), ([0.0, math.inf], False), ([0.0, 2.5], True), ([math.inf, 1.0], True)):
        assert ("epsilon_exact_max" in finals(rounds.assign(epsilon_exact_max=epsilons))) == shown
    assert finals(rounds.assign(test_accuracy=0.0))["test_accuracy"].values.tolist() == [0.0, 0.0]
