"""Quality of reconstructed images: PSNR and SSIM, and matching of reconstructions with true images.

SSIM is that of Wang et al. (2004): a Gaussian window of sigma 1.5 and 11 pixels, without correction for small samples.
Images with sides below 11 pixels have a flat window of 7 pixels, or the largest odd window that fits.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

WANG_WINDOW = 11
FLAT_WINDOW = 7

Images = NDArray[np.float32]
"""(n, channels, height, width), pixels 0..1."""


def psnr_db(true: Images, made: Images) -> float:
    """Compute the peak signal-to-noise ratio of an image (channels, height, width), in dB; infinite if equal.

    10 log10(1 / mean squared error): pixels are 0..1, so that the peak is 1.
    """
    error = float(np.mean((true.astype(np.float64) - made.astype(np.float64)) ** 2))
    return -10 * math.log10(error) if error else math.inf


def ssim(true: Images, made: Images) -> float:
    """Compute the structural similarity of an image (channels, height, width), -1..1, averaged over channels."""
    from skimage.metrics import structural_similarity

    side = min(true.shape[1:])
    if side >= WANG_WINDOW:
        window: dict[str, Any] = {"gaussian_weights": True, "sigma": 1.5, "use_sample_covariance": False}
    else:
        window = {"win_size": min(FLAT_WINDOW, side - 1 + side % 2), "use_sample_covariance": False}
    similarity: Any = structural_similarity  # untyped
    pair = (true.astype(np.float64), made.astype(np.float64))
    return float(similarity(*pair, data_range=1.0, channel_axis=0, **window))


def match_images(true: Images, made: Images) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Match reconstructions to true images one to one, with the least total squared error.

    The attacker does not know the matching, but does not need the order either to have learnt the images. Returns the
    indices of true images, ascending, and of their reconstructions. Raises ValueError if the shapes of images differ.
    """
    from scipy.optimize import linear_sum_assignment

    if true.shape[1:] != made.shape[1:]:
        raise ValueError(f"images {true.shape[1:]} and reconstructions {made.shape[1:]} must have one shape")
    flat_true = true.reshape(len(true), -1).astype(np.float64)
    flat_made = made.reshape(len(made), -1).astype(np.float64)
    squared = (flat_true**2).sum(1)[:, None] + (flat_made**2).sum(1) - 2 * flat_true @ flat_made.T
    rows, columns = linear_sum_assignment(squared)
    return rows, columns
