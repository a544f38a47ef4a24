"""Gaussian noise in place of an update."""

import numpy as np
import pytest

from asyncfl.threats import Gaussian


def test_noise_has_the_given_deviation_and_is_independent(make_view):
    view = make_view(honest=np.full((3, 20_000), 7.0))
    noise = Gaussian(std=0.25).craft(view)
    assert noise.std(axis=1) == pytest.approx([0.25] * 3, rel=0.03)
    assert np.abs(noise.mean(axis=1)).max() < 0.01
    assert abs(np.corrcoef(noise)[0, 1]) < 0.05
