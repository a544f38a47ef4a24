"""NbAFL's noise: the numbers of equations 5 and 7, and the laws that they obey."""

import math

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from asyncfl.privacy.noise.server_noise import (
    amplification_discount,
    model_sensitivity,
    model_std,
    nbafl_noise,
    paper_discount,
    server_std,
    upload_sensitivity,
)

DEFAULTS = {
    "clients": 50,
    "participants": 50,
    "rounds": 25,
    "exposures": 1,
    "samples": 100,
    "clip_norm": 20.0,
    "epsilon": 60.0,
    "delta": 0.01,
    "constant": 1.25,
}


def noise(**changes):
    return nbafl_noise(**(DEFAULTS | changes))


@pytest.mark.parametrize(
    ("epsilon", "sigma_u", "sigma_a", "sigma_d"),
    [
        (50, 0.03107511, 0.01553756, 0.01490310),
        (60, 0.02589593, 0.01294796, 0.01241925),
        (100, 0.01553756, 0.00776878, 0.00745155),
    ],
)
def test_full_participation(epsilon, sigma_u, sigma_a, sigma_d):
    found = noise(epsilon=epsilon)
    assert (found.sigma_u, found.sigma_a, found.sigma_d) == pytest.approx((sigma_u, sigma_a, sigma_d), abs=5e-9)
    assert found.b == 1


def test_more_exposures_make_the_clients_noise_enough():
    assert noise(exposures=3).sigma_d == pytest.approx(0.00685142, abs=5e-9)
    found = noise(exposures=4)
    assert found.sigma_d == 0
    assert found.server_rule == "paper: none, T <= epsilon/gamma (25 <= 28.2843)"


@pytest.mark.parametrize(
    ("clients", "sigma_d"), [(50, 0.01490310), (60, 0.01231078), (80, 0.00906820), (100, 0.00712020)]
)
def test_figure_6(clients, sigma_d):
    found = noise(clients=clients, participants=clients, constant=1.5)
    assert found.sigma_d == pytest.approx(sigma_d, abs=5e-9)


@pytest.mark.parametrize(
    ("epsilon", "sigma_u", "sigma_d"),
    [(6, 0.04046239, 0.01940508), (8, 0.03034679, 0.01455381), (10, 0.02427743, 0.01164305)],
)
def test_figure_3(epsilon, sigma_u, sigma_d):
    found = noise(epsilon=epsilon, samples=512, constant=1.0)
    assert (found.sigma_u, found.sigma_d) == pytest.approx((sigma_u, sigma_d), abs=5e-9)


ROWS = [(20, 2, 50, 25), (20, 1, 6, 25), (20, 2, 6, 30), (45, 1, 50, 25)]


def of_row(row, **changes):
    K, L, epsilon, T = row
    return noise(participants=K, exposures=L, epsilon=epsilon, rounds=T, **changes)


@pytest.mark.parametrize(
    ("row", "gamma", "limit", "b", "sigma_d"),
    [
        (ROWS[0], 0.50833912, 98.359536, None, 0),
        (ROWS[1], 0.35017248, 17.134413, 3.17644984, 0.08385598),
        (ROWS[2], 0.21751495, 27.584311, 3.01811506, 0.05614578),
        (ROWS[3], 2.297384, 21.763882, 1.618756, 0.009606),
    ],
)
def test_partial_participation_as_printed(row, gamma, limit, b, sigma_d):
    found = of_row(row)
    assert found.gamma == pytest.approx(gamma, abs=5e-7)
    assert row[2] / found.gamma == pytest.approx(limit, abs=5e-7)
    assert found.b == (None if b is None else pytest.approx(b, abs=5e-7))
    assert found.sigma_d == pytest.approx(sigma_d, abs=5e-7)
    assert (found.sigma_a is None) == (b is None)


@pytest.mark.parametrize(
    ("row", "b", "sigma_d"),
    [
        (ROWS[0], 1.415801, 0.02365587),
        (ROWS[1], 2.156983, 0.13844894),
        (ROWS[2], 2.202574, 0.13300275),
        (ROWS[3], 1.045867, 0.01584349),
    ],
)
def test_partial_participation_with_amplification(row, b, sigma_d):
    found = of_row(row, b_rule="amplification")
    assert found.b == pytest.approx(b, abs=5e-7)
    assert found.sigma_d == pytest.approx(sigma_d, abs=5e-9)


def test_partial_participation_without_discount():
    found = of_row(ROWS[0], b_rule="none")
    assert (found.b, found.sigma_d) == (1, pytest.approx(0.03627279, abs=5e-9))


