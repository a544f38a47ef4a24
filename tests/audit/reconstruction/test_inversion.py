"""Images from a gradient by descent."""

import numpy as np
import pytest
import torch

from asyncfl.audit.reconstruction.image_reconstruction import match_images, ssim
from asyncfl.audit.reconstruction.inversion import Inversion, PixelRange, _Problem
from asyncfl.learning import Mlp, Training, make_learner
from asyncfl.learning.weights import module_with_parameters

UNIT = PixelRange(np.zeros((1, 1, 1), np.float32), np.ones((1, 1, 1), np.float32))


def invert(inversion, model, shape, count, factor=1.0):
    """Invert the gradient of a batch at a new network; return the quality of the images, and the images."""
    learner = make_learner(model, Training(), shape, 5)
    generator = torch.Generator()
    generator.manual_seed(1)
    base = model.initial_parameters(shape, 5, generator)
    random = np.random.default_rng(1)
    side = np.linspace(0, 1, shape[1], dtype=np.float32)
    images = np.stack([np.outer(side**k, side[::-1]) for k in range(count)])[:, None]
    labels = np.arange(count)
    gradient = factor * learner.gradient(base, images, labels)
    random = np.random.default_rng(0)
    found = inversion.images(model, shape, 5, base, gradient, labels, UNIT, random)
    made = UNIT.to_unit(found)
    return min(ssim(images[place], made[of]) for place, of in zip(*match_images(images, made), strict=True)), found


@pytest.mark.parametrize("distance", ["l2", "cosine"])
def test_one_image_is_found_from_a_small_network(distance):
    quality, _ = invert(Inversion(distance, steps=200), Mlp(hidden=(64,)), (1, 12, 12), 1)
    assert quality > 0.9


def test_cosine_distance_ignores_a_factor_on_the_gradient():
    inversion = Inversion(steps=60)
    _, one = invert(inversion, Mlp(hidden=(32,)), (1, 12, 12), 1)
    _, other = invert(inversion, Mlp(hidden=(32,)), (1, 12, 12), 1, factor=1024.0)
    np.testing.assert_allclose(one, other, atol=1e-3)


def test_a_gradient_of_nan_gives_finite_images():
    model, shape = Mlp(hidden=(8,)), (1, 8, 8)
    base = np.zeros(model.layout(shape, 5).n_parameters, np.float32)
    for distance in ("l2", "cosine"):
        found = Inversion(distance, steps=5).images(
            model, shape, 5, base, np.full_like(base, np.nan), np.array([1]), UNIT, np.random.default_rng(0)
        )
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
        problem = _Problem(module, gradient, labels, pixels)
        return [float(problem.distance(torch.from_numpy(images), kind).detach()) for kind in ("l2", "cosine")]

    assert distances(own) == pytest.approx([0, 0], abs=1e-6)
    assert distances(2 * own) == pytest.approx([1 / 4, 0], abs=1e-6)
    assert distances(-own) == pytest.approx([4, 2], abs=1e-6)
    problem = _Problem(module, own, labels, pixels)
    assert (problem.middle.item(), problem.spread.item()) == (1, 1)
    # Pixels are an eleventh apart across, and three of these down.
    assert float(problem.variation(torch.from_numpy(images))) == pytest.approx(4 / 11)
    beyond = torch.tensor([-2.0, -1.0, 0.5, 3.0, 9.0]).reshape(1, 1, 1, 5)
    assert problem.clamped(beyond).flatten().tolist() == [-1, -1, 0.5, 3, 3]
