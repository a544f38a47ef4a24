from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import laplace, ncx2, norm

from asyncfl.privacy.accounting.gaussian import exact_epsilon
from asyncfl.privacy.accounting.release_pairs import (
    BINS,
    GaussianPairs,
    ReleasePairs,
    _log1p_rest,
    _Loss,
    laplace_shift_counts,
)


def worlds(*rows: tuple[float, float, float, float]) -> ReleasePairs:
    return ReleasePairs(GaussianPairs.of(rows))


def loss(*rows: tuple[float, float, float, float]) -> _Loss:
    return _Loss(GaussianPairs.of(rows), None)


@given(
    mu=st.floats(0.05, 8),
    dimensions=st.integers(1, 10**6),
    epsilon=st.floats(0, 10),
)
def test_equal_spreads_are_the_gaussian_mechanism(mu: float, dimensions: int, epsilon: float) -> None:
    from asyncfl.privacy.accounting.gaussian import log_delta

    expected = float(log_delta(np.array([mu]), np.array([epsilon]))[0])
    if expected > -600:
        assert loss((dimensions, (3 * mu) ** 2, 3.0, 3.0)).log_delta(epsilon)[0] == pytest.approx(expected, abs=1e-9)


def test_epsilon_of_equal_spreads_adds_up() -> None:
    found = worlds((10, 0.04, 0.5, 0.5), (10, 0.09, 0.25, 0.25)).epsilon(1e-5)
    assert found == pytest.approx(exact_epsilon(0.04 / 0.25 + 0.09 / 0.0625, 1e-5))


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
def test_unequal_spreads_are_non_central_chi_squares(d: int, s: float, t: float, distance: float) -> None:
    for epsilon in (0.0, 0.5, 2.0):
        expected = delta_by_integral(d, distance, s, t, epsilon)
        if expected > 1e-9:
            found = math.exp(loss((d, distance**2, s, t)).log_delta(epsilon)[0])
            assert found == pytest.approx(expected, rel=1e-6, abs=1e-12)


def test_both_directions_count() -> None:
    one, other = worlds((30, 0.3, 1.0, 1.4)), worlds((30, 0.3, 1.4, 1.0))
    assert one.epsilon(1e-3) == other.epsilon(1e-3)
    ways = [loss((30, 0.3, *pair)).epsilon(1e-3) for pair in ((1.0, 1.4), (1.4, 1.0))]
    assert one.epsilon(1e-3) == max(ways)
    assert ways[0] != ways[1]


def test_a_large_model_whose_noise_follows_the_data() -> None:
    """2e5 parameters, spreads that differ by 1 in 1,000: the variance alone tells the worlds apart."""
    d, r = 200_000, 1e-3
    found = worlds((d, 0.0, 1.0, 1.0 + r)).epsilon(1e-2)
    # To first order the loss is N(mu^2/2, mu^2) with mu^2 = 2 d r^2.
    assert found == pytest.approx(exact_epsilon(2 * d * r**2, 1e-2), rel=0.01)
    assert found > 1.0


def test_simulated_likelihood_ratios_agree() -> None:
    random = np.random.default_rng(1)
    n, d, s, t, distance = 400_000, 20, 1.0, 1.08, 0.8
    x = s * random.standard_normal((n, d))
    away = x.copy()
    away[:, 0] -= distance
    ratio = d * math.log(t / s) - (x**2).sum(1) / (2 * s**2) + (away**2).sum(1) / (2 * t**2)
    for epsilon in (0.2, 1.0, 2.0):
        values = np.maximum(0, 1 - np.exp(epsilon - ratio))
        error = values.std() / math.sqrt(n)
        assert math.exp(loss((d, distance**2, s, t)).log_delta(epsilon)[0]) == pytest.approx(
            values.mean(), abs=4 * error
        )


