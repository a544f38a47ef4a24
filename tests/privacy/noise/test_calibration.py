"""Noise for a number of releases within one budget."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncfl.privacy.accounting.composition import advanced_share
from asyncfl.privacy.accounting.gaussian import analytic_multiplier, exact_epsilon
from asyncfl.privacy.noise.calibration import gaussian_multiplier, laplace_multiplier, share


def test_one_gaussian_release_classical_and_analytic():
    assert gaussian_multiplier(1, 1e-5, 1, "classical", "naive_delta_split") == pytest.approx(4.844805, abs=5e-7)
    assert gaussian_multiplier(1, 1e-5, 1, "analytic", "naive_delta_split") == pytest.approx(3.730632, abs=5e-7)
    assert gaussian_multiplier(6, 0.01, 1, "analytic", "naive_delta_split") == pytest.approx(0.499875, abs=5e-7)
    assert gaussian_multiplier(60, 0.01, 1, "analytic", "analytic") == pytest.approx(0.111716, abs=5e-7)


def test_one_laplace_release():
    assert laplace_multiplier(0.5, 0.0, 1, "naive_delta_split") == 2
    assert laplace_multiplier(10, 0.0, 100, "naive_delta_split") == pytest.approx(10)


def test_advanced_composition_inverted():
    # 100 Laplace releases of scale 10 are worth 5.850 by advanced composition at delta 1e-5.
    assert laplace_multiplier(5.8502, 1e-5, 100, "advanced") == pytest.approx(10, rel=1e-4)
    epsilon_0 = advanced_share(5.0, 1e-5, 50)
    assert math.sqrt(100 * math.log(1e5)) * epsilon_0 + 50 * epsilon_0 * math.expm1(epsilon_0) == pytest.approx(5)


def test_laplace_by_exact_and_renyi_accounting():
    # 100 releases of scale 10: PLD 4.22035, RDP 4.53269.
    assert laplace_multiplier(4.22035, 1e-5, 100, "analytic") == pytest.approx(10, rel=2e-4)
    assert laplace_multiplier(4.53269, 1e-5, 100, "rdp") == pytest.approx(10, rel=2e-4)


def test_an_even_split_shares_both_numbers_and_pure_noise_needs_no_delta():
    assert share(6, 1e-5, 3, "naive_delta_split", pure=False) == (2, pytest.approx(1e-5 / 3))
    assert share(6, 1e-5, 3, "naive_delta_split", pure=True) == (2, 0)
    assert share(6, 1e-5, 3, "advanced", pure=False)[1] == pytest.approx(1e-5 / 6)
    assert share(6, 1e-5, 3, "advanced", pure=True)[1] == 0


@pytest.mark.parametrize("composition", ["naive_delta_split", "advanced", "analytic", "rdp"])
def test_no_noise_at_infinite_epsilon(composition):
    assert gaussian_multiplier(math.inf, 1e-5, 5, "analytic", composition) == 0
    assert laplace_multiplier(math.inf, 1e-5, 5, composition) == 0


@given(st.floats(0.1, 20), st.integers(1, 60), st.sampled_from(["naive_delta_split", "advanced", "analytic", "rdp"]))
def test_gaussian_releases_stay_within_the_budget_and_the_exact_rule_needs_least(epsilon, releases, composition):
    z = gaussian_multiplier(epsilon, 1e-5, releases, "analytic", composition)
    assert exact_epsilon(releases / z**2, 1e-5) <= epsilon * (1 + 1e-6)
    assert z >= math.sqrt(releases) * analytic_multiplier(epsilon, 1e-5) * (1 - 1e-9)
