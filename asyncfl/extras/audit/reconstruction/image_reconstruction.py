"""Reconstruction of one upload under several noises, and its quality: images, PSNR, SSIM and labels.

SSIM is that of Wang et al. (2004): a Gaussian window of sigma 1.5 and 11 pixels, without correction for small samples.
Images with sides below 11 pixels have a flat window of 7 pixels, or the largest odd window that fits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from asyncfl.base.errors import Fault, OutputError, ScenarioError
from asyncfl.base.files.atomic import atomic_file
from asyncfl.base.instrument import NO_INSTRUMENT, Instrument, one_by_one
from asyncfl.extras.audit.finished_run import HeldUpload, algorithm_faults
from asyncfl.extras.audit.reconstruction.attacker import (
    Attacker,
    Method,
    dense_first_layer,
    share_right,
    share_right_by_chance,
)
from asyncfl.extras.audit.reconstruction.upload import upload_at_epsilon
from asyncfl.results.contact_sheet import SheetRow, draw_sheet, true_row
from asyncfl.scenario import Scenario

WANG_WINDOW = 11
FLAT_WINDOW = 7

Images = NDArray[np.float32]  # (n, channels, height, width), pixels 0..1

LEVELS: tuple[float | None, ...] = (math.inf, 10_000.0, 1_000.0, 100.0, 10.0)  # default epsilons; infinite: no noise
GREY = 0.5  # pixels of an image that the attacker did not reconstruct
NAME = "reconstruction"
METHODS = {
    "first_layer": "division at the first layer",
    "cosine": "descent on the cosine distance of gradients",
    "l2": "descent on the L2 distance of gradients",
    "labels": "labels alone",
}
GRANTED = (
    "known to the attacker: the network, the model that the client was sent, the number of its images, the range of "
    "pixels, the training and the strength of the noise"
)


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
    method: Method | None = None  # attack; None: `first_layer` where the network allows it, else `cosine`
    images: int = 16  # largest number of images to reconstruct, >= 1
    steps: int = 1000  # gradient steps of a descent, >= 1
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
        if not scenario.training.is_basic:
            message = "must be SGD of one learning rate, from a fresh state, without weight decay: the attack takes an "
            raise ScenarioError([Fault("training", f"{message}update for a sum of gradients")])
        if faults := list(algorithm_faults(scenario)):
            raise ScenarioError(faults)
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

    epsilon: float | None  # epsilon of the noise; infinite: no noise; None: the upload as it was sent
    noise_std: float  # standard deviation of the noise on each parameter of the upload
    true: Images
    made: Images  # (n, channels, height, width) image for each true image; grey where none was reconstructed
    labels_right: float  # share of the labels that were inferred, 0..1

    @cached_property
    def psnr_db(self) -> NDArray[np.float64]:
        """(n,) PSNR of each image, in dB."""
        return np.array([psnr_db(*pair) for pair in zip(self.true, self.made, strict=True)])

    @cached_property
    def ssim(self) -> NDArray[np.float64]:
        """(n,) SSIM of each image, -1..1."""
        return np.array([ssim(*pair) for pair in zip(self.true, self.made, strict=True)])

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
    true: Images  # (n, channels, height, width) the shown images, pixels 0..1
    levels: tuple[LevelImages, ...]
    guess: LevelImages  # baseline without an upload: the mean test image for every image, and labels drawn uniformly

    @property
    def table(self) -> pd.DataFrame:
        """Table with a row for each noise: epsilon, noise_std, psnr_db, ssim, ssim_best, labels_right."""
        rows = [
            (
                level.epsilon,
                level.noise_std,
                level.mean_psnr_db,
                level.ssim.mean(),
                level.ssim.max(),
                level.labels_right,
            )
            for level in self.levels
        ]
        return pd.DataFrame(rows, columns=["epsilon", "noise_std", "psnr_db", "ssim", "ssim_best", "labels_right"])

    @property
    def caption(self) -> str:
        """Sentences on the upload, the attack and the attacker's knowledge."""
        steps = "1 local step" if self.steps == 1 else f"{self.steps} local steps, attacked as one"
        images = "1 image" if self.samples == 1 else f"{self.samples} images"
        return (
            f"{images}, {steps}, from version {self.base_version}; {METHODS[self.method]}; {GRANTED}. Each image "
            "stands below the true image that it fits best, with PSNR and SSIM. Noise is calibrated by the scheme, and "
            "drawn from the same stream."
        )


