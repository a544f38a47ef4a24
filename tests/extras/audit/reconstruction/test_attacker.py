"""Images and labels that an attacker reads from an upload, by division and by descent, and their quality."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncfl.data.catalog import CATALOG
from asyncfl.data.data_spec import DataSpec
from asyncfl.extras.audit.reconstruction.attacker import (
    CLIPPED,
    Attacker,
    Inversion,
    PixelRange,
    dense_first_layer,
    divided_images,
    leaked_labels,
    pixel_range,
    share_right,
    share_right_by_chance,
)
from asyncfl.extras.audit.reconstruction.image_reconstruction import match_images, psnr_db, ssim
from asyncfl.extras.audit.reconstruction.upload import NoisedUpload
from asyncfl.learning import Layout, LeNet, Mlp, Training, make_learner
from asyncfl.learning.weights import module_with_parameters

UNIT = PixelRange(np.zeros((1, 1, 1), np.float32), np.ones((1, 1, 1), np.float32))


def attacker(base: list[float], clip_norm: float | None, step: float = 0.5) -> Attacker:
    learner: Any = None  # unused
    return Attacker(learner, np.array(base, np.float32), 1, step, clip_norm, UNIT)


SCALED = [2 * (44 / 56 * base - sent) for base, sent in ((6, 4), (4, 4), (2, 2))]
"""(s base - upload)/(1/2) with s = (4 * 6 + 4 * 4 + 2 * 2)/(6 * 6 + 4 * 4 + 2 * 2)."""
UNSCALED = [4.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("clip_norm", "std", "gradient"),
    [
        (None, 0.0, UNSCALED),
        (6 / CLIPPED, 0.0, SCALED),
        (6.001 / CLIPPED, 0.0, UNSCALED),
        # The expected noise on three components is subtracted from the norm.
        (6 / CLIPPED, 0.1, UNSCALED),
        (5.9974 / CLIPPED, 0.1, SCALED),
        (0.001, 9.0, UNSCALED),
    ],
)
def test_models_at_the_clip_norm_are_scaled_back(clip_norm: float | None, std: float, gradient: list[float]) -> None:
    sent = NoisedUpload(None, np.array([4.0, 4.0, 2.0], np.float32), std)
    found, noise = attacker([6.0, 4.0, 2.0], clip_norm).gradient(sent)
    assert found == pytest.approx(gradient, abs=1e-5)
    assert noise == 2 * std
    assert attacker([0.0, 0.0, 0.0], clip_norm).gradient(sent)[0] == pytest.approx([-8, -8, -4])


def test_the_range_of_pixels_is_that_of_the_scaled_images() -> None:
    unit = pixel_range(DataSpec(dataset="mnist", scaling="unit"))
    assert (unit.low.item(), unit.high.item()) == (0, 1)
    scaled = pixel_range(DataSpec(dataset="mnist", scaling="standardised"))
    [mean], [std] = CATALOG["mnist"].scale
    assert (scaled.low.item(), scaled.high.item()) == pytest.approx((-mean / std, (1 - mean) / std))
    assert pixel_range(DataSpec(dataset="cifar10")).low.shape == (3, 1, 1)
    mixed = pixel_range(DataSpec(domains=("mnist", "mnist_m"), clients=2, mixed_domains=True))
    # MNIST has mean .1307 and deviation .3081, MNIST-M .5 and .5
    np.testing.assert_allclose(mixed.low.ravel(), [-1.0] * 3, rtol=1e-6)
    np.testing.assert_allclose(mixed.high.ravel(), [(1 - 0.1307) / 0.3081] * 3, rtol=1e-6)


IMAGE, KINDS = (1, 6, 6), 5


def gradient_of(labels, shape, classes, hidden=64, seed=1):
    """Return the gradient of a batch of random images at a new network, its layout, and the images."""
    model = Mlp(hidden=(hidden,))
    learner = make_learner(model, Training(), shape, classes)
    base = model.initial_parameters(shape, classes, torch.Generator().manual_seed(seed))
    images = np.random.default_rng(seed).random((len(labels), *shape)).astype(np.float32)
    return learner.gradient(base, images, np.asarray(labels)), learner.layout, images


def test_one_image_is_found_exactly():
    gradient, layout, images = gradient_of([3], IMAGE, KINDS)
    found = divided_images(gradient, dense_first_layer(layout, 36), IMAGE, 1, UNIT)
    np.testing.assert_allclose(found, images, atol=1e-5)


def test_images_with_a_unit_of_their_own_are_found_exactly():
    # Two units see one image each, the third a mix of both: the corners are the images.
    layout = Layout.of([("first", {"weight": (3, 36), "bias": (3,)})])
    images = np.random.default_rng(2).random((2, 36)).astype(np.float32)
    errors = np.array([[0.3, 0.0], [0.0, -0.2], [0.1, 0.1]], np.float32)
    gradient = np.concatenate([(errors @ images).reshape(-1), errors.sum(axis=1)])
    found = divided_images(gradient, layout.layers[0], IMAGE, 2, UNIT)
    true, made = images.reshape(2, *IMAGE), UNIT.to_unit(found)
    assert all(psnr_db(true[place], made[of]) > 100 for place, of in zip(*match_images(true, made), strict=True))


def test_expected_noise_is_subtracted_from_the_denominator():
    # errors of 1/4 in 64 units with noise of 1/8: the plain ratio is too dark by 1/(1 + (1/2)^2)
    random = np.random.default_rng(0)
    layout = Layout.of([("first", {"weight": (4096, 36), "bias": (4096,)})])
    image = np.full(36, 0.8, np.float32)
    errors = np.full(4096, 0.25)
    gradient = np.concatenate([np.outer(errors, image).reshape(-1), errors])
    noised = gradient + random.normal(0, 0.125, gradient.shape)
    [found] = divided_images(noised, layout.layers[0], IMAGE, 1, UNIT, noise_std=0.125)
    assert found.mean() == pytest.approx(0.8, abs=0.03)
    [plain] = divided_images(noised, layout.layers[0], IMAGE, 1, UNIT)
    assert plain.mean() == pytest.approx(0.8 / 1.25, abs=0.03)


def test_only_a_dense_first_layer_with_a_bias_can_be_divided():
    assert dense_first_layer(Mlp().layout((1, 28, 28), 10), 784).weight_shape == (256, 784)
    assert dense_first_layer(Mlp().layout((1, 28, 28), 10), 783) is None
    assert dense_first_layer(LeNet().layout((1, 28, 28), 10), 784) is None
    assert dense_first_layer(Layout.of([("first", {"weight": (4, 36)})]), 36) is None


def test_pixels_are_scaled_and_clipped_to_0_and_1():
    pixels = PixelRange(np.full((1, 1, 1), -1, np.float32), np.full((1, 1, 1), 3, np.float32))
    given = np.array([-2, -1, 1, 3, np.nan, np.inf], np.float32).reshape(1, 1, 2, 3)
    assert pixels.to_unit(given).reshape(-1).tolist() == [0, 0, 0.5, 1, 0, 1]


SHAPE, CLASSES = (1, 4, 4), 6


@given(st.integers(0, CLASSES - 1), st.integers(0, 5))
def test_the_label_of_one_image_is_always_found(label, seed):
    gradient, layout, _ = gradient_of([label], SHAPE, CLASSES, 12, seed)
    assert leaked_labels(gradient, layout, 1).tolist() == [label]


@settings(max_examples=30)
@given(st.sets(st.integers(0, CLASSES - 1), min_size=2, max_size=3))
def test_labels_that_differ_are_found_in_a_fresh_network(labels):
    gradient, layout, _ = gradient_of(sorted(labels), SHAPE, CLASSES, 12)
    assert leaked_labels(gradient, layout, len(labels)).tolist() == sorted(labels)


def test_labels_by_hand():
    # Two classes besides a third: rows -0.6, -0.3, 0.9; impact (1 + 1/3)/3 * -0.9 = -0.4. The rows below 0 are found
    # once each and become -0.2 and 0.1, so the third label is again 0.
    layout = Layout.of([("last", {"weight": (3, 1)})])
    rows = np.array([-0.6, -0.3, 0.9])
    assert leaked_labels(rows, layout, 3).tolist() == [0, 0, 1]
    assert leaked_labels(1000 * rows, layout, 3).tolist() == [0, 0, 1]
    assert rows.tolist() == [-0.6, -0.3, 0.9]


def test_share_right_counts_labels_with_multiplicity():
    assert share_right(np.array([0, 0, 1, 2]), np.array([0, 1, 1, 3])) == 0.5


def test_chance_equals_the_mean_over_drawn_labels():
    true = np.array([0, 0, 0, 2])
    random = np.random.default_rng(0)
    drawn = [share_right(random.integers(0, 3, 4), true) for _ in range(20_000)]
    assert share_right_by_chance(true, 3) == pytest.approx(np.mean(drawn), abs=0.01)
    # one label of ten: one in ten
    assert share_right_by_chance(np.array([7]), 10) == pytest.approx(0.1)


def invert(distance, steps, hidden, factor=1.0):
    """Invert the gradient of one image at a new network; return the quality of the image found, and this image."""
    model, shape = Mlp(hidden=(hidden,)), (1, 12, 12)
    learner = make_learner(model, Training(), shape, 5)
    base = model.initial_parameters(shape, 5, torch.Generator().manual_seed(1))
    image = np.outer(np.ones(12), np.linspace(1, 0, 12)).astype(np.float32)[None, None]
    gradient = factor * learner.gradient(base, image, np.array([0]))
    inversion = Inversion(module_with_parameters(model, shape, 5, base), gradient, np.array([0]), UNIT)
    found = inversion.images(distance, steps, shape, np.random.default_rng(0))
    return ssim(image[0], UNIT.to_unit(found)[0]), found


@pytest.mark.parametrize("distance", ["l2", "cosine"])
def test_one_image_is_found_from_a_small_network(distance):
    quality, _ = invert(distance, 100, 64)
    assert quality > 0.9


def test_cosine_distance_ignores_a_factor_on_the_gradient():
    np.testing.assert_allclose(invert("cosine", 60, 32)[1], invert("cosine", 60, 32, factor=1024.0)[1], atol=1e-3)


@pytest.mark.parametrize("distance", ["l2", "cosine"])
def test_a_gradient_of_nan_gives_finite_images(distance):
    _, found = invert(distance, 5, 8, factor=np.nan)
    assert np.isfinite(found).all()


def test_distances_and_variation_by_hand():
    model, shape, labels = Mlp(hidden=(8,)), (1, 2, 3), np.array([1, 3])
    learner = make_learner(model, Training(), shape, 5)
    base = model.initial_parameters(shape, 5, torch.Generator().manual_seed(1))
    images = np.linspace(0, 1, 12, dtype=np.float32).reshape(2, *shape)
    own = learner.gradient(base, images, labels)
    module = module_with_parameters(model, shape, 5, base)
    pixels = PixelRange(np.full((1, 1, 1), -1, np.float32), np.full((1, 1, 1), 3, np.float32))

    def distances(gradient):
        problem = Inversion(module, gradient, labels, pixels)
        return [float(problem.distance(torch.from_numpy(images), kind).detach()) for kind in ("l2", "cosine")]

    assert distances(own) == pytest.approx([0, 0], abs=1e-6)
    assert distances(2 * own) == pytest.approx([1 / 4, 0], abs=1e-6)
    assert distances(-own) == pytest.approx([4, 2], abs=1e-6)
    problem = Inversion(module, own, labels, pixels)
    assert (problem.middle.item(), problem.spread.item()) == (1, 1)
    # Pixels are an eleventh apart across, and three of these down.
    assert float(problem.variation(torch.from_numpy(images))) == pytest.approx(4 / 11)
    beyond = torch.tensor([-2.0, -1.0, 0.5, 3.0, 9.0]).reshape(1, 1, 1, 5)
    assert problem.clamped(beyond).flatten().tolist() == [-1, -1, 0.5, 3, 3]


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
