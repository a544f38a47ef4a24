"""Captions and row names of a sheet of images, and the mean quality of images."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from asyncfl.audit.reconstruction.image_reconstruction import LevelImages
from asyncfl.audit.reconstruction.image_sheet import GRANTED, caption_of


def caption(samples: int, steps: int) -> str:
    pictures: Any = SimpleNamespace(samples=samples, steps=steps, base_version=4, method="labels")
    return caption_of(pictures, "somewhere")


def test_a_caption_counts_images_and_steps() -> None:
    assert caption(1, 1).startswith(f"1 image, 1 local step, from version 4; labels alone; {GRANTED}. ")
    assert caption(3, 2).startswith("3 images, 2 local steps, attacked as one, from version 4; ")
    assert caption(2, 1).endswith("Data: somewhere.")


@pytest.mark.parametrize(
    ("each", "mean"), [([10.0, 20.0], -10 * math.log10((0.1 + 0.01) / 2)), ([30.0], 30.0), ([math.inf] * 2, math.inf)]
)
def test_the_mean_quality_is_that_of_the_mean_error(each: list[float], mean: float) -> None:
    nothing = np.zeros((len(each), 1, 1, 1), np.float32)
    level = LevelImages(1.0, 0.0, nothing, np.array(each), np.zeros(len(each)), 0.5)
    assert level.mean_psnr_db == pytest.approx(mean)
