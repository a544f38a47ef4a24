import numpy as np
import pytest

from asyncfl.data.catalog import CATALOG
from asyncfl.data.pixels import to_common_shape, to_float


def test_unit_scaling_divides_by_255():
    images = np.array([[[0, 51], [102, 255]]], np.uint8)
    scaled = to_float(images, None)
    np.testing.assert_allclose(scaled, [[[[0, 0.2], [0.4, 1.0]]]], rtol=1e-6)
    assert scaled.dtype == np.float32


def test_standardised_by_hand():
    scaled = to_float(np.array([[[0, 255]]], np.uint8), CATALOG["mnist"])
    np.testing.assert_allclose(scaled[0, 0, 0], [-0.1307 / 0.3081, 0.8693 / 0.3081], rtol=1e-5)


def test_channels_come_first_each_with_its_own_mean():
    images = np.zeros((2, 3, 4, 3), np.uint8)
    images[..., 1] = 255
    scaled = to_float(images, CATALOG["svhn"])
    assert scaled.shape == (2, 3, 3, 4)
    assert scaled.flags.c_contiguous
    np.testing.assert_allclose(scaled[0, :, 0, 0], [-0.4377 / 0.198, 0.5562 / 0.201, -0.4728 / 0.197], rtol=1e-5)


def test_resampling_agrees_with_pillows_bilinear():
    image_module = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(0)
    for side in (16, 32):
        image = rng.integers(0, 256, (side, side), dtype=np.uint8)
        theirs = image_module.fromarray(image).resize((28, 28), image_module.Resampling.BILINEAR)
        ours = to_common_shape(image[None])[0, :, :, 0]
        assert np.abs(np.asarray(theirs).astype(int) - ours.astype(int)).max() <= 1