def reconstruct(
    held: HeldUpload,
    settings: ReconstructionSettings,
    epsilons: Sequence[float | None] = LEVELS,
    instrument: Instrument = NO_INSTRUMENT,
) -> ReconstructedImages:
    """Attack the upload under the noise of each of `epsilons` (see `upload_at_epsilon`), and return the images.

    Raises ScenarioError if the network is too large or does not fit the attack.
    """
    task, federation = held.assignment, held.federation
    method = settings.check(federation.resolved.scenario)
    attacker = Attacker.of(held)
    images, labels = federation.data.client(task.client)
    true = attacker.pixels.to_unit(images)
    count = min(settings.images, held.samples)
    best = np.arange(0)
    levels = []
    for place, epsilon in enumerate(one_by_one(epsilons, instrument, "levels of noise")):
        upload = upload_at_epsilon(held, epsilon)
        # The same first guess under each noise.
        random = federation.resolved.streams.generator("reconstruction", task.client, task.turn)
        made = attacker.images(upload, method, count, settings.steps, random)
        read = share_right(attacker.labels(upload), labels)
        placed, errors = np.full_like(true, GREY), np.full(len(true), np.inf)
        if len(made):
            found, of = match_images(true, made)
            placed[found] = made[of]
            errors[found] = ((placed[found].astype(np.float64) - true[found]) ** 2).mean(axis=(1, 2, 3))
        if place == 0:
            best = np.argsort(errors, kind="stable")[:count]
        levels.append(LevelImages(upload.epsilon, upload.std, true[best], placed[best], read))
    chance = share_right_by_chance(labels, attacker.learner.n_outputs)
    mean = attacker.pixels.to_unit(federation.data.test_images.mean(axis=0, dtype=np.float64)[None])
    guess = LevelImages(None, math.nan, true[best], np.repeat(mean, count, axis=0), chance)
    steps = federation.path.training.steps_of(held.samples, task.epochs)
    numbers = (task.client, task.task, task.base_version, held.samples, steps)
    return ReconstructedImages(*numbers, method, best, true[best], tuple(levels), guess)


def level_name(epsilon: float | None) -> str:
    """Return the caption of a row of images: "ε = 8"; None: "as sent"; infinite: "no noise"."""
    if epsilon is None:
        return "as sent"
    return "no noise" if math.isinf(epsilon) else f"ε = {epsilon:,g}"


def write_images(pictures: ReconstructedImages, source: str, folder: Path) -> list[Path]:
    """Write the sheet of images (SVG, PNG, PDF; not for labels alone) and the table (CSV) into `folder`.

    source: origin of the images, for the caption. Returns the paths. Raises OutputError.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot write {folder}: {error.strerror}") from None
    written = []
    if pictures.method != "labels":
        named = [(level_name(level.epsilon), level) for level in pictures.levels]
        named.append(("a guess: the mean test image", pictures.guess))
        rows = [true_row(pictures.true)]
        rows += [SheetRow(name, one.made, tuple(one.psnr_db.tolist()), tuple(one.ssim.tolist())) for name, one in named]
        title = f"Images reconstructed from one upload: client {pictures.client}, task {pictures.task}"
        written = draw_sheet(rows, f"{pictures.caption} Data: {source}.", title, folder / NAME)
    table = folder / f"{NAME}.csv"
    with atomic_file(table) as part:
        pictures.table.to_csv(part, index=False, float_format="%.10g", lineterminator="\n")
    return [*written, table]