def test_composition_mixes_spreads() -> None:
    """One release of equal and one of unequal spreads, against a convolution by quadrature."""
    epsilon, d, s, t = 0.7, 3, 1.0, 1.3
    first = norm(loc=0.5 * 0.9**2, scale=0.9)  # the loss of a Gaussian release with mu = .9

    def tail(shift: float) -> float:
        return delta_by_integral_tails(d, 0.4, s, t, shift)

    def delta_by_integral_tails(d: int, distance: float, s: float, t: float, at: float) -> float:
        difference = t**2 - s**2
        constant = d * math.log(t / s) + distance**2 / (2 * difference)
        limit = max((constant - at) * 2 * s**2 * t**2 / difference, 0.0)
        p = ncx2.cdf(limit / s**2, d, (s * distance / difference) ** 2)
        q = ncx2.cdf(limit / t**2, d, (t * distance / difference) ** 2)
        return float(p - math.exp(at) * q)

    expected = quad(lambda one: first.pdf(one) * tail(epsilon - one), -5, 6, limit=200)[0]
    found = math.exp(loss((1, 0.81, 1.0, 1.0), (d, 0.16, s, t)).log_delta(epsilon)[0])
    assert found == pytest.approx(expected, rel=1e-6)


def test_one_laplace_number() -> None:
    a = float(BINS[np.searchsorted(BINS, 1.0)])
    seen = ReleasePairs(GaussianPairs.of([]), laplace_shift_counts(np.array([2 * a * 1.0000001]), 2.0))
    # delta(epsilon) = 1 - e^((epsilon - a)/2) for one Laplace number (Balle et al. 2018).
    for delta in (0.01, 0.1):
        assert seen.epsilon(delta) == pytest.approx(a + 2 * math.log(1 - delta), abs=1e-4)


def test_many_laplace_numbers_against_simulation() -> None:
    random = np.random.default_rng(2)
    d, n = 200, 50_000
    shifts = BINS[np.searchsorted(BINS, random.uniform(0.01, 0.2, d))]
    classes = laplace_shift_counts(shifts * 1.0000001, 1.0)
    assert classes.sum() == d
    x = laplace.rvs(size=(n, d), random_state=random)
    ratio = (np.abs(x - shifts) - np.abs(x)).sum(1)
    values = np.maximum(0, 1 - np.exp(1.0 - ratio))
    found = math.exp(_Loss(GaussianPairs.of([]), classes).log_delta(1.0)[0])
    assert found == pytest.approx(values.mean(), abs=4 * values.std() / math.sqrt(n))


def test_no_noise_and_no_difference() -> None:
    assert worlds((9, 1e-9, 0.0, 0.0)).epsilon(1e-5) == math.inf
    assert worlds((9, 0.0, 0.0, 0.1)).epsilon(1e-5) == math.inf
    assert worlds((9, 0.0, 0.0, 0.0)).epsilon(1e-5) == 0.0
    assert worlds().epsilon(1e-5) == 0.0
    assert worlds((9, 0.0, 0.1, 0.1)).epsilon(1e-5) == 0.0
    assert worlds((9, 1e-20, 1.0, 1.0)).epsilon(1e-5) == 0.0


@settings(max_examples=40)
@given(
    d=st.integers(1, 10**7),
    distance=st.floats(0, 3),
    ratio=st.floats(0.8, 1.25),
    delta=st.sampled_from([1e-12, 1e-5, 0.01]),
)
def test_epsilon_is_where_delta_is_enough(d: int, distance: float, ratio: float, delta: float) -> None:
    row = (d, distance**2, 1.0, ratio)
    found = worlds(row).epsilon(delta)
    assert math.isfinite(found)
    if found > 0 and ratio != 1.0:
        largest = max(loss(row).log_delta(found)[0], loss((d, distance**2, ratio, 1.0)).log_delta(found)[0])
        assert largest == pytest.approx(math.log(delta), abs=1e-6)


def shifted(number: int, shift: float = 0.5) -> _Loss:
    """The loss of so many Laplace numbers, each shifted by the largest class below `shift`."""
    classes = np.zeros(len(BINS), np.int64)
    classes[np.searchsorted(BINS, shift) - 1] = number
    return _Loss(GaussianPairs.of([]), classes)


def test_worlds_differ_by_what_is_released_or_by_how_it_is_spread() -> None:
    rows = [
        (3.0, 0.5, 1.0, 1.0),
        (3.0, 0.0, 1.0, 2.0),
        (0.0, 0.0, 1.0, 2.0),
        (3.0, 0.0, 1.0, 1.0),
        (3.0, 0.0, 0.0, 0.0),
    ]
    assert GaussianPairs.of(rows).telling.tolist() == [True, True, False, False, False]
    # Nothing of no numbers, and nothing twice: neither counts, with noise or without.
    assert worlds((0, 0.0, 0.0, 1.0), (5, 0.0, 0.0, 0.0)).epsilon(1e-5) == 0.0
    one, same = (50, 0.3, 1.0, 1.4), (9, 0.0, 0.0, 0.0)
    assert worlds(one, same).epsilon(1e-3) == worlds(one).epsilon(1e-3)


