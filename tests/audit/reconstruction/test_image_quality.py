"""PSNR and SSIM against values worked out by hand, and the matching of reconstructions."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncfl.audit.reconstruction.image_reconstruction import match_images, psnr_db, ssim


def image(value, side=12, channels=1):
    return np.full((channels, side, side), value, np.float32)


def test_psnr_by_hand():
    # an error of 1/2 everywhere: 10 log10(4); of 1 in one of 144 pixels: 10 log10(144)
    assert psnr_db(image(0.25), image(0.75)) == pytest.approx(10 * math.log10(4))
    spot = image(0.0)
    spot[0, 3, 4] = 1.0
    assert psnr_db(image(0.0), spot) == pytest.approx(10 * math.log10(144))
    assert psnr_db(spot, spot) == math.inf


@pytest.mark.parametrize("side", [5, 8, 12])
def test_ssim_of_flat_images_is_the_luminance_term(side):
    # without any variance: (2 a b + C1)/(a^2 + b^2 + C1), C1 = .01^2
    a, b = 0.25, 0.75
    wanted = (2 * a * b + 1e-4) / (a * a + b * b + 1e-4)
    assert ssim(image(a, side), image(b, side)) == pytest.approx(wanted, abs=1e-6)


def test_ssim_by_the_gaussian_window_of_wang():
    # 11 pixels a side: one window; means, variances and covariance weighted by hand
    random = np.random.default_rng(3)
    x, y = random.random((2, 11, 11)).astype(np.float32).astype(np.float64)
    line = np.exp(-((np.arange(11) - 5) ** 2) / (2 * 1.5**2))
    weights = np.outer(line, line) / line.sum() ** 2
    mx, my = (weights * x).sum(), (weights * y).sum()
    vx, vy = (weights * x * x).sum() - mx**2, (weights * y * y).sum() - my**2
    both = (weights * x * y).sum() - mx * my
    c1, c2 = 1e-4, 9e-4
    wanted = (2 * mx * my + c1) * (2 * both + c2) / ((mx**2 + my**2 + c1) * (vx + vy + c2))
    assert ssim(x[None].astype(np.float32), y[None].astype(np.float32)) == pytest.approx(wanted, abs=1e-7)


@given(st.permutations(range(5)))
def test_matching_does_not_depend_on_the_order(order):
    true = np.random.default_rng(0).random((5, 1, 8, 8)).astype(np.float32)
    places, made = match_images(true, true[list(order)])
    assert [order[place] for place in made] == places.tolist() == list(range(5))


def test_fewer_reconstructions_match_the_closest_images():
    true = np.stack([image(0.0), image(0.5), image(1.0)])
    places, made = match_images(true, np.stack([image(0.9), image(0.1)]))
    assert (places.tolist(), made.tolist()) == ([0, 2], [1, 0])
