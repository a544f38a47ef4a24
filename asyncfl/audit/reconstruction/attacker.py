"""Attacker that holds one upload, and its view of the upload.

The attacker knows the network's architecture, the model that the client was sent (base), the number of the client's
images, the range of pixels, learning rate, steps and clip norm of the training, and the strength of the noise. It knows
neither labels nor batches nor other uploads. It takes the update for one step of gradient descent over all images,
    g = (s base - upload)/(lr steps)
which is exact for one local step. A whole model that was clipped is s times the trained model; s is estimated by
projecting the upload on the base, since the update is small beside it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from asyncfl.audit.finished_run import HeldUpload
from asyncfl.audit.reconstruction.first_layer import PixelRange, dense_first_layer, divided_images
from asyncfl.audit.reconstruction.inversion import Inversion
from asyncfl.audit.reconstruction.labels import leaked_labels
from asyncfl.audit.reconstruction.upload import NoisedUpload
from asyncfl.base.messages import Vector
from asyncfl.data.catalog import CATALOG
from asyncfl.data.data_spec import DataSpec
from asyncfl.learning import Architecture, Layout, Shape

Method = Literal["first_layer", "cosine", "l2", "labels"]
"""Attack: division at the first layer, descent on the cosine or the L2 distance of gradients, or labels alone."""

CLIPPED = 0.999
"""Norm over the clip norm above which a model counts as clipped."""


def pixel_range(data: DataSpec, domain: int = 0) -> PixelRange:
    """Return the least and largest pixel of a domain's images, scaled like the network's input; of mixed domains those
    of all."""
    if data.mixed_domains:
        alone = data.model_copy(update={"mixed_domains": False})
        ranges = [pixel_range(alone, place) for place in range(len(data.names))]
        lows, highs = [one.low for one in ranges], [one.high for one in ranges]
        return PixelRange(np.minimum.reduce(lows), np.maximum.reduce(highs))
    channels = data.shape[0]
    scale = CATALOG[data.names[domain]].scale if data.own is None else data.own.scale
    mean, std = np.zeros(channels), np.ones(channels)
    if data.scaling == "standardised":
        mean, std = (np.resize(np.asarray(values, float), channels) for values in scale)
    ends = ((pixel - mean) / std for pixel in (0.0, 1.0))
    low, high = (end.astype(np.float32).reshape(channels, 1, 1) for end in ends)
    return PixelRange(low, high)


@dataclass(frozen=True)
class Attacker:
    """Attacker that holds one upload, with its knowledge."""

    model: Architecture
    shape: Shape
    classes: int
    layout: Layout
    base: Vector
    """(n_parameters,) model that the client was sent."""
    samples: int
    """Images that the client trained on."""
    step: float
    """Quotient of update and mean gradient: learning rate times steps times the scheme's factor on updates."""
    clip_norm: float | None
    """Norm that whole models were clipped to; None: models were not clipped."""
    pixels: PixelRange

    @classmethod
    def of(cls, held: HeldUpload) -> Attacker:
        federation = held.federation
        path, scenario, learner = federation.path, federation.resolved.scenario, federation.learner
        training, scheme = scenario.training, path.scheme
        of_models = scheme.clip_target.payload == "model"
        factor = 1.0 if of_models else scheme.update_factor(path.context, held.samples, held.assignment.epochs)
        domain = int(federation.data.client_domains[held.assignment.client])
        network = (learner.model, learner.shape, learner.n_outputs, learner.layout)
        step = training.lr * training.steps(held.samples, held.assignment.epochs) * factor
        clip_norm = held.upload.clip_norm if of_models else None
        return cls(*network, held.assignment.base, held.samples, step, clip_norm, pixel_range(scenario.data, domain))

    def gradient(self, upload: NoisedUpload) -> tuple[NDArray[np.float32], float]:
        """Estimate the mean gradient (n_parameters,), and the standard deviation of the noise on each component."""
        base, sent = self.base.astype(np.float64), upload.model.astype(np.float64)
        scale, length = 1.0, float(base @ base)
        if self.clip_norm is not None and length:
            without_noise = max(float(sent @ sent) - len(sent) * upload.std**2, 0.0)
            if without_noise >= (CLIPPED * self.clip_norm) ** 2:
                scale = float(sent @ base) / length
        gradient = ((scale * base - sent) / self.step).astype(np.float32)
        return np.nan_to_num(gradient, nan=0.0, posinf=0.0, neginf=0.0), upload.std / self.step

    def labels(self, upload: NoisedUpload) -> NDArray[np.int64]:
        """Infer and return the labels of the client's images, (samples,), ascending."""
        return leaked_labels(self.gradient(upload)[0], self.layout, self.samples)

    def images(
        self, upload: NoisedUpload, method: Method, count: int, inversion: Inversion, random: np.random.Generator
    ) -> NDArray[np.float32]:
        """Reconstruct (n <= count, channels, height, width) images, pixels 0..1; none for the method `labels`.

        `inversion`: settings of the descent; `random`: draws its first guess. Raises ValueError where `first_layer`
        finds no dense first layer.
        """
        gradient, noise_std = self.gradient(upload)
        if method == "labels":
            return np.empty((0, *self.shape), np.float32)
        if method == "first_layer":
            first = dense_first_layer(self.layout, math.prod(self.shape))
            if first is None:
                raise ValueError("first_layer needs a network that begins with a dense layer with a bias")
            made = divided_images(gradient, first, self.shape, count, self.pixels, noise_std)
            return self.pixels.to_unit(made)
        labels = leaked_labels(gradient, self.layout, self.samples)
        looked_for = labels[np.linspace(0, self.samples - 1, count).round().astype(np.int64)]
        network = (self.model, self.shape, self.classes, self.base)
        inversion = replace(inversion, distance=method)
        return self.pixels.to_unit(inversion.images(*network, gradient, looked_for, self.pixels, random))
