import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncfl.analysis.statistics import paired, t_interval


def test_the_t_interval_of_five_numbers_by_hand():
    # mean 3, sd sqrt(2.5), t(4, .975) = 2.776445
    span = t_interval([1, 2, 3, 4, 5])
    assert span.mean == 3
    assert span.low == pytest.approx(3 - 2.776445 * np.sqrt(2.5 / 5), abs=1e-6)
    assert span.high == pytest.approx(3 + 2.776445 * np.sqrt(2.5 / 5), abs=1e-6)
    assert span.seeds == 5


def test_one_seed_tells_nothing_unless_it_is_a_formula():
    assert t_interval([2.0]).low == -np.inf
    assert not t_interval([2.0]).above_zero
    assert t_interval([2.0], exact=True).above_zero


def test_nothing_measured():
    span = t_interval([np.nan])
    assert span.seeds == 0
    assert np.isnan(span.mean)
    assert not span.above_zero
    assert not span.below_zero


def test_pairing_removes_what_the_seeds_share():
    seeds = np.array([-20.0, -10, 0, 10, 20])
    assert paired(seeds + 1, seeds).above_zero
    assert not t_interval(seeds + 1).above_zero


def test_a_diverged_seed_is_infinitely_bad_and_only_signs_speak():
    good, lost = [0.3, 0.4, 0.5], [0.6, np.inf, 0.7]
    worse = paired(lost, good)
    assert worse.above_zero
    assert worse.low == pytest.approx(0.2)
    mixed = paired([0.1, np.inf, 0.2], good)
    assert not mixed.above_zero
    assert not mixed.below_zero


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_diverged_seed_beside_a_tie_leaves_both_sides_open(sign):
    span = t_interval(sign * np.array([0.0, np.inf, 0.4]))
    assert (span.mean, span.low, span.high) == (sign * np.inf, -np.inf, np.inf)


def test_where_both_diverged_the_pair_is_left_out():
    span = paired([np.inf, 1.0, 1.1], [np.inf, 0.5, 0.6])
    assert span.seeds == 2
    assert span.mean == pytest.approx(0.5)


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=8))
def test_the_interval_holds_the_mean_and_turns_with_the_sign(values):
    span, turned = t_interval(values), t_interval([-v for v in values])
    assert span.low <= span.mean <= span.high
    assert turned.low == pytest.approx(-span.high)
    assert span.scaled(-1.0).high == pytest.approx(turned.high)
