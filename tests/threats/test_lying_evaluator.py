"""False scores."""

import numpy as np

from asyncfl.threats import LyingEvaluator

SCORES = np.array([0.8, 0.1, 0.75, 0.3])
RNG = np.random.default_rng(0)


def test_complement():
    np.testing.assert_allclose(LyingEvaluator().lie(SCORES, RNG), [0.2, 0.9, 0.25, 0.7])


def test_decoys_are_answered_truthfully():
    np.testing.assert_allclose(LyingEvaluator(decoy_score=0.1).lie(SCORES, RNG), [0.2, 0.1, 0.25, 0.7])


def test_mirror_reverses_the_order_within_the_range():
    answers = LyingEvaluator(answer="mirror", decoy_score=0.2).lie(SCORES, RNG)
    np.testing.assert_allclose(answers, [0.3, 0.1, 0.35, 0.8])
