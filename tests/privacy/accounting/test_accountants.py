"""All accountants together: published values, oracles, and inequalities among them."""

from __future__ import annotations

import math
from typing import Any

import dp_accounting
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import binom

from asyncfl.privacy.accounting import MechanismEvent, Neighbours, epsilon_by, epsilons_of, smallest_epsilon
from asyncfl.privacy.accounting.accountants import (
    ORDERS,
    amplified,
    basic_and_advanced,
    epsilon_of_one,
    laplace_curve,
    notes,
    pure_curve,
    renyi_epsilon,
)
from asyncfl.privacy.accounting.gaussian import exact_epsilon


def test_one_hundred_laplace_releases_equal_the_published_values():
    found = epsilons_of([MechanismEvent("laplace", 10, 100)], 1e-5)
    assert (found.basic, found.advanced) == (pytest.approx(10), pytest.approx(5.850, abs=5e-4))
    assert (found.rdp, found.exact) == (pytest.approx(4.53269, abs=6e-6), pytest.approx(4.22035, abs=6e-6))


def test_sampled_gaussian_releases_equal_the_published_values():
    found = epsilons_of([MechanismEvent("gaussian", 1.1, 1000, 0.01)], 1e-5)
    assert (found.rdp, found.exact) == (pytest.approx(1.71177, abs=6e-6), pytest.approx(1.51537, abs=6e-6))
    assert found.basic > found.rdp


def test_mixed_releases_match_dp_accounting():
    accountant = dp_accounting.pld.PLDAccountant()
    accountant.compose(dp_accounting.LaplaceDpEvent(10), 20)
    accountant.compose(dp_accounting.GaussianDpEvent(5), 4)
    found = smallest_epsilon([MechanismEvent("gaussian", 5, 4), MechanismEvent("laplace", 10, 20)], 1e-5)
    assert found == pytest.approx(accountant.get_epsilon(1e-5), abs=1e-4)


def test_basic_and_advanced_composition_share_delta():
    basic, advanced = basic_and_advanced([MechanismEvent("gaussian", 2, 4), MechanismEvent("laplace", 10, 3)], 1e-5)
    own = exact_epsilon(0.25, 1e-5 / 4)
    assert basic == pytest.approx(4 * own + 0.3)
    halved = exact_epsilon(0.25, 1e-5 / 8)
    squares, grown = 4 * halved**2 + 0.03, 4 * halved * math.expm1(halved) + 0.3 * math.expm1(0.1)
    assert advanced == pytest.approx(math.sqrt(2 * math.log(2e5) * squares) + grown)


def test_sampling_amplifies_privacy():
    assert amplified(1.0, 0.1) == pytest.approx(math.log1p(0.1 * math.expm1(1)))
    assert amplified(2000.0, 0.1) == pytest.approx(2000 + math.log(0.1))
    once = MechanismEvent("gaussian", 1.0, 1, 0.1)
    # One sampled release is exactly what amplification says of it.
    assert smallest_epsilon([once], 1e-5) == pytest.approx(epsilon_of_one(once, 1e-5), abs=1e-4)
    assert epsilon_of_one(once, 0.2) == 0
    assert notes(True, "replace")[1].startswith("Renyi accounting has no bound")
    assert notes(False, "replace") == []


@settings(deadline=None, max_examples=25)
@given(
    st.lists(
        st.builds(MechanismEvent, st.just("gaussian"), st.floats(0.5, 50), st.integers(1, 20)), min_size=1, max_size=4
    ),
    st.floats(1e-8, 0.05),
    st.sampled_from(["add_remove", "replace"]),
)
def test_exact_epsilon_is_the_smallest_and_replacement_costs_more(events, delta, neighbours):
    found = epsilons_of(events, delta, neighbours)
    assert found.exact <= min(found.basic, found.advanced, found.rdp) * (1 + 1e-9) + 1e-12
    assert epsilons_of(events, delta, "replace").exact >= found.exact


def test_epsilon_is_zero_without_releases_and_infinite_without_noise():
    for events, epsilon in (
        ([], 0.0),
        ([MechanismEvent("gaussian", 0.0)], math.inf),
        ([MechanismEvent("laplace", 0.0, 3)], math.inf),
    ):
        found = epsilons_of(events, 1e-5)
        assert (found.basic, found.advanced, found.rdp, found.exact) == (epsilon,) * 4


DELTA = st.floats(1e-10, 0.2)
MULTIPLIER = st.floats(0.05, 100)


def oracle(event, count, delta, orders=ORDERS):
    accountant = dp_accounting.rdp.RdpAccountant(list(orders))
    accountant.compose(event, count)
    return accountant.get_epsilon(delta)


