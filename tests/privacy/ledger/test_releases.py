"""Releases of scores and claims of uploads."""

import math

import pytest

from asyncfl.privacy.ledger.releases import Release, answer_release
from asyncfl.privacy.noise import ScoreNoise
from asyncfl.privacy.scheme import Guarantee, Unit


def test_scores_without_noise_count_as_no_mechanism() -> None:
    stated = Guarantee("sample", "replace", "proven", 2.0, 1e-5, 10)
    assert answer_release(None, stated, 3, 20) == Release("gaussian", 0.0, 0.0, 0, 0.0)
    assert answer_release(None, None, 3, 20) == Release("gaussian", 0.0, 0.0, 0, 0.0)


@pytest.mark.parametrize(("unit", "sensitivity"), [("sample", math.sqrt(3) / 20), ("client", math.sqrt(3))])
def test_scores_with_noise_are_one_gaussian_release(unit: Unit, sensitivity: float) -> None:
    stated = Guarantee(unit, "replace", "proven", 2.0, 1e-5, 10)
    found = answer_release(ScoreNoise(std=0.25), stated, 3, 20)
    assert found == Release("gaussian", 0.25, sensitivity, 1, 0.0)
    noise = ScoreNoise(epsilon=0.5)
    budgeted = answer_release(noise, stated, 3, 20)
    assert (budgeted.epsilon, budgeted.std) == (0.5, noise.std_of(3, 20, False))