def test_everyone_taking_part_switches_at_l_sqrt_n():
    found = noise()
    assert DEFAULTS["epsilon"] / found.gamma == pytest.approx(7.0710678, abs=5e-8)
    assert noise(rounds=7).sigma_d == 0
    assert noise(rounds=8).sigma_d > 0


def test_on_the_threshold_nothing_is_added():
    found = [noise(clients=49, participants=49, rounds=7, b_rule=rule) for rule in ("paper", "amplification", "none")]
    assert [each.sigma_d for each in found] == [0, 0, 0]


def test_infinite_epsilon_adds_nothing():
    found = noise(epsilon=math.inf)
    assert (found.sigma_u, found.sigma_a, found.sigma_d) == (0, 0, 0)


def test_without_exposure_the_server_adds_all():
    found = noise(exposures=0)
    assert found.sigma_u == 0
    assert found.sigma_d == pytest.approx(found.sigma_a)
    partial = noise(exposures=0, participants=20, epsilon=6.0)
    assert partial.sigma_d == pytest.approx(partial.sigma_a)


@pytest.mark.parametrize("b_rule", ["paper", "amplification", "none"])
def test_huge_and_tiny_budgets_stay_finite(b_rule):
    for epsilon in (1e-6, 1e6):
        for participants in (1, 49, 50):
            found = noise(epsilon=epsilon, participants=participants, b_rule=b_rule)
            assert math.isfinite(found.sigma_d)
            assert math.isfinite(found.sigma_u)


def test_discounts_of_a_vanishing_budget_are_their_limit():
    # Where e^x is 1 + x, drawing a share of the clients divides a budget by it.
    for epsilon in (1e-6, 1e-20, 1e-100):
        assert paper_discount(epsilon, 25, 0.4) == pytest.approx(2.5, rel=1e-6)
        assert amplification_discount(epsilon, 25, 0.4) == pytest.approx(2.5, rel=1e-6)


def test_what_is_missing_to_noise_whose_square_is_no_float():
    assert server_std(5e200, 3e200, 1) == pytest.approx(4e200)
    assert server_std(5e200, 1.0, 1) == 5e200
    assert server_std(1.0, 5e200, 10) == 0


def test_readings_of_the_sensitivity():
    assert upload_sensitivity(20.0, 100) == 0.4
    assert upload_sensitivity(20.0, 100, "2C") == 40
    assert upload_sensitivity(20.0, 100, "2C/N") == 0.4
    assert model_sensitivity(20.0, 100, 50) == 0.008
    assert model_sensitivity(20.0, 100, 50, "2C") == 0.8
    assert model_sensitivity(20.0, 100, 50, "2C/N") == 0.8


def test_other_compositions_share_one_budget():
    for rule in ("naive_delta_split", "analytic", "rdp"):
        found = noise(composition=rule, rounds=100)
        assert found.sigma_a**2 == pytest.approx(found.sigma_d**2 + found.sigma_u**2 / 50)
    assert noise(composition="analytic", rounds=100).sigma_d < noise(rounds=100).sigma_d


def test_by_exact_composition_the_clients_noise_is_enough_for_l_times_n_rounds():
    assert noise(composition="analytic", rounds=50).sigma_d == 0
    assert noise(composition="analytic", rounds=51).sigma_d > 0


CASES = st.fixed_dictionaries(
    {
        "clients": st.integers(2, 200),
        "share": st.floats(0.01, 1),
        "rounds": st.integers(1, 200),
        "exposures": st.integers(1, 20),
        "epsilon": st.floats(0.5, 300),
        "samples": st.integers(1, 1000),
        "clip_norm": st.floats(0.1, 100),
        "composition": st.sampled_from(["naive", "naive_delta_split", "analytic"]),
        "b_rule": st.sampled_from(["paper", "amplification", "none"]),
    }
)


def of_case(case, **changes):
    case = dict(case)
    case["participants"] = max(1, round(case["clients"] * case.pop("share")))
    return case, noise(**(case | changes))


@settings(deadline=None)
@given(CASES)
def test_what_is_added_completes_what_is_needed(case):
    case, found = of_case(case)
    if found.sigma_d > 0:
        K = case["participants"]
        assert found.sigma_a**2 == pytest.approx(found.sigma_d**2 + found.sigma_u**2 / K, rel=1e-9)
        assert model_std(found, K) == pytest.approx(found.sigma_a, rel=1e-9)


