"""Quality of reconstructed images: PSNR and SSIM, and matching of reconstructions with true images.

SSIM is that of Wang et al. (2004): a Gaussian window of sigma 1.5 and 11 pixels, without correction for small samples.
Images with sides below 11 pixels have a flat window of 7 pixels, or the largest odd window that fits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
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


@dataclass(frozen=True)
class MatchedImages:
    """Pairs of true and reconstructed images."""

    true: NDArray[np.int64]
    """(n,) indices of true images, ascending; fewer than all if there are fewer reconstructions."""
    made: NDArray[np.int64]
    """(n,) index of the reconstruction of each true image."""
    psnr_db: NDArray[np.float64]
    """(n,) PSNR of each pair, in dB."""
    ssim: NDArray[np.float64]
    """(n,) SSIM of each pair, -1..1."""


def match_images(true: Images, made: Images) -> MatchedImages:
    """Match reconstructions to true images one to one, with the least total squared error.

    true: (n, channels, height, width). made: (m, channels, height, width).

    The attacker does not know the matching, but does not need the order either to have learnt the images. Raises
    ValueError if the shapes of the images differ.
    """
    from scipy.optimize import linear_sum_assignment

    if true.shape[1:] != made.shape[1:]:
        raise ValueError(f"images {true.shape[1:]} and reconstructions {made.shape[1:]} must have one shape")
    flat_true = true.reshape(len(true), -1).astype(np.float64)
    flat_made = made.reshape(len(made), -1).astype(np.float64)
    squared = (flat_true**2).sum(1)[:, None] + (flat_made**2).sum(1) - 2 * flat_true @ flat_made.T
    rows, columns = linear_sum_assignment(squared)
    pairs = list(zip(true[rows], made[columns], strict=True))
    return MatchedImages(
        rows,
        columns,
        np.array([psnr_db(*pair) for pair in pairs], np.float64),
        np.array([ssim(*pair) for pair in pairs], np.float64),
    )
