"""Receiver operating characteristic of membership scores."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri
from scipy.stats import beta
from sklearn.metrics import roc_auc_score

from asyncfl.privacy.estimators.roc import area, area_interval, at_false_rate, curve


def test_one_percent_of_200_allows_two_false_positives() -> None:
    others = np.arange(200.0)
    point = at_false_rate(np.array([196.0, 197.0, 197.5, 198.5, 300.0]), others)
    assert (point.true_positives, point.members, point.false_positives, point.others) == (3, 5, 2, 200)
    assert point.rate == 0.6
    # No order statistic of 200 is above the true threshold with 98.75 %, as .99^200 = .134: the lower end is 0.
    assert (point.low, point.high) == (0, 1)
    # Of 437 the largest is: .99^437 = .0124. Clopper, Pearson 1934: 2 of 5 at 98.75 %, one-sided.
    more = at_false_rate(np.array([1.0, 2.0, 3.0, 437.0, 500.0]), np.arange(437.0))
    assert more.low == pytest.approx(beta.ppf(0.0125, 2, 4))


def test_fewer_than_two_hundred_others_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 200 non-members, got 199"):
        at_false_rate(np.ones(5), np.zeros(199))
    with pytest.raises(ValueError, match="members and non-members"):
        curve(np.array([]), np.zeros(3))
    with pytest.raises(ValueError, match="NaN"):
        area(np.array([np.nan]), np.zeros(3))


@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(1, 40))
def test_area_matches_scikit_learn(seed: int, members: int, others: int) -> None:
    random = np.random.default_rng(seed)
    ins, outs = random.integers(0, 6, members).astype(float), random.integers(0, 5, others).astype(float)
    truth = np.repeat([1, 0], [members, others])
    assert area(ins, outs) == pytest.approx(roc_auc_score(truth, np.concatenate([ins, outs])))
    false, true = curve(ins, outs)
    assert (false[0], true[0], false[-1], true[-1]) == (0, 0, 1, 1)
    assert (np.diff(false) >= 0).all()
    assert (np.diff(true) >= 0).all()


@pytest.mark.parametrize(
    ("members", "others", "shift"), [(200, 200, 1.5), (200, 1000, 1.5), (100, 2000, 3.0), (300, 500, 0.0)]
)
def test_intervals_cover_the_truth_of_normal_scores(members: int, others: int, shift: float) -> None:
    """At 1 % false positives Phi(shift - Phi^-1(.99)) of the members are found; the area is Phi(shift / sqrt 2)."""
    random, repeats = np.random.default_rng(1), 400
    rate, whole = float(ndtr(shift - ndtri(0.99))), float(ndtr(shift / 2**0.5))
    covered = np.zeros(2)
    for _ in range(repeats):
        ins, outs = shift + random.standard_normal(members), random.standard_normal(others)
        point, (low, high) = at_false_rate(ins, outs), area_interval(ins, outs)
        covered += [point.low <= rate <= point.high, low <= whole <= high]
    # Nominal .95; DeLong's interval is asymptotic, so three standard deviations of 400 tosses below are allowed.
    assert covered[0] >= 0.95 * repeats
    assert covered[1] >= (0.95 - 3 * (0.95 * 0.05 / repeats) ** 0.5) * repeats


def test_the_interval_of_an_area_without_variance_is_not_a_point() -> None:
    half = np.sqrt(np.log(40) / (2 * 200))
    assert area_interval(np.ones(200), np.zeros(300)) == pytest.approx((1 - half, 1))
    assert area_interval(np.zeros(200), np.zeros(300)) == pytest.approx((0.5 - half, 0.5 + half))
    low, high = area_interval(np.ones(1), np.array([0.0, 2.0]))
    assert (low, high) == (0, 1)