@settings(deadline=None)
@given(CASES)
def test_nothing_is_added_only_where_the_clients_noise_is_enough(case):
    case, found = of_case(case)
    if found.sigma_d == 0 and found.sigma_a is not None:
        assert found.sigma_u / math.sqrt(case["participants"]) >= found.sigma_a * (1 - 1e-6)


@settings(deadline=None)
@given(CASES, st.floats(1.01, 5))
def test_more_budget_means_less_client_noise(case, factor):
    case, found = of_case(case)
    more = noise(**(case | {"epsilon": case["epsilon"] * factor}))
    assert more.sigma_u < found.sigma_u
    if case["b_rule"] == "none" or case["participants"] == case["clients"]:
        assert more.sigma_a < found.sigma_a


@settings(deadline=None)
@given(CASES)
def test_all_taking_part_is_the_rule_of_equation_5_whatever_the_discount(case):
    case, found = of_case(case | {"share": 1.0, "composition": "naive"})
    N, T, L, m = case["clients"], case["rounds"], case["exposures"], case["samples"]
    c = 1.25 * math.sqrt(2 * math.log(125))
    radicand = T**2 - L**2 * N
    assume(radicand == 0 or abs(radicand) > 1e-9 * T**2)
    expected = 2 * c * case["clip_norm"] * math.sqrt(max(0, radicand)) / (m * N * case["epsilon"])
    assert found.b == 1
    assert found.sigma_d == pytest.approx(expected, rel=1e-6)


@settings(deadline=None)
@given(CASES, st.floats(0.1, 10))
def test_noise_is_proportional_to_the_clip_norm(case, factor):
    case, found = of_case(case)
    scaled = noise(**(case | {"clip_norm": case["clip_norm"] * factor}))
    assert scaled.sigma_u == pytest.approx(factor * found.sigma_u)
    assert scaled.sigma_d == pytest.approx(factor * found.sigma_d, rel=1e-6)


@given(st.floats(0.01, 500), st.integers(1, 500), st.floats(0.01, 0.999))
def test_discounts_start_at_one_and_the_printed_one_overstates(epsilon, rounds, share):
    assert paper_discount(epsilon, rounds, 1.0) == amplification_discount(epsilon, rounds, 1.0) == 1
    correct = amplification_discount(epsilon, rounds, share)
    printed = paper_discount(epsilon, rounds, share)
    assert correct >= 1
    assert printed is None or printed >= correct * (1 - 1e-9)


@given(st.floats(0.1, 100), st.integers(1, 200), st.floats(0.01, 0.999))
def test_amplification_discount_inverts_subsampling(epsilon, rounds, share):
    per_round = epsilon / rounds
    stretched = amplification_discount(epsilon, rounds, share) * per_round
    assert math.log1p(share * math.expm1(stretched)) == pytest.approx(per_round, rel=1e-9)


def test_weights_of_other_versions_than_even_means():
    even = noise(epsilon=6.0)
    assert noise(epsilon=6.0, max_client_weight=1.0, noise_scale=1.0) == even
    often = noise(epsilon=6.0, max_client_weight=3.0)
    assert often.sigma_u == even.sigma_u
    assert often.sigma_a == pytest.approx(3 * even.sigma_a)
    assert often.sigma_d**2 == pytest.approx(often.sigma_a**2 - even.sigma_u**2 / 50)
    uneven = noise(epsilon=6.0, noise_scale=2.0)
    assert uneven.sigma_d**2 == pytest.approx(max(0.0, even.sigma_a**2 - 4 * even.sigma_u**2 / 50))


def test_nothing_that_counts_needs_no_noise():
    for b_rule in ("paper", "amplification", "none"):
        for participants in (20, 50):
            found = noise(epsilon=6.0, participants=participants, b_rule=b_rule, max_client_weight=0.0, noise_scale=0.0)
            assert found.sigma_d == 0


def test_at_the_edge_the_server_adds_nothing_and_b_does_not_exist():
    # T = L sqrt(K): the clients' noise in the mean of 4 is just enough for 2 versions.
    found = noise(clients=4, participants=4, rounds=2, samples=8, clip_norm=1.0, epsilon=3.0)
    assert (found.sigma_d, found.gamma) == (0, 1.5)
    assert found.server_rule == "paper: none, T <= epsilon/gamma (2 <= 2)"
    # epsilon/T = -ln(1 - K/N), where the logarithm's argument is 0.
    assert paper_discount(math.log(2), 1, 0.5) is None