def test_a_shift_counts_as_the_largest_limit_that_is_no_larger() -> None:
    shifts = [0.0, 0.99e-12, BINS[0], BINS[7], np.nextafter(BINS[8], 0), -BINS[8], BINS[-1], 1e9]
    found = laplace_shift_counts(np.array(shifts) * 4, 4.0)
    assert len(found) == len(BINS)
    assert {place: number for place, number in enumerate(found.tolist()) if number} == {
        0: 1,
        7: 2,
        8: 1,
        len(BINS) - 1: 2,
    }


@pytest.mark.parametrize("x", [0.0199, -0.0199, 0.0201, -0.0201, 1e-9, -3e-5, 0.3, -0.6])
def test_a_logarithm_less_its_argument_keeps_its_digits(x: float) -> None:
    series = math.fsum(-((-x) ** power) / power for power in range(2, 200)) if x else 0.0
    assert _log1p_rest(x) == pytest.approx(series, rel=1e-13)
    turned = x * np.exp(0.4j)
    assert abs(_log1p_rest(turned) + sum((-turned) ** power / power for power in range(2, 200))) < 3e-12 * abs(series)


ROWS = [(3, 0.7, 1.0, 1.3), (4, 0.2, 1.2, 1.0), (2, 0.5, 0.8, 0.8), (3, 0.1, 1.0, 1.3)]


def test_cumulants_are_those_of_the_formulas_and_slopes_their_derivatives() -> None:
    both = _Loss(GaussianPairs.of(ROWS), shifted(3).counts * (BINS[np.searchsorted(BINS, 0.5) - 1] == BINS))
    a = shifted(3).shifts[0]

    def cumulant(z: float) -> float:
        total = 3 * math.log(((1 + z) * math.exp(z * a) + z * math.exp(-(1 + z) * a)) / (1 + 2 * z))
        for d, square, s, t in ROWS:
            rho = 1 - s**2 / t**2
            total -= d / 2 * (z * math.log(1 - rho) + math.log(1 + z * rho))
            total += z * (1 + z) * square / (2 * t**2 * (1 + z * rho))
        return total

    at = np.array([0.0, 0.1, 0.7, 1.5])
    assert both.cumulant(at) == pytest.approx([cumulant(z) for z in at], rel=1e-12, abs=1e-14)
    for z in at:
        step = 1e-5
        assert both.slope(float(z)) == pytest.approx((cumulant(z + step) - cumulant(z - step)) / (2 * step), rel=1e-7)


def test_where_losses_end_and_cumulants_too() -> None:
    # K has a pole where 1 + z rho = 0; with the wider noise in the second world losses have a largest value.
    assert loss((4, 0.2, 1.2, 1.0)).end == pytest.approx(1 / (1.44 - 1))
    assert loss(*ROWS).end == pytest.approx(1 / 0.44)
    assert loss((3, 0.7, 1.0, 1.3)).end == loss((2, 0.5, 0.8, 0.8)).end == math.inf
    assert loss((4, 0.2, 1.2, 1.0)).most == loss((2, 0.5, 0.8, 0.8)).most == math.inf
    # L = d ln(t/s) + |x - u'|^2/2t^2 - |x - u|^2/2s^2 is largest in between, at x - u = (u - u')/(t^2/s^2 - 1).
    most = 3 * math.log(1.3) + 0.7 / (2 * (1.3**2 - 1))
    assert loss((3, 0.7, 1.0, 1.3)).most == pytest.approx(most)
    assert shifted(3).most == pytest.approx(3 * shifted(3).shifts[0])
    assert loss((3, 0.7, 1.0, 1.3)).log_delta(most * (1 + 1e-12)) == (-math.inf, math.inf)
    assert -math.inf < loss((3, 0.7, 1.0, 1.3)).log_delta(most - 1e-6)[0] < math.log(1e-6)
    assert loss((3, 0.7, 1.0, 1.3), (2, 0.5, 0.8, 0.8)).most == math.inf


