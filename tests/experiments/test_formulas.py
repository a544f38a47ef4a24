"""Formulas that sentences are judged on: values by hand, and the program's own mechanisms as truth."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from asyncfl.experiments.bounds import Bound, first_fault
from asyncfl.experiments.formulas import (
    FORMULAS,
    adjustment_operations,
    aggregate_change,
    delta_of_release,
    formula_value,
    noise_operations_share,
    own_layer_probability,
)
from asyncfl.privacy.schemes.adaptive_budgets import swapped_order


def test_laplace_noise_keeps_its_budget_with_delta_zero_and_gaussian_noise_does_not():
    assert delta_of_release("laplace", 6.0) == 0.0
    assert delta_of_release("gaussian", 6.0) == pytest.approx(1e-5, rel=1e-6)
    z = math.sqrt(2 * math.log(1.25 / 0.01))  # the classical constant, epsilon = 1
    truth = norm.cdf(0.5 / z - z) - math.e * norm.cdf(-0.5 / z - z)
    assert delta_of_release("gaussian", 1.0, 0.01, "classical") == pytest.approx(truth, rel=1e-9)


def test_operations_by_hand():
    assert (adjustment_operations("linear"), adjustment_operations("exponential", 20)) == (3, 23)
    # 5 epochs of 100 samples, 4 operations each, and 5 steps of 2: 2,050; clipping 3, noise 1 and a draw of 50: 54
    assert noise_operations_share(100, 5, batch_size=20) == pytest.approx(54 / 2050)


@pytest.mark.parametrize("swaps", [0, 1, 2, 5])
def test_the_shuffler_leaves_a_layer_with_its_client_as_often_as_the_formula_says(swaps: int):
    random = np.random.default_rng(3)
    own = np.mean([swapped_order(5, swaps, random) == np.arange(5) for _ in range(4000)])
    assert own == pytest.approx(own_layer_probability(5, swaps), abs=0.015)


def test_a_sample_moves_the_aggregate_by_less_than_equation_7_says():
    assert aggregate_change(10, 0) == pytest.approx(0.1)  # |D_i|/M of 10 equal clients
    # fresh client 2 of two, of 100 and 200 samples: 2/300; equation 7: the stale client 1 has s 2/100, s = 1/2 -> 1/100
    assert aggregate_change(2, 3, "uneven") == pytest.approx((2 / 300) / (1 / 100))
    # a stale client alone sets the printed maximum no lower than a fresh one of as many samples
    assert aggregate_change(2, 3) == pytest.approx(0.5)
    for buffer, staleness, sizes in ((2, 0, "uneven"), (7, 2, "equal"), (20, 20, "uneven")):
        assert 0 < aggregate_change(buffer, staleness, sizes) <= 1


@pytest.mark.parametrize(
    ("settings", "axes", "message"),
    [
        ({}, {"swaps": (1,)}, "own_layer_probability needs clients"),
        ({"clients": 5}, {"swap": (1,)}, "there is no argument swap; did you mean swaps"),
    ],
)
def test_what_is_wrong_with_a_formula_is_said(settings: dict, axes: dict, message: str):
    found = first_fault(Bound(formula="own_layer_probability", settings=settings), axes)
    assert found is not None
    assert message in found


def test_words_and_names_that_are_not_known():
    wrong = Bound(formula="adjustment_operations")
    assert "got cubic" in (first_fault(wrong, {"adjustment": ("cubic",)}) or "")
    assert "there is no formula own_layer" in (first_fault(Bound(formula="own_layer"), {"swaps": (1,)}) or "")
    for both in ({}, {"theorem": 2, "formula": "own_layer_probability"}):
        with pytest.raises(ValueError, match="theorem"):
            Bound(**both)
    assert all(isinstance(name, str) for name in FORMULAS)
    assert formula_value("own_layer_probability", {"clients": 5, "swaps": 0}) == 1.0
