"""Reconstruction of one upload under several noises, and its quality: images, PSNR, SSIM and labels.

SSIM is that of Wang et al. (2004): a Gaussian window of sigma 1.5 and 11 pixels, without correction for small samples.
Images with sides below 11 pixels have a flat window of 7 pixels, or the largest odd window that fits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from asyncfl.audit.finished_run import HeldUpload
from asyncfl.audit.reconstruction.attacker import Attacker, Method
from asyncfl.audit.reconstruction.first_layer import dense_first_layer
from asyncfl.audit.reconstruction.inversion import Inversion
from asyncfl.audit.reconstruction.labels import share_right, share_right_by_chance
from asyncfl.audit.reconstruction.upload import upload_at_epsilon
from asyncfl.base.errors import Fault, ScenarioError
from asyncfl.base.progress import Stage, ignore_progress, one_by_one
from asyncfl.scenario import Scenario

WANG_WINDOW = 11
FLAT_WINDOW = 7

Images = NDArray[np.float32]
"""(n, channels, height, width), pixels 0..1."""

LEVELS: tuple[float | None, ...] = (math.inf, 10_000.0, 1_000.0, 100.0, 10.0)
"""Default epsilons; infinite: no noise."""
GREY = 0.5
"""Pixels of an image that the attacker did not reconstruct."""


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


@dataclass(frozen=True)
class ReconstructionSettings:
    method: Method | None = None
    """Attack; None: `first_layer` where the network allows it, else `cosine`."""
    images: int = 16
    """Largest number of images to reconstruct, >= 1."""
    inversion: Inversion = field(default_factory=Inversion)
    most_parameters: int = 2_000_000
    """Parameters of the largest network to use descent on; a step costs two passes through it."""

    def check(self, scenario: Scenario) -> Method:
        """Return the attack to use on the scenario's network.

        Raises ScenarioError if the attack does not fit the scenario, or if the network is too large.
        """
        if scenario.data.own is not None and not scenario.data.own.are_images:
            message = f"must hold images (bytes) to be reconstructed, {scenario.data.own.title} holds none"
            raise ScenarioError([Fault("data.dataset", message)])
        if not scenario.data.classes:
            message = "must hold classes: labels are inferred from the last layer's row of each; a regression has none"
            raise ScenarioError([Fault("data.dataset", message)])
        if scenario.model.personal:
            message = "must be empty: images are reconstructed from whole models, which no client uploads here"
            raise ScenarioError([Fault("model.personal", message)])
        layout = scenario.model.layout(scenario.data.shape, scenario.data.outputs)
        dense = dense_first_layer(layout, math.prod(scenario.data.shape)) is not None
        method = self.method or ("first_layer" if dense else "cosine")
        if method == "first_layer" and not dense:
            message = "first_layer needs a network that begins with a dense layer with a bias"
            raise ScenarioError([Fault("--method", f"{message}, got model.kind {scenario.model.kind}; take cosine")])
        if method in ("cosine", "l2") and layout.n_parameters > self.most_parameters:
            message = f"descent ({method}) is for networks of at most {self.most_parameters:,} parameters, this one has"
            way_out = "raise it (--most-parameters), or take --method labels"
            raise ScenarioError([Fault("--method", f"{message} {layout.n_parameters:,}; {way_out}")])
        return method


@dataclass(frozen=True)
class LevelImages:
    """Reconstruction of an upload under one noise."""

    epsilon: float | None
    """Epsilon of the noise; infinite: no noise; None: the upload as it was sent."""
    noise_std: float
    """Standard deviation of the noise on each parameter of the upload."""
    made: Images
    """(n, channels, height, width) image for each true image; grey where none was reconstructed."""
    psnr_db: NDArray[np.float64]
    ssim: NDArray[np.float64]
    """(n,) SSIM of each image, -1..1."""
    labels_right: float
    """Share of the labels that were inferred, 0..1."""

    @property
    def mean_psnr_db(self) -> float:
        """PSNR of the mean squared error over all images, in dB."""
        error = float(np.mean(10.0 ** (-self.psnr_db / 10)))
        return -10 * math.log10(error) if error else math.inf


@dataclass(frozen=True)
class ReconstructedImages:
    """Reconstructions of one upload under several noises."""

    client: int
    task: int
    base_version: int
    samples: int
    steps: int
    method: Method
    places: NDArray[np.int64]
    """(n,) indices of the shown images: those with the least error under the first noise, the best first."""
    true: Images
    """(n, channels, height, width) the shown images, pixels 0..1."""
    levels: tuple[LevelImages, ...]
    guess: LevelImages
    """Baseline without an upload: the mean test image for every image, and labels drawn uniformly."""

    @property
    def table(self) -> pd.DataFrame:
        """Table with a row for each noise: epsilon, noise_std, psnr_db, ssim, ssim_best, labels_right."""
        return pd.DataFrame(
            [
                {
                    "epsilon": level.epsilon,
                    "noise_std": level.noise_std,
                    "psnr_db": level.mean_psnr_db,
                    "ssim": float(level.ssim.mean()),
                    "ssim_best": float(level.ssim.max()),
                    "labels_right": level.labels_right,
                }
                for level in self.levels
            ]
        )


def reconstruct(
    held: HeldUpload,
    settings: ReconstructionSettings,
    epsilons: Sequence[float | None] = LEVELS,
    stage: Stage = ignore_progress,
) -> ReconstructedImages:
    """Attack the upload under the noise of each of `epsilons` (see `upload_at_epsilon`), and return the images.

    Raises ScenarioError if the network is too large or does not fit the attack.
    """
    method = settings.check(held.federation.resolved.scenario)
    attacker = Attacker.of(held)
    images, labels = held.federation.data.client(held.assignment.client)
    true = attacker.pixels.to_unit(images)
    count = min(settings.images, held.samples)
    streams = held.federation.resolved.streams
    found = []
    for epsilon in one_by_one(epsilons, stage, "levels of noise"):
        upload = upload_at_epsilon(held, epsilon)
        # The same first guess under each noise.
        random = streams.generator("reconstruction", held.assignment.client, held.assignment.turn)
        made = attacker.images(upload, method, count, settings.inversion, random)
        read = share_right(attacker.labels(upload), labels)
        found.append((upload.epsilon, upload.std, _matched_to(true, made), read))
    best = _best_indices(true, *found[0][2], count)
    chance = share_right_by_chance(labels, attacker.classes)
    mean = attacker.pixels.to_unit(held.federation.data.test_images.mean(axis=0, dtype=np.float64)[None])
    guess = np.repeat(mean, len(true), axis=0)
    return ReconstructedImages(
        held.assignment.client,
        held.assignment.task,
        held.assignment.base_version,
        held.samples,
        held.federation.path.training.steps(held.samples, held.assignment.epochs),
        method,
        best,
        true[best],
        tuple(_level(true[best], epsilon, std, placed[best], read) for epsilon, std, (placed, _), read in found),
        _level(true[best], None, math.nan, guess[best], chance),
    )


def _matched_to(true: Images, made: Images) -> tuple[Images, NDArray[np.bool_]]:
    """Return for each true image its reconstruction, grey if there is none, and whether there is one."""
    placed, has_one = np.full_like(true, GREY), np.zeros(len(true), bool)
    if len(made):
        place, of = match_images(true, made)
        placed[place], has_one[place] = made[of], True
    return placed, has_one


def _best_indices(true: Images, placed: Images, has_one: NDArray[np.bool_], count: int) -> NDArray[np.int64]:
    """Return (count,) indices of the images with the least error, the best first, those without reconstruction last."""
    errors = ((placed.astype(np.float64) - true) ** 2).mean(axis=(1, 2, 3))
    return np.argsort(np.where(has_one, errors, np.inf), kind="stable")[:count]


def _level(true: Images, epsilon: float | None, std: float, made: Images, right: float) -> LevelImages:
    pairs = list(zip(true, made, strict=True))
    psnrs, ssims = (np.array([quality(*pair) for pair in pairs]) for quality in (psnr_db, ssim))
    return LevelImages(epsilon, std, made, psnrs, ssims, right)
