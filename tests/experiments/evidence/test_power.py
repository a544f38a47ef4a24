import numpy as np
import pytest
from scipy import stats

from asyncfl.experiments.evidence.p_values import chance, clean_runs_needed, seeds_needed, visible
from asyncfl.experiments.evidence.samples import q_values


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
