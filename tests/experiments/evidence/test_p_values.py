"""Tests of one comparison, their power, and paired samples."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from asyncfl.experiments.evidence.p_values import Sample, exact, excess, pair, q_values, runs, signs, student
from asyncfl.experiments.evidence.power import chance, clean_runs_needed, seeds_needed, visible


def test_student_is_that_of_scipy():
    x = np.array([0.3, -0.1, 0.5, 0.2, 0.9])
    found = student(x, 0.025)
    assert found.p_holds == pytest.approx(stats.ttest_1samp(x, 0, alternative="greater").pvalue)
    assert found.p_fails == pytest.approx(stats.ttest_1samp(x, 0, alternative="less").pvalue)
    low, high = stats.t.interval(0.95, 4, x.mean(), stats.sem(x))
    assert (found.low, found.high, found.effect) == pytest.approx((low, high, 0.36))


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=12, unique=True), st.sampled_from([0.025, 0.0093]))
def test_a_p_value_is_below_the_level_where_the_interval_leaves_0_out(values, alpha):
    x = np.array(values)
    if np.ptp(x) < 1e-3:
        return
    found = student(x, alpha)
    assert (found.low > 0) == (found.p_holds < alpha)
    assert (found.high < 0) == (found.p_fails < alpha)


@pytest.mark.parametrize(("alpha", "fewest"), [(0.025, 6), (0.0125, 7), (0.0093, 7), (1 / 64, 6)])
def test_signs_say_nothing_below_the_seeds_that_their_level_asks_for(alpha, fewest):
    few = signs(np.array([np.inf] * (fewest - 1)), True, alpha)
    assert (few.test, few.p_holds, few.p_fails, few.low, few.high) == ("none", 1, 1, -np.inf, np.inf)
    assert signs(np.array([]), True, alpha).seeds == 0
    enough = signs(np.array([np.inf, *[1.0] * (fewest - 1)]), True, alpha)
    assert (enough.test, enough.p_holds, enough.low, enough.high) == ("signs", 2**-fewest, 1.0, np.inf)
    assert enough.p_holds <= alpha < 2 * enough.p_holds


def test_signs_are_the_binomial_test_and_bound_the_median():
    x = np.array([-np.inf, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, np.inf])
    found = signs(x, True, 0.025)
    assert found.p_holds == pytest.approx(stats.binomtest(11, 12, 0.5, alternative="greater").pvalue)
    # P(X <= 2) = 79 / 4096 = .0193 at 12: two values may lie beyond each limit
    assert (found.low, found.high, found.effect) == (2, 9, 5.5)
    assert np.isnan(signs(np.array([np.inf, -np.inf] * 4), True, 0.025).effect)


@pytest.mark.parametrize("alpha", [0.01, 0.1, 0.3, 0.45])
def test_limits_of_the_median_are_as_far_in_as_the_level_allows(alpha):
    for n in range(7, 30):
        found = signs(np.arange(n, dtype=np.float64), True, alpha)
        beyond = [k for k in range(n) if stats.binom.cdf(k, n, 0.5) <= alpha]
        if beyond:
            assert (found.low, found.high) == (beyond[-1], n - 1 - beyond[-1])
        else:
            assert (found.low, found.high) == (-np.inf, np.inf)


def test_a_tie_speaks_against_more_and_for_as_much():
    ties = np.zeros(8)
    assert signs(ties, True, 0.025).p_fails == 2**-8
    assert signs(ties, False, 0.025).p_holds == 2**-8


def test_thirty_clean_runs():
    found = runs(0, 30, 0.1, 0.025)
    assert found.high == pytest.approx(0.1157, abs=5e-5)
    assert found.p_holds == pytest.approx(0.9**30)
    assert found.p_fails == 1
    low, high = stats.binomtest(4, 12).proportion_ci(0.95)
    found = runs(4, 12, 0.1, 0.025)
    assert (found.low, found.high) == pytest.approx((low, high))
    assert found.p_fails == pytest.approx(stats.binomtest(4, 12, 0.1, alternative="greater").pvalue)
    assert runs(3, 3, 0.1, 0.025).high == 1


def test_each_test_states_its_distance_in_standard_errors():
    x = np.array([0.3, -0.1, 0.5, 0.2, 0.9])
    assert student(x, 0.025).t == pytest.approx(x.mean() / (x.std(ddof=1) / np.sqrt(5)))
    assert (student(x, 0.025).sd, student(x, 0.025).seeds) == (pytest.approx(x.std(ddof=1)), 5)
    # The deviate of signs: 8 of 10 on one side are 6 more than on the other, over the root of 10.
    ten = np.array([1.0] * 8 + [-1.0] * 2)
    assert signs(ten, True, 0.025).t == pytest.approx(6 / np.sqrt(10))
    assert signs(-ten, True, 0.025).t == pytest.approx(-6 / np.sqrt(10))
    assert (signs(ten, True, 0.025).p_holds, signs(ten, True, 0.025).p_fails) == pytest.approx(
        (stats.binom.cdf(2, 10, 0.5), stats.binom.cdf(8, 10, 0.5))
    )
    # 4 of 40 runs break it where 1 of 5 may, which is (.2 - .1) over the root of .16/40.
    some = runs(4, 40, 0.2, 0.025)
    assert some.t == pytest.approx(0.1 / np.sqrt(0.16 / 40))


@pytest.mark.parametrize(
    ("value", "strict", "holds"), [(1.0, True, True), (0.0, True, False), (0.0, False, True), (-1.0, False, False)]
)
def test_exact_values_hold_or_fail(value, strict, holds):
    found = exact(np.array([value, value]), strict)
    assert (found.p_holds, found.p_fails) == ((0.0, 1.0) if holds else (1.0, 0.0))
    assert (found.effect, found.low, found.high, found.sd, found.seeds) == (value, value, value, 0.0, 2)
    assert found.t == (np.inf if holds else -np.inf)


def test_the_visible_effect_has_a_power_of_80_percent():
    distance = visible(2.0, 6, 0.025)
    x = np.random.default_rng(0).normal(distance, 2.0, (20_000, 6))
    seen = stats.ttest_1samp(x, 0, axis=1, alternative="greater").pvalue <= 0.025
    assert seen.mean() == pytest.approx(0.8, abs=0.01)
    assert np.isnan(visible(2.0, 1, 0.025))
    assert np.isnan(visible(np.nan, 6, 0.025))


def test_seeds_needed_are_those_at_which_the_effect_becomes_visible():
    # power tables of the one-sample t test: d = 1 at .05 two-sided takes 10, d = .5 takes 34
    assert seeds_needed(1.0, 1.0, 0.025) == 10
    assert seeds_needed(-0.5, 1.0, 0.025) == 34
    assert visible(1.0, 34, 0.025) <= 0.5 < visible(1.0, 33, 0.025)
    assert seeds_needed(50.0, 1.0, 0.025) == 2
    assert seeds_needed(0.01, 1.0, 0.025) is None
    assert seeds_needed(0.0, 1.0, 0.025) is None


def test_clean_runs_needed():
    assert clean_runs_needed(0.1, 0.025) == 36
    assert 0.9**36 <= 0.025 < 0.9**35


def test_q_values_by_hand():
    # p * 4 / rank: .04, .04, .04, .8; the third lowers the first two
    assert q_values([0.01, 0.8, 0.02, 0.03]) == pytest.approx([0.04, 0.8, 0.04, 0.04])
    assert q_values([0.5, np.nan, 0.001]) == pytest.approx([0.5, np.nan, 0.002], nan_ok=True)
    assert len(q_values([])) == 0


def test_the_chance_of_being_seen_is_a_probability_however_clear_the_effect():
    assert chance(1.0, 1.0, 10, 0.025) == chance(-2.0, 2.0, 10, 0.025) == pytest.approx(0.803, abs=5e-4)
    # Where the tail is beyond what a double holds the noncentral t is no number.
    assert [chance(effect, 1.0, 3, 0.025) for effect in (1e12, 1e300, np.inf)] == [1.0] * 3


INF = np.inf


def sample(values, seeds=None):
    return Sample(np.arange(len(values)) if seeds is None else np.array(seeds), np.array(values, dtype=float))


def test_seeds_are_paired_by_their_number():
    a, b = pair(sample([1, 2, 3], [1, 2, 3]), sample([20, 30, 40], [2, 3, 4]))
    assert (a.seeds.tolist(), a.values.tolist(), b.values.tolist()) == ([2, 3], [2, 3], [20, 30])
    a, b = pair(sample([1, np.nan, 3]), sample([1, 2, np.nan]))
    assert (len(a), a.values.tolist(), b.values.tolist()) == (1, [1], [1])
    assert len(pair(sample([1], [0]), sample([1], [1]))[0]) == 0


def test_differences_of_nothing_are_ties():
    one, third = np.array([1.0, 0.1 + 0.2, 5.0]), np.array([np.nextafter(1.0, 2), 0.3, 5.1])
    assert excess(one, third, 0.0).tolist()[:2] == [0, 0]
    assert excess(one, third, 0.0)[2] < 0
    assert excess(np.array([0.3]), np.array([0.2]), 0.1).tolist() == [0]


def test_two_diverged_seeds_tie():
    found = excess(np.array([INF, INF, 1.0, -INF]), np.array([INF, 1.0, INF, -INF]), 0.0)
    assert found.tolist() == [0, INF, -INF, 0]
    assert excess(np.array([INF]), np.array([INF]), -0.1).tolist() == [0.1]


def test_constant_over_seeds():
    assert sample([4.0, 4.0]).is_constant
    assert sample([INF, INF]).is_constant
    for values in ([4.0], [4.0, 4.1], [4.0, np.nan, 4.0], [INF, 4.0], [INF, -INF]):
        assert not sample(values).is_constant
