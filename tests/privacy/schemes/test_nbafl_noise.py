"""NbAFL's noise: published values of equations 5 and 7, and their laws."""

import math

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from asyncfl.privacy import Contribution, Nbafl, PrivacyContext
from asyncfl.privacy.schemes.nbafl import (
    amplification_discount,
    model_std,
    paper_discount,
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
    fields = DEFAULTS | changes
    weights = fields.pop("weights", {})
    names = ("clients", "participants", "rounds", "samples", "exposures")
    context = PrivacyContext(*(fields.pop(name) for name in names))
    entered = [Contribution(client, context.smallest_samples, weight=weight) for client, weight in weights]
    return Nbafl(**fields).noise(context, fields["clip_norm"], entered)


@pytest.mark.parametrize(
    ("epsilon", "sigma_u", "sigma_a", "sigma_d"),
    [
        (50, 0.03107511, 0.01553756, 0.01490310),
        (60, 0.02589593, 0.01294796, 0.01241925),
        (100, 0.01553756, 0.00776878, 0.00745155),
    ],
)
def test_full_participation_equals_the_published_values(epsilon, sigma_u, sigma_a, sigma_d):
    found = noise(epsilon=epsilon)
    assert (found.sigma_u, found.sigma_a, found.sigma_d) == pytest.approx((sigma_u, sigma_a, sigma_d), abs=5e-9)
    assert found.b == 1


def test_server_noise_falls_to_zero_with_more_exposures():
    assert noise(exposures=3).sigma_d == pytest.approx(0.00685142, abs=5e-9)
    found = noise(exposures=4)
    assert found.sigma_d == 0
    assert found.server_rule == "paper: none, T <= epsilon/gamma (25 <= 28.2843)"


@pytest.mark.parametrize(
    ("clients", "sigma_d"), [(50, 0.01490310), (60, 0.01231078), (80, 0.00906820), (100, 0.00712020)]
)
def test_figure_6_equals_the_published_values(clients, sigma_d):
    found = noise(clients=clients, participants=clients, constant=1.5)
    assert found.sigma_d == pytest.approx(sigma_d, abs=5e-9)


@pytest.mark.parametrize(
    ("epsilon", "sigma_u", "sigma_d"),
    [(6, 0.04046239, 0.01940508), (8, 0.03034679, 0.01455381), (10, 0.02427743, 0.01164305)],
)
def test_figure_3_equals_the_published_values(epsilon, sigma_u, sigma_d):
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
def test_equation_7_as_printed_equals_the_published_values(row, gamma, limit, b, sigma_d):
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
def test_amplification_discount_equals_the_published_values(row, b, sigma_d):
    found = of_row(row, b_rule="amplification")
    assert found.b == pytest.approx(b, abs=5e-7)
    assert found.sigma_d == pytest.approx(sigma_d, abs=5e-9)


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
def test_client_and_server_noise_add_up_to_the_needed_noise(case):
    case, found = of_case(case)
    if found.sigma_d > 0:
        K = case["participants"]
        assert found.sigma_a**2 == pytest.approx(found.sigma_d**2 + found.sigma_u**2 / K, rel=1e-9)
        assert model_std(found, K) == pytest.approx(found.sigma_a, rel=1e-9)


@settings(deadline=None)
@given(CASES)
def test_full_participation_follows_equation_5_for_every_discount(case):
    case, found = of_case(case | {"share": 1.0, "composition": "naive"})
    N, T, L, m = case["clients"], case["rounds"], case["exposures"], case["samples"]
    c = 1.25 * math.sqrt(2 * math.log(125))
    radicand = T**2 - L**2 * N
    assume(radicand == 0 or abs(radicand) > 1e-9 * T**2)
    expected = 2 * c * case["clip_norm"] * math.sqrt(max(0, radicand)) / (m * N * case["epsilon"])
    assert found.b == 1
    assert found.sigma_d == pytest.approx(expected, rel=1e-6)


@given(st.floats(0.01, 500), st.integers(1, 500), st.floats(0.01, 0.999))
def test_the_printed_discount_overstates_amplification(epsilon, rounds, share):
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


def test_server_noise_for_unequal_weights():
    even = noise(epsilon=6.0)
    assert noise(epsilon=6.0, weights=[(client, 1 / 50) for client in range(50)]) == even
    # One client has three of the 50 updates.
    often = noise(epsilon=6.0, weights=[(max(client, 2), 1 / 50) for client in range(50)])
    assert often.sigma_u == even.sigma_u
    assert often.sigma_a == pytest.approx(3 * even.sigma_a)
    assert often.sigma_d**2 == pytest.approx(often.sigma_a**2 - even.sigma_u**2 / 50)
    # One client has half of the weight: K sum p_j^2 = 50 (1/4 + 1/4/49).
    uneven = noise(epsilon=6.0, weights=[(0, 0.5), *((client, 0.5 / 49) for client in range(1, 50))])
    assert uneven.sigma_a == pytest.approx(25 * even.sigma_a)
    assert uneven.sigma_d**2 == pytest.approx(uneven.sigma_a**2 - (0.25 + 0.25 / 49) * even.sigma_u**2)
