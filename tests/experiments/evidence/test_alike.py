"""The third answer: a difference that is smaller than what matters, whatever its sign."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from asyncfl.experiments.evidence.decision import ALPHA, ONE_LOOK, AllOf, AnyOf, Comparison, Looks
from asyncfl.experiments.evidence.p_values import student, with_region
from asyncfl.experiments.evidence.power import may_be_alike, seeds_needed_alike

THREE_LOOKS = Looks(tuple(range(12)), (3, 6, 12))
FOUR = (0.001, 0.003, -0.001, 0.005)
"""Mean .002 and standard error .00129099; t(3) = 3.182446 puts the interval at [-.0021085, .0061085]."""


def comparison(*excess: float, **fields: Any) -> Comparison:
    return Comparison(np.arange(len(excess)), np.array(excess), "it is more by", **fields)


def at(mean: float, seeds: int, smallest: float | None = None) -> Comparison:
    """A comparison of so many seeds whose mean is so many standard errors above 0, with a region in standard errors."""
    x = np.linspace(-1, 1, seeds)
    error = float(x.std(ddof=1) / np.sqrt(seeds))
    return comparison(*(x + mean * error), smallest=None if smallest is None else smallest * error)


@pytest.mark.parametrize(
    ("smallest", "answer"), [(None, "not decided"), (0.0061, "not decided"), (0.0062, "alike"), (1.0, "alike")]
)
def test_a_difference_is_alike_where_its_whole_interval_is_within_the_region(smallest: float, answer: str) -> None:
    found = comparison(*FOUR, smallest=smallest).decide()
    assert found.answer == answer
    low, high = found.by.reading.low, found.by.reading.high
    assert (low, high) == pytest.approx((-0.0021085, 0.0061085), abs=5e-8)


def test_its_p_value_is_the_larger_one_of_two_one_sided_tests() -> None:
    found = comparison(*FOUR, smallest=0.0062).decide()
    above = stats.ttest_1samp(FOUR, -0.0062, alternative="greater").pvalue
    below = stats.ttest_1samp(FOUR, 0.0062, alternative="less").pvalue
    assert (found.p_above, found.p_below) == pytest.approx((above, below))
    assert found.p == found.p_below < ALPHA


# the limits of a look of (3, 6, 12) are t(5) = 3.43 and t(11) = 2.76, those of one look 2.571 and 2.201
@pytest.mark.parametrize(
    ("seeds", "looks", "limit"), [(6, ONE_LOOK, 2.571), (6, THREE_LOOKS, 3.43), (12, THREE_LOOKS, 2.76)]
)
def test_looks_widen_the_interval(seeds: int, looks: Looks, limit: float) -> None:
    assert at(0.0, seeds, limit * 0.995).decide(looks).answer == "not decided"
    found = at(0.0, seeds, limit * 1.005).decide(looks)
    assert (found.answer, found.wanting) == ("alike", ())
    # a p-value over all looks counts what a look's level lacks of the whole
    assert found.p == pytest.approx(stats.t.sf(limit * 1.005, seeds - 1) * ALPHA / looks.alpha)


def test_a_certain_difference_holds_or_fails_however_small_it_is() -> None:
    assert at(9.0, 12, 100.0).decide().answer == "holds"
    assert at(-9.0, 12, 100.0).decide().answer == "does not hold"
    # ties of all seeds decide by themselves too
    assert comparison(*[0.0] * 7, smallest=1.0).decide().answer == "does not hold"
    assert comparison(*[0.0] * 7, smallest=1.0, strict=False).decide().answer == "holds"


def test_diverged_seeds_leave_a_median_that_may_be_alike() -> None:
    # with 12 seeds the interval of the median leaves out one value at each end (13 / 4096), at the level of a look too
    inside = [0.03, -0.03, 0.02, -0.02, 0.04, -0.04, 0.01, -0.01, 0.025, -0.025]
    found = comparison(*inside, np.inf, -np.inf, smallest=0.05).decide(THREE_LOOKS)
    assert (found.answer, found.by.reading.test) == ("alike", "signs")
    assert found.p == pytest.approx(13 / 4096 * ALPHA / THREE_LOOKS.alpha)
    assert comparison(*inside, np.inf, np.inf, smallest=0.05).decide(THREE_LOOKS).answer == "not decided"
    assert comparison(*inside[:4], np.inf, smallest=0.05).decide().answer == "not decided"


@pytest.mark.parametrize("kind", ["count", "deterministic"])
def test_counts_and_exact_values_have_no_region(kind: Any) -> None:
    exact = comparison(0.01, 0.01, kind=kind, tolerated=0.5, smallest=1.0).decide()
    assert exact.answer != "alike"


def test_what_needs_all_of_its_parts_has_the_least_of_their_answers() -> None:
    alike, holds, fails, open_ = at(0, 12, 4), at(9, 12), at(-9, 12), at(0, 12)
    for parts, answer in [
        ((alike, holds), "alike"),
        ((alike, alike), "alike"),
        ((alike, fails), "does not hold"),
        ((alike, open_), "not decided"),
        ((alike, open_, fails), "does not hold"),
    ]:
        assert AllOf(parts).decide().answer == answer
        assert AllOf(parts[::-1]).decide().answer == answer
    assert AllOf([holds, at(0, 12, 5), at(1, 12, 5)]).decide().by.reading.t == pytest.approx(1)


def test_what_needs_one_of_its_parts_has_the_greatest_of_their_answers() -> None:
    alike, holds, fails, open_ = at(0, 12, 4), at(9, 12), at(-9, 12), at(0, 12)
    for parts, answer in [
        ((alike, fails), "alike"),
        ((alike, holds), "holds"),
        ((alike, open_), "not decided"),
        ((alike, open_, holds), "holds"),
    ]:
        assert AnyOf(parts).decide().answer == answer
        assert AnyOf(parts[::-1]).decide().answer == answer


def test_each_of_several_parts_may_be_taken_for_small_by_chance() -> None:
    """t(11) = 2.4 has p = .0176: enough for one comparison, not for two."""
    upper, lower = at(1.0, 12, 3.4), at(-1.0, 12, 3.4)  # the interval ends 2.4 standard errors from one end
    holds, fails = at(9, 12), at(-9, 12)
    assert upper.decide().answer == lower.decide().answer == "alike"
    assert AllOf([upper, holds]).decide().answer == "not decided"
    assert AllOf([lower, holds]).decide().answer == "alike"
    assert AnyOf([lower, fails]).decide().answer == "not decided"
    assert AnyOf([upper, fails]).decide().answer == "alike"
    both = AllOf([upper, holds]).decide()
    assert both.p_alike == pytest.approx(2 * upper.decide().p_below)
    assert both.p_alike > ALPHA


def test_a_small_effect_is_not_given_up_where_more_seeds_may_show_that_it_is_alike() -> None:
    little = (1.0, -1.0, 1.0, -1.5, 1.0, -1.0)  # mean -.083 and sd 1.2: 12 seeds leave .96 on either side
    assert comparison(*little).decide(THREE_LOOKS).by.is_futile
    assert comparison(*little, smallest=0.9).decide(THREE_LOOKS).by.is_futile
    found = comparison(*little, smallest=1.2).decide(THREE_LOOKS)
    assert (found.answer, found.by.is_futile, found.by.more) == ("not decided", False, 12)
    assert not may_be_alike(found.by.reading, 0.08, 10**6, 0.025)


def test_seeds_needed_to_show_that_an_effect_does_not_matter() -> None:
    number = seeds_needed_alike(0.1, 1.0, 0.6, 0.025)
    assert number is not None
    x = np.random.default_rng(0).normal(0.1, 1.0, (4000, number))
    half = stats.t.ppf(0.975, number - 1) * x.std(1, ddof=1) / np.sqrt(number)
    inside = (x.mean(1) - half > -0.6) & (x.mean(1) + half < 0.6)
    assert inside.mean() == pytest.approx(0.8, abs=0.03)
    assert seeds_needed_alike(0.7, 1.0, 0.6, 0.025) is None
    assert seeds_needed_alike(0.0, 1.0, 0.01, 0.025) is None


@given(
    st.lists(st.floats(-1, 1), min_size=2, max_size=12),
    st.floats(0.01, 2),
    st.floats(0.01, 2),
    st.sampled_from([ONE_LOOK, THREE_LOOKS]),
)
def test_a_smaller_region_never_makes_an_open_comparison_alike(
    values: list[float], one: float, other: float, looks: Looks
) -> None:
    small, large = sorted([one, other])
    answers = [comparison(*values, smallest=size).decide(looks).answer for size in (small, large)]
    if answers[0] != "alike":
        assert answers[1] in (answers[0], "alike")
    else:
        assert answers[1] == "alike"


@pytest.mark.parametrize("sd", [0.3, 1.0, 2.0])
@pytest.mark.parametrize("seeds", [3, 6, 12])
def test_an_effect_at_the_border_is_seldom_called_alike(sd: float, seeds: int) -> None:
    repetitions = 4000
    x = np.random.default_rng(seeds).normal(1.0, sd, (repetitions, seeds))
    below = np.mean([with_region(student(row, ALPHA), row, 1.0).p_below <= ALPHA for row in x])
    assert below == pytest.approx(ALPHA, abs=4 * np.sqrt(ALPHA * (1 - ALPHA) / repetitions))
    called = np.mean([comparison(*row, smallest=1.0).decide().answer == "alike" for row in x[:1000]])
    assert called <= ALPHA + 4 * np.sqrt(ALPHA * (1 - ALPHA) / 1000)
