"""Receiver operating characteristic of membership scores."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from asyncfl.privacy.estimators.roc import area, at_false_rate, curve


def test_one_percent_of_200_allows_two_false_positives() -> None:
    others = np.arange(200.0)
    point = at_false_rate(np.array([196.0, 197.0, 197.5, 198.5, 300.0]), others)
    assert (point.true_positives, point.members, point.false_positives, point.others) == (3, 5, 2, 200)
    assert point.rate == 0.6
    # Clopper, Pearson 1934: 3 of 5.
    assert point.rate_interval == pytest.approx((0.1466328, 0.9472550), abs=1e-6)


def test_ties_are_not_true_positives() -> None:
    point = at_false_rate(np.zeros(10), np.zeros(200))
    assert (point.true_positives, point.false_positives) == (0, 0)
    assert area(np.zeros(10), np.zeros(200)) == 0.5


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
