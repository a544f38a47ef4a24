"""Best numbers of rounds and participants."""

import numpy as np

from asyncfl.privacy.bounds import (
    BoundSettings,
    FullParticipation,
    LossConstants,
    PartialParticipation,
    optimum,
)

PARTIAL = PartialParticipation(LossConstants(smoothness=0.1), BoundSettings(epsilon=6))


def test_best_rounds_is_the_smallest_of_all():
    bound = FullParticipation(LossConstants(), BoundSettings())
    found = optimum(bound, 100)
    assert found.bound == bound(np.arange(1, 101)).min()
    assert abs(found.real - found.best) <= 1


def test_the_end_of_the_range_is_not_interior():
    found = optimum(FullParticipation(LossConstants(), BoundSettings()), 10)
    assert (found.best, found.interior) == (10, False)


def test_theorem_3_is_searched_where_it_is_defined():
    rounds, participants = optimum(lambda T: PARTIAL(T, 20), 500), optimum(lambda K: PARTIAL(25, K), 50)
    assert rounds.bound == np.nanmin(PARTIAL(np.arange(1, 501), 20))
    assert participants.bound == np.nanmin(PARTIAL(25, np.arange(1, 51)))
    # Both lie at the edge beyond which the logarithm of equation 8 does not exist, where its noise term vanishes.
    assert (rounds.best, rounds.interior) == (12, False)
    assert (participants.best, participants.interior) == (11, False)


def test_nowhere_defined_has_no_best():
    assert optimum(lambda K: PartialParticipation(LossConstants(), BoundSettings())(25, K), 50) is None
