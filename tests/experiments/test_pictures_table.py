"""The table of pictures that an attacker made."""

import numpy as np
import pandas as pd
import pytest

from asyncfl.base.contact_sheet import decibels
from asyncfl.experiments.analysis import measured_pictures
from asyncfl.experiments.csv_files import packed, unpacked


def test_an_image_is_packed_to_256_levels_and_back():
    image = np.linspace(0, 1, 2 * 3 * 4, dtype=np.float32).reshape(2, 3, 4)
    np.testing.assert_allclose(unpacked(packed(image), (2, 3, 4)), image, atol=0.5 / 255 + 1e-6)
    levels = np.arange(256, dtype=np.float32).reshape(1, 16, 16) / np.float32(255)
    assert np.array_equal(unpacked(packed(levels), (1, 16, 16)), levels)


def test_pictures_of_a_seed_become_one_row():
    told = {"guess_ssim": 0.2, "labels_right": 0.75, "labels_chance": 0.5}
    rows = [
        {"p": 1, "seed": 0, "method": "cosine", "psnr_db": 10.0, "ssim": 0.2, **told},
        {"p": 1, "seed": 0, "method": "cosine", "psnr_db": 20.0, "ssim": 0.4, **told},
        {"p": 1, "seed": 0, "method": "l2", "psnr_db": np.inf, "ssim": 1.0, **told},
        {"p": 2, "seed": 0, "method": "cosine", "psnr_db": 0.0, "ssim": 0.0, **told},
    ]
    measured = measured_pictures(pd.DataFrame(rows), ["p"]).set_index("p")
    assert measured["ssim_cosine"].tolist() == pytest.approx([0.3, 0.0])
    # mean squared errors of 1/10 and 1/100: 0.055 together
    assert measured["psnr_cosine"].tolist() == pytest.approx([-10 * np.log10(0.055), 0.0])
    assert measured.loc[1, "psnr_l2"] == np.inf
    assert np.isnan(measured.loc[2, "ssim_l2"])
    assert measured["ssim_guess"].tolist() == pytest.approx([0.2, 0.2])
    assert measured["labels_read_share"].tolist() == [0.75, 0.75]
    assert measured["labels_chance_share"].tolist() == [0.5, 0.5]


def test_psnr_is_written_to_a_tenth_of_a_decibel():
    assert [decibels(value) for value in (12.34, 28.0, np.inf)] == ["12.3 dB", "28.0 dB", "∞ dB"]
