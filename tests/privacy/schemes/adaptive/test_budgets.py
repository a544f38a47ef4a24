"""Budgets that follow the loss, and what growing ones cost."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncfl.privacy.schemes.adaptive.formulas import (
    adjusted_budget,
    client_std,
    constant_budget,
    matched_k,
    missing_std,
    round_budget,
    sensitivity_of,
)

BUDGETS = st.lists(st.floats(0.1, 100), min_size=1, max_size=20)


def test_a_loss_that_fell_from_2_3_to_half() -> None:
    assert adjusted_budget("linear", 4, 1, 2.3, 0.5) == pytest.approx(5.8)
    assert adjusted_budget("exponential", 4, 1, 2.3, 0.5) == pytest.approx(24.19859, abs=5e-6)
    assert adjusted_budget("exponential", 4, 0.1, 2.3, 0.5) == pytest.approx(4.788869, abs=5e-7)
    assert adjusted_budget("none", 4, 1, 2.3, 0.5) == 4


def test_matched_rules_meet_at_the_end_of_the_span() -> None:
    k = matched_k(1, 4, 2)
    assert k == pytest.approx(0.2027326, abs=5e-8)
    assert adjusted_budget("exponential", 4, k, 1, 0) == pytest.approx(4.898979, abs=5e-7)
    assert adjusted_budget("linear", 4, 1, 1, 0) == 5
    linear = adjusted_budget("linear", 4, 1, 2, 0)
    assert adjusted_budget("exponential", 4, k, 2, 0) == pytest.approx(linear) == pytest.approx(6)


@given(st.floats(0.1, 50), st.floats(0.01, 5), st.floats(0.1, 5), st.floats(0, 1))
def test_the_exponential_rule_lies_below_the_linear_one_up_to_there(
    epsilon: float, k: float, span: float, way: float
) -> None:
    exponential = adjusted_budget("exponential", epsilon, matched_k(k, epsilon, span), way * span, 0)
    assert exponential <= adjusted_budget("linear", epsilon, k, way * span, 0) * (1 + 1e-9)


def test_a_fall_beyond_the_floats_is_an_infinite_budget() -> None:
    assert adjusted_budget("exponential", 4, 1, 1e6, 0) == math.inf
    assert adjusted_budget("exponential", 4, 1, 0, math.inf) == 0
    assert adjusted_budget("linear", 4, 1, 0, math.inf) == -math.inf


def test_noise_of_the_five_clients_of_setting_3() -> None:
    delta = sensitivity_of("2M/batch", 1.0, 32, 1000)
    assert delta == 2 / 32
    found = [client_std(delta, epsilon, 1e-5) for epsilon in (4, 4, 8, 8, 12)]
    assert found == pytest.approx([0.0757001, 0.0757001, 0.0378500, 0.0378500, 0.0252334], abs=5e-8)
    assert client_std(delta, math.inf, 1e-5) == 0


def test_readings_of_delta() -> None:
    found = {reading: sensitivity_of(reading, 3.0, 32, 600) for reading in ("2M/batch", "2M", "M", "2M/n")}
    assert found == {"2M/batch": 6 / 32, "2M": 6, "M": 3, "2M/n": 0.01}


def test_the_server_adds_what_is_missing_to_the_threshold() -> None:
    unit = 1 / 4.844805214  # Delta at which c Delta is 1
    assert missing_std(unit, 9, 12, 1e-5) == pytest.approx(0.0734931, abs=5e-8)
    assert missing_std(unit, 12, 9, 1e-5) == missing_std(unit, 9, 9, 1e-5) == 0
    assert missing_std(unit, 9, math.inf, 1e-5) == pytest.approx(1 / 9)
    assert missing_std(unit, 1e-200, 9, 1e-5) == pytest.approx(1e200)
    assert round_budget([1, 1, 2, 2, 3]) == 9
    assert round_budget([1, 1, 2, 2, 3], "max") == 3


def test_constant_budgets_of_what_is_beyond_the_floats() -> None:
    spent = [4.0, 1e200, 3e200]
    assert constant_budget(spent, "rdp") == pytest.approx(math.sqrt(10 / 3) * 1e200)
    assert constant_budget(spent, "naive") == pytest.approx(4e200 / 3)
    assert constant_budget([1.5e308] * 3, "naive") == constant_budget([1.5e308] * 3, "rdp") == pytest.approx(1.5e308)
    for measure in ("naive", "rdp"):
        assert constant_budget([4.0, math.inf], measure) == math.inf


@given(BUDGETS)
def test_constant_budgets_spend_what_varying_ones_did(spent: list[float]) -> None:
    naive, renyi = constant_budget(spent, "naive"), constant_budget(spent, "rdp")
    assert len(spent) * naive == pytest.approx(sum(spent))
    assert len(spent) * renyi**2 == pytest.approx(np.square(spent).sum())
    assert renyi >= naive * (1 - 1e-12)