@pytest.mark.parametrize(
    "one", [loss((9, 1.0, 1.0, 1.0)), loss((9, 1e-4, 1.0, 1.0)), loss(*ROWS), loss((40, 0.7, 1.0, 1.3)), shifted(9)]
)
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 2.0])
def test_the_saddle_is_where_the_integrand_is_least_and_as_wide_as_it_bends(one: _Loss, epsilon: float) -> None:
    z, width = one._saddle(epsilon)

    def falls(z: float) -> float:
        return one.slope(z) - epsilon - 1 / z - 1 / (1 + z)

    root = brentq(falls, 1e-6, min(1e6, one.end * (1 - 1e-9)), rtol=1e-14)
    assert z == pytest.approx(root, rel=0.011)
    step = 1e-5 * z
    assert width == pytest.approx(((falls(z + step) - falls(z - step)) / (2 * step)) ** -0.5, rel=1e-3)


def test_a_loss_that_bends_steeply_is_summed_from_few_points_and_one_with_an_edge_from_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[int] = []
    cumulant = _Loss.cumulant
    monkeypatch.setattr(_Loss, "cumulant", lambda self, z: seen.append(len(z)) or cumulant(self, z))

    def points(one: _Loss, epsilon: float) -> int:
        seen.clear()
        one.log_delta(epsilon)
        assert seen[0] == 1  # the saddle itself
        return sum(seen[1:])

    gaussian, several = loss((9, 1.0, 1.0, 1.0)), loss((30, 0.25, 1.0, 1.3))
    assert [points(gaussian, epsilon) for epsilon in (0.0, 3.0)] == [128, 128]
    assert [points(several, epsilon) for epsilon in (0.0, 1.0, 3.0)] == [512, 512, 256]
    assert points(loss((9, 900.0, 1.0, 1.0)), 1.0) == 1024
    assert points(shifted(40), 1.0) == 128
    assert points(shifted(1), 0.1) == 2**18


@pytest.mark.parametrize(
    ("one", "steps"),
    [
        (loss((9, 1.0, 1.0, 1.0)), (4, 5, 6)),
        (loss((9, 1e-4, 1.0, 1.0)), (5, 6, 2)),
        (loss((9, 900.0, 1.0, 1.0)), (4, 4, 5)),
        (loss((10**6, 0.0, 1.0, 1.0001)), (4, 5, 2)),
        (shifted(40), (7, 5, 6)),
    ],
)
def test_few_steps_lead_to_an_epsilon_of_any_size(one: _Loss, steps: tuple[int, ...]) -> None:
    asked: list[float] = []
    judge = one.log_delta
    one.log_delta = lambda at: asked.append(at) or judge(at)  # type: ignore[method-assign,func-returns-value]
    for delta, most in zip((1e-9, 1e-3, 0.3), steps, strict=True):
        asked.clear()
        found = one.epsilon(delta)
        assert len(asked) <= most
        assert found == 0 or judge(found)[0] == pytest.approx(math.log(delta), abs=1e-7)


@pytest.mark.parametrize("rows", [[(1, 1e-4, 1, 1.0001)], [(10, 0.0, 1, 1.05)]])
def test_worlds_that_hardly_differ_need_no_epsilon_at_a_large_delta(
    rows: list[tuple[float, float, float, float]],
) -> None:
    assert worlds(*rows).epsilon(0.3) == 0
    assert worlds(*rows).epsilon(1e-9) > 0


@pytest.mark.parametrize(
    "rows", [[(3, 4.0, 1, 1), (10, 0.25, 1, 1.5)], [(50_000, 0.25, 1, 1.01)], [(10, 0.0, 1, 1.05)]]
)
@pytest.mark.parametrize("delta", [1e-9, 1e-3, 0.3])
def test_an_epsilon_takes_few_integrals(
    rows: list[tuple[float, float, float, float]], delta: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Newton's steps from where the loss is about Gaussian; halving alone takes thirty in either world."""
    asked: list[float] = []
    integral = _Loss.log_delta

    def counted(own: _Loss, at: float) -> tuple[float, float]:
        asked.append(at)
        return integral(own, at)

    monkeypatch.setattr(_Loss, "log_delta", counted)
    worlds(*rows).epsilon(delta)
    assert len(asked) <= 20