@settings(deadline=None, max_examples=20)
@given(MULTIPLIER, st.integers(1, 300), DELTA)
def test_renyi_epsilon_matches_dp_accounting(z, count, delta):
    gaussian = oracle(dp_accounting.GaussianDpEvent(z), count, delta)
    assert renyi_epsilon([MechanismEvent("gaussian", z, count)], delta) == pytest.approx(gaussian, rel=1e-9, abs=1e-9)
    laplace = oracle(dp_accounting.LaplaceDpEvent(z), count, delta)
    assert renyi_epsilon([MechanismEvent("laplace", z, count)], delta) == pytest.approx(laplace, rel=1e-6, abs=1e-9)


def test_sampled_releases_match_dp_accounting():
    accountant = dp_accounting.rdp.RdpAccountant()
    accountant.compose(dp_accounting.PoissonSampledDpEvent(0.05, dp_accounting.GaussianDpEvent(1.5)), 200)
    accountant.compose(dp_accounting.GaussianDpEvent(20.0), 3)
    found = renyi_epsilon([MechanismEvent("gaussian", 1.5, 200, 0.05), MechanismEvent("gaussian", 20.0, 3)], 1e-6)
    assert found == pytest.approx(accountant.get_epsilon(1e-6), rel=1e-9)
    assert epsilon_by("rdp", [MechanismEvent("gaussian", 1.5, 200, 0.05)], 1e-6, "replace") is None


@settings(deadline=None, max_examples=20)
@given(st.floats(0.01, 20), st.integers(1, 100), DELTA)
def test_randomised_response_bounds_every_pure_release(epsilon, count, delta):
    assert (pure_curve(epsilon) >= laplace_curve(1 / epsilon) - 1e-12).all()
    assert (pure_curve(epsilon) <= epsilon + 1e-12).all()
    pure = renyi_epsilon([MechanismEvent("pure", epsilon, count)], delta)
    assert pure >= renyi_epsilon([MechanismEvent("laplace", 1 / epsilon, count)], delta) - 1e-12


@pytest.mark.parametrize(
    ("multiplier", "count"), [(10, 2), (10, 7), (1, 20), (100, 1000), (3, 30), (0.5, 5), (0.2, 10)]
)
@pytest.mark.parametrize("delta", [1e-2, 1e-5, 1e-8])
def test_laplace_epsilon_matches_dp_accounting(multiplier, count, delta):
    accountant = dp_accounting.pld.PLDAccountant()
    accountant.compose(dp_accounting.LaplaceDpEvent(multiplier), count)
    found = smallest_epsilon([MechanismEvent("laplace", multiplier, count)], delta)
    assert found == pytest.approx(accountant.get_epsilon(delta), rel=1e-5, abs=1e-5)


def by_the_sum(epsilon: float, count: int, delta: float) -> float:
    """Where sum p (1 - e^(x - loss)) over larger losses is delta; losses are epsilon or -epsilon each."""
    up = np.arange(count + 1)
    losses = (2 * up - count) * epsilon
    probability = binom.pmf(up, count, 1 / (1 + math.exp(-epsilon)))

    def excess(x: float) -> float:
        return float(np.sum(probability * -np.expm1(np.minimum(x - losses, 0)))) - delta

    return float(brentq(excess, 0, count * epsilon, xtol=1e-13, rtol=1e-14))


@pytest.mark.parametrize(("epsilon", "count", "delta"), [(0.4, 30, 0.01), (1.5, 7, 1e-3), (0.05, 400, 1e-6)])
def test_pure_releases_match_the_binomial_sum(epsilon: float, count: int, delta: float) -> None:
    found = smallest_epsilon([MechanismEvent("pure", epsilon, count)], delta)
    assert found == pytest.approx(by_the_sum(epsilon, count, delta), rel=1e-9)


def test_the_grid_contains_the_loss_of_a_pure_release() -> None:
    """An epsilon between two points of the grid would be rounded up, once for each of thirty releases."""
    alone = by_the_sum(0.40003, 30, 0.01)
    mixed = smallest_epsilon([MechanismEvent("pure", 0.40003, 30), MechanismEvent("laplace", 1e6)], 0.01)
    assert alone <= mixed * (1 + 1e-9)
    assert mixed == pytest.approx(alone, abs=3e-4)


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
@pytest.mark.parametrize("multiplier", [1e-9, 1e-5, 2e-4])
@pytest.mark.parametrize("rate", [1e-300, 1e-5, 0.5])
@pytest.mark.parametrize("count", [1, 1000, 10**9])
def test_sampled_releases_with_almost_no_noise_have_a_finite_epsilon(
    neighbours: Neighbours, multiplier: float, rate: float, count: int
) -> None:
    parts = [MechanismEvent("gaussian", multiplier, count, rate)]
    found = epsilon_by("exact", parts, 1e-5, neighbours)
    assert 0 <= found <= epsilon_by("basic", parts, 1e-5, neighbours) * (1 + 1e-5)
    assert (found == 0) == (count * rate <= 1e-5)


def test_large_laplace_epsilons_add_up_with_other_releases() -> None:
    open_, plain = MechanismEvent("laplace", 1e-9, 3), MechanismEvent("gaussian", 2.0, 4)
    assert 3e9 < smallest_epsilon([open_, plain], 1e-5) <= 3e9 + smallest_epsilon([plain], 1e-5)


