"""Golden numbers: `CanaryScoreAuditor.epsilon_clopper_pearson(.05, delta, one_sided=False, Explicit(threshold))` of
`jax_privacy/auditing.py` at commit 8967688, for 400 members and 600 others."""

import math

import numpy as np
import pytest

from asyncfl.privacy.accounting.gaussian import exact_epsilon
from asyncfl.privacy.estimators.intervals import interval, lower_bound
from asyncfl.privacy.estimators.repeated_runs import Counts, epsilon_lower_bound, mu_lower_bound

JAX_PRIVACY = [
    (372, 273, 0.0, 1.6219524422720202),
    (372, 273, 1e-2, 1.6019190337322233),
    (273, 83, 0.0, 1.3253134265723276),
    (273, 83, 1e-2, 1.3094250488664314),
    (104, 11, 0.0, 1.8997448432836963),
    (104, 11, 1e-2, 1.8527168788805928),
    (47, 3, 0.0, 1.7960188177652383),
    (47, 3, 1e-2, 1.674841546887634),
]


@pytest.mark.parametrize(("true", "false", "delta", "epsilon"), JAX_PRIVACY)
def test_the_bound_matches_jax_privacy(true: int, false: int, delta: float, epsilon: float) -> None:
    assert epsilon_lower_bound(Counts(true, 400, false, 600), delta) == pytest.approx(epsilon, rel=1e-12)


def test_clopper_pearson_intervals_by_hand() -> None:
    # No success of 200: 1 - (0.025)^(1/200) above, 0 below; all: the mirror image.
    assert interval(0, 200) == pytest.approx((0.0, 1 - 0.025 ** (1 / 200)))
    assert interval(200, 200) == pytest.approx((0.025 ** (1 / 200), 1.0))
    assert lower_bound(1, 1, 0.05) == pytest.approx(0.05)


def test_perfect_guesses_have_a_closed_form() -> None:
    # All guesses right in both worlds: each error rate is below 1 - (level/2)^(1/n).
    wrong = 1 - 0.025 ** (1 / 500)
    assert epsilon_lower_bound(Counts(500, 500, 0, 500)) == pytest.approx(math.log((1 - wrong) / wrong))


def test_both_bounds_hold_at_95_percent_for_a_gaussian_mechanism() -> None:
    mu, delta, random = 1.0, 1e-3, np.random.default_rng(5)
    truth, epsilons, mus = exact_epsilon(mu * mu, delta), [], []
    for _ in range(400):
        members, others = random.standard_normal(1000) + mu, random.standard_normal(1000)
        counts = Counts(int((members > 1.5).sum()), 1000, int((others > 1.5).sum()), 1000)
        epsilons.append(epsilon_lower_bound(counts, delta))
        mus.append(mu_lower_bound(counts))
    assert np.sum(np.array(epsilons) > truth) <= 30
    assert np.sum(np.array(mus) > mu) <= 30
    assert np.median(mus) > 0.75


def test_impossible_counts_are_refused() -> None:
    with pytest.raises(ValueError, match="runs with and runs without the target"):
        Counts(0, 0, 1, 5)
    with pytest.raises(ValueError, match="positives must be"):
        Counts(6, 5, 1, 5)


def test_an_attack_that_never_guesses_in_shows_nothing() -> None:
    assert (
        epsilon_lower_bound(Counts(0, 5, 0, 9))
        == epsilon_lower_bound(Counts(0, 5, 3, 9))
        == mu_lower_bound(Counts(0, 5, 3, 9))
        == 0
    )
    assert epsilon_lower_bound(Counts(5, 5, 9, 9), delta=0.5) == 0
