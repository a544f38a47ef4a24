"""The gradient that an attacker estimates from an upload."""

import numpy as np
import pytest

from asyncfl.audit.reconstruction.attacker import CLIPPED, Attacker, pixel_range
from asyncfl.audit.reconstruction.inversion import PixelRange
from asyncfl.audit.reconstruction.upload import NoisedUpload
from asyncfl.data.catalog import CATALOG
from asyncfl.data.data_spec import DataSpec
from asyncfl.learning import Layout, Mlp

LAYOUT = Layout.of([("1", {"weight": (1, 3)})])
UNIT = PixelRange(np.zeros((1, 1, 1), np.float32), np.ones((1, 1, 1), np.float32))


def attacker(base: list[float], clip_norm: float | None, step: float = 0.5) -> Attacker:
    return Attacker(Mlp(), (1, 1, 3), 1, LAYOUT, np.array(base, np.float32), 1, step, clip_norm, UNIT)


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


def test_non_finite_components_count_as_0() -> None:
    sent = NoisedUpload(None, np.array([np.inf, -np.inf, np.nan], np.float32), 0.0)
    assert attacker([1.0, 1.0, 1.0], None).gradient(sent)[0].tolist() == [0, 0, 0]


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
