"""Budgets that follow the loss, and constant budgets that spend as much."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncfl.privacy.schemes.adaptive.formulas import (
    adjusted_budget,
    constant_budget,
    matched_k,
    missing_std,
    round_budget,
    sensitivity_of,
)

BUDGETS = st.lists(st.floats(0.1, 100), min_size=1, max_size=20)


def test_budget_after_the_loss_fell_from_2_3_to_0_5() -> None:
    assert adjusted_budget("linear", 4, 1, 2.3, 0.5) == pytest.approx(5.8)
    assert adjusted_budget("exponential", 4, 1, 2.3, 0.5) == pytest.approx(24.19859, abs=5e-6)
    assert adjusted_budget("exponential", 4, 0.1, 2.3, 0.5) == pytest.approx(4.788869, abs=5e-7)
    assert adjusted_budget("none", 4, 1, 2.3, 0.5) == 4


def test_matched_rules_meet_at_the_end_of_the_loss_span() -> None:
    k = matched_k(1, 4, 2)
    assert k == pytest.approx(0.2027326, abs=5e-8)
    assert adjusted_budget("exponential", 4, k, 1, 0) == pytest.approx(4.898979, abs=5e-7)
    assert adjusted_budget("linear", 4, 1, 1, 0) == 5
    linear = adjusted_budget("linear", 4, 1, 2, 0)
    assert adjusted_budget("exponential", 4, k, 2, 0) == pytest.approx(linear) == pytest.approx(6)


@given(st.floats(0.1, 50), st.floats(0.01, 5), st.floats(0.1, 5), st.floats(0, 1))
def test_the_matched_exponential_rule_is_below_the_linear_one_within_the_span(
    epsilon: float, k: float, span: float, way: float
) -> None:
    exponential = adjusted_budget("exponential", epsilon, matched_k(k, epsilon, span), way * span, 0)
    assert exponential <= adjusted_budget("linear", epsilon, k, way * span, 0) * (1 + 1e-9)


def test_sensitivity_readings() -> None:
    found = {reading: sensitivity_of(reading, 3.0, 32, 600) for reading in ("2M/batch", "2M", "M", "2M/n")}
    assert found == {"2M/batch": 6 / 32, "2M": 6, "M": 3, "2M/n": 0.01}


def test_server_noise_fills_up_to_the_threshold() -> None:
    unit = 1 / 4.844805214  # Delta at which c Delta is 1
    assert missing_std(unit, 9, 12, 1e-5) == pytest.approx(0.0734931, abs=5e-8)
    assert missing_std(unit, 12, 9, 1e-5) == missing_std(unit, 9, 9, 1e-5) == 0
    assert missing_std(unit, 9, math.inf, 1e-5) == pytest.approx(1 / 9)
    assert missing_std(unit, 1e-200, 9, 1e-5) == pytest.approx(1e200)
    assert round_budget([1, 1, 2, 2, 3]) == 9
    assert round_budget([1, 1, 2, 2, 3], "max") == 3


@given(BUDGETS)
def test_constant_budgets_spend_as_much_as_varying_ones(spent: list[float]) -> None:
    naive, renyi = constant_budget(spent, "naive"), constant_budget(spent, "rdp")
    assert len(spent) * naive == pytest.approx(sum(spent))
    assert len(spent) * renyi**2 == pytest.approx(np.square(spent).sum())
    assert renyi >= naive * (1 - 1e-12)
