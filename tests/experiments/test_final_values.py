import math

import numpy as np
import pandas as pd
import pytest

from asyncfl.experiments.evidence.samples import Sample
from asyncfl.experiments.intervals import Estimate, difference, finals, mean


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
