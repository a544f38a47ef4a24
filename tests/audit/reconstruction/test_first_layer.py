"""Images from a dense first layer."""

import numpy as np
import pytest
import torch

from asyncfl.audit.reconstruction.attacker import dense_first_layer, divided_images
from asyncfl.audit.reconstruction.image_reconstruction import match_images, psnr_db
from asyncfl.audit.reconstruction.inversion import PixelRange
from asyncfl.learning import Layout, LeNet, Mlp, Training, make_learner

SHAPE, CLASSES = (1, 6, 6), 5
UNIT = PixelRange(np.zeros((1, 1, 1), np.float32), np.ones((1, 1, 1), np.float32))


def gradient_of_batch(count, hidden=64, seed=1):
    """Return the gradient of a batch of `count` images at a new network, its layout, and the images."""
    model = Mlp(hidden=(hidden,))
    learner = make_learner(model, Training(), SHAPE, CLASSES)
    generator = torch.Generator()
    generator.manual_seed(seed)
    base = model.initial_parameters(SHAPE, CLASSES, generator)
    random = np.random.default_rng(seed)
    images = random.random((count, *SHAPE)).astype(np.float32)
    return learner.gradient(base, images, random.integers(0, CLASSES, count)), learner.layout, images


def test_one_image_is_found_exactly():
    gradient, layout, images = gradient_of_batch(1)
    found = divided_images(gradient, dense_first_layer(layout, 36), SHAPE, 1, UNIT)
    np.testing.assert_allclose(found, images, atol=1e-5)


def test_a_factor_on_the_gradient_changes_nothing():
    gradient, layout, images = gradient_of_batch(1)
    found = divided_images(-250 * gradient, dense_first_layer(layout, 36), SHAPE, 1, UNIT)
    np.testing.assert_allclose(found, images, atol=1e-5)


def test_images_with_a_unit_of_their_own_are_found_exactly():
    # Two units see one image each, the third a mix of both: the corners are the images.
    layout = Layout.of([("first", {"weight": (3, 36), "bias": (3,)})])
    images = np.random.default_rng(2).random((2, 36)).astype(np.float32)
    errors = np.array([[0.3, 0.0], [0.0, -0.2], [0.1, 0.1]], np.float32)
    gradient = np.concatenate([(errors @ images).reshape(-1), errors.sum(axis=1)])
    found = divided_images(gradient, layout.layers[0], SHAPE, 2, UNIT)
    true, made = images.reshape(2, *SHAPE), UNIT.to_unit(found)
    assert all(psnr_db(true[place], made[of]) > 100 for place, of in zip(*match_images(true, made), strict=True))


def test_expected_noise_is_subtracted_from_the_denominator():
    # errors of 1/4 in 64 units with noise of 1/8: the plain ratio is too dark by 1/(1 + (1/2)^2)
    random = np.random.default_rng(0)
    layout = Layout.of([("first", {"weight": (4096, 36), "bias": (4096,)})])
    image = np.full(36, 0.8, np.float32)
    errors = np.full(4096, 0.25)
    gradient = np.concatenate([np.outer(errors, image).reshape(-1), errors])
    noised = gradient + random.normal(0, 0.125, gradient.shape)
    [found] = divided_images(noised, layout.layers[0], SHAPE, 1, UNIT, noise_std=0.125)
    assert found.mean() == pytest.approx(0.8, abs=0.03)
    [plain] = divided_images(noised, layout.layers[0], SHAPE, 1, UNIT)
    assert plain.mean() == pytest.approx(0.8 / 1.25, abs=0.03)


def test_no_image_is_found_without_errors():
    gradient, layout, _ = gradient_of_batch(1)
    assert divided_images(np.zeros_like(gradient), dense_first_layer(layout, 36), SHAPE, 3, UNIT).shape == (0, *SHAPE)


def test_only_a_dense_first_layer_with_a_bias_can_be_divided():
    assert dense_first_layer(Mlp().layout((1, 28, 28), 10), 784).weight_shape == (256, 784)
    assert dense_first_layer(Mlp().layout((1, 28, 28), 10), 783) is None
    assert dense_first_layer(LeNet().layout((1, 28, 28), 10), 784) is None
    assert dense_first_layer(Layout.of([("first", {"weight": (4, 36)})]), 36) is None


def test_pixels_are_scaled_and_clipped_to_0_and_1():
    pixels = PixelRange(np.full((1, 1, 1), -1, np.float32), np.full((1, 1, 1), 3, np.float32))
    given = np.array([-2, -1, 1, 3, np.nan, np.inf], np.float32).reshape(1, 1, 2, 3)
    assert pixels.to_unit(given).reshape(-1).tolist() == [0, 0, 0.5, 1, 0, 1]
