"""Best numbers of rounds and participants."""

import numpy as np
import pytest

from asyncfl.privacy.bounds import (
    BoundSettings,
    FullParticipation,
    LossConstants,
    PartialParticipation,
    optimum,
)

PARTIAL = PartialParticipation(LossConstants(smoothness=0.1), BoundSettings(epsilon=6))


def test_an_optimum_at_the_end_of_the_range_is_not_interior():
    found = optimum(FullParticipation(LossConstants(), BoundSettings()), 10)
    assert (found.best, found.interior) == (10, False)


def test_theorem_3_is_minimised_where_it_is_defined():
    rounds, participants = optimum(lambda T: PARTIAL(T, 20), 500), optimum(lambda K: PARTIAL(25, K), 50)
    assert rounds.bound == np.nanmin(PARTIAL(np.arange(1, 501), 20))
    assert participants.bound == np.nanmin(PARTIAL(25, np.arange(1, 51)))
    # Both lie at the edge beyond which the logarithm of equation 8 does not exist, where its noise term vanishes.
    assert (rounds.best, rounds.interior) == (12, False)
    assert (participants.best, participants.interior) == (11, False)


def test_a_bound_that_is_nowhere_defined_has_no_optimum():
    assert optimum(lambda K: PartialParticipation(LossConstants(), BoundSettings())(25, K), 50) is None


def within(low, high, at):
    """A parabola around `at` that is defined from `low` to `high` alone."""
    return lambda t: np.where((t >= low) & (t <= high), (t - at) ** 2 + 3, np.nan)


@pytest.mark.parametrize(
    ("low", "high", "at", "best", "real", "interior"),
    [
        (1, 20, 5.2, 5, 5.2, True),
        (1, 20, 4.51, 5, 4.51, True),
        (1, 20, 5.49, 5, 5.49, True),
        (3, 9, 3.4, 3, 3.4, False),
        (3, 9, 2.0, 3, 3.0, False),
        (3, 9, 8.7, 9, 8.7, False),
        (3, 9, 30.0, 9, 9.0, False),
        (4, 4, 4.3, 4, 4.0, False),
        (3.8, 5.2, 4.3, 4, 4.3, False),
    ],
)
def test_best_integer_and_best_real_number_of_a_parabola(low, high, at, best, real, interior):
    found = optimum(within(low, high, at), 10 if high < 10 else 20)
    assert (found.best, found.interior) == (best, interior)
    assert found.bound == pytest.approx((best - at) ** 2 + 3)
    assert found.real == pytest.approx(real, abs=2e-5)