def test_exact_epsilon_is_at_most_the_renyi_epsilon() -> None:
    many = [MechanismEvent("gaussian", 20.0, 10**6, 1e-4)]
    renyi = epsilon_by("rdp", many, 1e-12)
    assert smallest_epsilon(many, 1e-12) <= renyi == pytest.approx(0.032, abs=5e-4)


@pytest.mark.parametrize(
    ("z", "rate", "count", "epsilon"),
    [
        (1.0, 0.001, 10_000, 0.7926),
        (1.0, 0.01, 1000, 2.8434),
        (0.8, 0.004, 15_000, 6.842),
        (1.0, 0.001, 100_000, 2.838),
    ],
)
def test_replaced_records_in_samples_equal_the_published_values(
    z: float, rate: float, count: int, epsilon: float
) -> None:
    """By dp-accounting on grids of 1e-4 and 5e-5."""
    found = epsilons_of([MechanismEvent("gaussian", z, count, rate)], 1e-5, "replace")
    assert found.exact == pytest.approx(epsilon, rel=3e-4)
    assert (found.rdp, found.basic > found.exact) == (None, True)


def by_the_contour(z: float, rate: float, count: int, delta: float, neighbours: Neighbours) -> float:
    """delta = 1/(2 pi i) int e^(K(s) - s epsilon)/(s (1 + s)) ds along a line, with K(s) = count ln E e^(s loss) by the
    trapezoidal rule over one release."""
    x = np.linspace(-1 - 14 * z, 1 + 14 * z, 8001)

    def log_density(*means: float) -> Any:
        parts = [-0.5 * ((x - mean) / z) ** 2 for mean in (0.0, *means)]
        return np.logaddexp(math.log1p(-rate) + parts[0], math.log(rate) + parts[-1]) if means else parts[0]

    pairs = [(log_density(1.0), log_density(-1.0))]
    if neighbours == "add_remove":
        pairs = [(log_density(1.0), log_density()), (log_density(), log_density(1.0))]
    found = []
    for first, second in pairs:
        loss, p = first - second, np.exp(first) * (x[1] - x[0]) / (z * math.sqrt(2 * math.pi))

        def slope(s: float, loss: Any = loss, p: Any = p) -> float:
            mass = p * np.exp(s * loss)
            return float(count * (mass @ loss) / mass.sum())

        def excess(epsilon: float, loss: Any = loss, p: Any = p, slope: Any = slope) -> float:
            def rise(s: float) -> float:
                return float(slope(s) - epsilon - 1 / s - 1 / (1 + s))

            most = 1.0
            while rise(most) < 0:
                most *= 1.5
            s = brentq(rise, 1e-6, most, rtol=1e-3)
            width = (1e-3 * s / (rise(s * 1.0005) - rise(s * 0.9995))) ** 0.5
            line = s + 1j * width / 8 * np.arange(400)
            cumulant = count * np.log1p(np.expm1(line[:, None] * loss) @ p)
            values = np.exp(cumulant - line * epsilon) / (line * (1 + line))
            assert abs(values[-1]) < 1e-7 * abs(values[0])
            return float((values.real.sum() - values[0].real / 2) * width / 8 / math.pi) - delta

        most = 0.1
        while excess(most) > 0:
            most *= 1.5
        found.append(float(brentq(excess, most / 10, most, rtol=1e-7)))
    return max(found)


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
@pytest.mark.parametrize(
    ("z", "rate", "count"), [(1.0, 0.01, 1000), (1.0, 0.0003, 300_000), (20.0, 0.01, 10_000), (2.0, 0.002, 100_000)]
)
def test_the_grid_of_losses_is_as_fine_as_the_losses_of_single_releases(
    z: float, rate: float, count: int, neighbours: Neighbours
) -> None:
    truth = by_the_contour(z, rate, count, 1e-5, neighbours)
    found = epsilon_by("exact", [MechanismEvent("gaussian", z, count, rate)], 1e-5, neighbours)
    assert truth * (1 - 1e-6) <= found <= truth * (1 + 1e-3)


def test_losses_of_different_kinds_that_the_grid_does_not_contain_are_not_rounded_up() -> None:
    """A Laplace release beside ten thousand of losses below a step of 1e-3, which are nearly a Gaussian release."""
    few, many = MechanismEvent("laplace", 1.0), MechanismEvent("laplace", 1500.0, 10_000)
    like = MechanismEvent("gaussian", 1500.0, 10_000)
    assert smallest_epsilon([few, many], 1e-5) == pytest.approx(smallest_epsilon([few, like], 1e-5), rel=2e-3)


def test_no_epsilon_is_below_zero() -> None:
    event = MechanismEvent("gaussian", 5.0, 1, 0.01)
    for neighbours in ("add_remove", "replace"):
        found = epsilons_of([event], 0.009, neighbours)
        assert min(found.basic, found.advanced, found.exact) >= 0
        assert math.copysign(1, found.exact) == 1
