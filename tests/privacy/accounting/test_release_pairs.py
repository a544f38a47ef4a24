"""Exact epsilon between two given distributions, against closed forms, quadrature and simulation."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import laplace, ncx2, norm

from asyncfl.privacy.accounting.gaussian import log_delta
from asyncfl.privacy.accounting.release_pairs import BINS, GaussianPair, _Loss, epsilon_of_pairs, laplace_shift_counts


def loss(*pairs: GaussianPair) -> _Loss:
    return _Loss(np.array(pairs, dtype=np.float64), None)


@given(mu=st.floats(0.05, 8), dimensions=st.integers(1, 10**6), epsilon=st.floats(0, 10))
def test_equal_variances_are_the_gaussian_mechanism(mu: float, dimensions: int, epsilon: float) -> None:
    expected = float(log_delta(np.array([mu]), np.array([epsilon]))[0])
    if expected > -600:
        assert loss((dimensions, (3 * mu) ** 2, 3.0, 3.0)).log_delta(epsilon)[0] == pytest.approx(expected, abs=1e-9)


def delta_by_integral(d: int, distance: float, s: float, t: float, epsilon: float) -> float:
    """P(L > epsilon) - e^epsilon Q(L > epsilon) by the distributions of L, non-central chi-squares (s != t)."""
    # L = d ln(t/s) - |x-u|^2/2s^2 + |x-u'|^2/2t^2 is a square around m = (t^2 u - s^2 u')/(t^2 - s^2).
    difference = t**2 - s**2
    constant = d * math.log(t / s) + distance**2 / (2 * difference)
    # L = constant - difference |x - m|^2 / (2 s^2 t^2)
    limit = (constant - epsilon) * 2 * s**2 * t**2 / difference

    def below(std: float, offset: float) -> float:
        return float(ncx2.cdf(limit / std**2, d, (offset / std) ** 2)) if limit > 0 else 0.0

    first = below(s, s**2 * distance / difference), below(t, t**2 * distance / difference)
    if difference < 0:
        first = 1 - first[0], 1 - first[1]
    return first[0] - math.exp(epsilon) * first[1]


@pytest.mark.parametrize("d", [1, 2, 30])
@pytest.mark.parametrize(("s", "t"), [(1.0, 1.1), (1.1, 1.0), (0.7, 1.3), (1.3, 0.7)])
@pytest.mark.parametrize("distance", [0.0, 0.5, 2.0])
def test_unequal_variances_match_non_central_chi_squares(d: int, s: float, t: float, distance: float) -> None:
    for epsilon in (0.0, 0.5, 2.0):
        expected = delta_by_integral(d, distance, s, t, epsilon)
        if expected > 1e-9:
            found = math.exp(loss((d, distance**2, s, t)).log_delta(epsilon)[0])
            assert found == pytest.approx(expected, rel=1e-6, abs=1e-12)


def test_epsilon_covers_both_directions() -> None:
    one, other = ([(30, 0.3, 1.0, 1.4)], [(30, 0.3, 1.4, 1.0)])
    assert epsilon_of_pairs(one, 1e-3) == epsilon_of_pairs(other, 1e-3)
    ways = [loss((30, 0.3, *pair)).epsilon(1e-3) for pair in ((1.0, 1.4), (1.4, 1.0))]
    assert epsilon_of_pairs(one, 1e-3) == max(ways)
    assert ways[0] != ways[1]


def test_composition_of_equal_and_unequal_variances_matches_quadrature() -> None:
    """One release of equal and one of unequal spreads, against a convolution by quadrature."""
    epsilon, d, s, t = 0.7, 3, 1.0, 1.3
    first = norm(loc=0.5 * 0.9**2, scale=0.9)  # the loss of a Gaussian release with mu = .9
    expected = quad(lambda one: first.pdf(one) * delta_by_integral(d, 0.4, s, t, epsilon - one), -5, 6, limit=200)[0]
    found = math.exp(loss((1, 0.81, 1.0, 1.0), (d, 0.16, s, t)).log_delta(epsilon)[0])
    assert found == pytest.approx(expected, rel=1e-6)


def test_one_laplace_coordinate_has_a_closed_form() -> None:
    a = float(BINS[np.searchsorted(BINS, 1.0)])
    seen = laplace_shift_counts(np.array([2 * a * 1.0000001]), 2.0)
    # delta(epsilon) = 1 - e^((epsilon - a)/2) for one Laplace number (Balle et al. 2018).
    for delta in (0.01, 0.1):
        assert epsilon_of_pairs([], delta, seen) == pytest.approx(a + 2 * math.log(1 - delta), abs=1e-4)


def test_many_laplace_coordinates_match_simulation() -> None:
    random = np.random.default_rng(2)
    d, n = 200, 50_000
    shifts = BINS[np.searchsorted(BINS, random.uniform(0.01, 0.2, d))]
    classes = laplace_shift_counts(shifts * 1.0000001, 1.0)
    assert classes.sum() == d
    x = laplace.rvs(size=(n, d), random_state=random)
    ratio = (np.abs(x - shifts) - np.abs(x)).sum(1)
    values = np.maximum(0, 1 - np.exp(1.0 - ratio))
    found = math.exp(_Loss(np.empty((0, 4)), classes).log_delta(1.0)[0])
    assert found == pytest.approx(values.mean(), abs=4 * values.std() / math.sqrt(n))


def test_epsilon_without_noise_or_without_difference() -> None:
    assert epsilon_of_pairs([(9, 1e-9, 0.0, 0.0)], 1e-5) == math.inf
    assert epsilon_of_pairs([(9, 0.0, 0.0, 0.1)], 1e-5) == math.inf
    assert epsilon_of_pairs([(9, 0.0, 0.0, 0.0)], 1e-5) == 0.0
    assert epsilon_of_pairs([], 1e-5) == 0.0
    assert epsilon_of_pairs([(9, 0.0, 0.1, 0.1)], 1e-5) == 0.0
    assert epsilon_of_pairs([(9, 1e-20, 1.0, 1.0)], 1e-5) == 0.0


@settings(max_examples=15)
@given(
    d=st.integers(1, 10**7),
    distance=st.floats(0, 3),
    ratio=st.floats(0.8, 1.25),
    delta=st.sampled_from([1e-12, 1e-5, 0.01]),
)
def test_epsilon_solves_delta(d: int, distance: float, ratio: float, delta: float) -> None:
    row = (d, distance**2, 1.0, ratio)
    found = epsilon_of_pairs([row], delta)
    assert math.isfinite(found)
    if found > 0 and ratio != 1.0:
        largest = max(loss(row).log_delta(found)[0], loss((d, distance**2, ratio, 1.0)).log_delta(found)[0])
        assert largest == pytest.approx(math.log(delta), abs=1e-6)
