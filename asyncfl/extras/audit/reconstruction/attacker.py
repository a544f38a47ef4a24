"""Attacker that holds one upload: its estimate of the gradient, and what it reads from it.

It knows the architecture, the model that the client was sent (base), the number of the client's images, the range of
pixels, the training and the strength of the noise, but neither labels nor batches nor other uploads. It takes the
update for one step of gradient descent over all images, which is exact for one local step:

    g = (s base - upload)/(lr steps)

A whole model that was clipped is s times the trained model; s is estimated by projecting the upload on the base.

Labels: LLG, Wainakh et al. 2021, algorithm 1, without auxiliary data. The cross-entropy's gradient at logit k is
p_k - 1 for an example of class k and p_k otherwise. With non-negative activations, the sum g_k of row k of the last
layer's gradient is negative only for classes in the batch: each of these is one label. Each inferred label subtracts
its estimated impact m = (1 + 1/K) / n sum of negative g_k from its row, and the next label is that of the lowest row.

Images from a dense first layer: for an input x, unit j adds d_j x to row j of the weights' gradient and d_j to the
bias' gradient, so their quotient is the image if a single image had an error d_j at the unit (Phong et al. 2018,
section 3; Geiping et al. 2020, proposition 3.1). Of several images it is a mix. Mixes inside the range of pixels lie in
the convex hull of the images, whose corners are found by successive projection (Araujo et al. 2001).

Images by descent on the distance of their gradient from the overheard one. Two methods start from noise and fix the
labels at those that are inferred (Zhao et al. 2020: right labels make the search easier):

| distance | between gradients g (of the images) and h (overheard) | optimiser |
|---|---|---|
| `l2` | sum (g - h)^2: deep leakage from gradients, Zhu et al. 2019 | L-BFGS |
| `cosine` | 1 - <g, h>/(|g| |h|), and total variation of the images: Geiping et al. 2020 | signed Adam |

Signed Adam is Adam on the sign of the gradient. Its step length falls to a tenth after 3/8, 5/8 and 7/8 of the steps,
and pixels are clamped to their range. `l2` must know the factor on the gradient, `cosine` need not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.arrays import Floats, Vector
from asyncfl.data.catalog import CATALOG
from asyncfl.data.data_spec import DataSpec
from asyncfl.data.sample_source import FIXED_SCALES
from asyncfl.extras.audit.finished_run import HeldUpload
from asyncfl.extras.audit.reconstruction.upload import NoisedUpload
from asyncfl.learning import Layout, Learner
from asyncfl.learning.architecture import Shape
from asyncfl.learning.layout import Layer
from asyncfl.learning.weights import module_with_parameters

if TYPE_CHECKING:
    import torch

Distance = Literal["l2", "cosine"]
Method = Literal["first_layer", "cosine", "l2", "labels"]
"""Attack: division at the first layer, descent on the cosine or the L2 distance of gradients, or labels alone."""

CLIPPED = 0.999  # norm over the clip norm above which a model counts as clipped
LEGIBLE = 0.2
"""Largest noise std of a candidate image, relative to the range of pixels, unless there are too few such candidates."""
OUTSIDE = 0.02
"""Tolerance beyond the range of pixels, relative to the range, in addition to four standard deviations of the noise."""
SAME = 1e-3  # relative length of a projected candidate below which it is a mix of the corners that were found
STEP_LENGTH = 0.1  # first step length of `cosine`, in quarters of the range of pixels
TOTAL_VARIATION = 1e-3  # weight of the total variation (mean absolute difference of neighbouring pixels) in `cosine`


class PixelRange(NamedTuple):
    """Least and largest value of the network's input, for each channel (channels, 1, 1)."""

    low: NDArray[np.float32]
    high: NDArray[np.float32]

    def to_unit(self, images: NDArray[np.floating]) -> NDArray[np.float32]:
        """Return images (n, channels, height, width) scaled to pixels 0..1; values outside the range are clipped."""
        scaled = (images - self.low) / (self.high - self.low)
        unit: NDArray[np.float32] = np.clip(np.nan_to_num(scaled, nan=0.0), 0.0, 1.0).astype(np.float32)
        return unit


def pixel_range(data: DataSpec, domain: int = 0) -> PixelRange:
    """Return the least and largest pixel of a domain's images, scaled like the network's input; of mixed domains those
    of all."""
    if data.mixed_domains:
        alone = data.model_copy(update={"mixed_domains": False})
        lows, highs = zip(*(pixel_range(alone, place) for place in range(len(data.names))), strict=True)
        return PixelRange(np.minimum.reduce(lows), np.maximum.reduce(highs))
    channels = data.shape[0]
    if data.scaling == "standardised":
        scale = CATALOG[data.names[domain]].scale if data.own is None else data.own.scale
    else:
        scale = FIXED_SCALES[data.scaling]
    mean, std = (np.resize(np.asarray(values, float), channels) for values in scale)
    ends = ((pixel - mean) / std for pixel in (0.0, 1.0))
    return PixelRange(*(end.astype(np.float32).reshape(channels, 1, 1) for end in ends))


@dataclass(frozen=True)
class Attacker:
    """Attacker that holds one upload, with its knowledge."""

    learner: Learner
    base: Vector  # (n_parameters,) model that the client was sent
    samples: int  # images that the client trained on
    step: float  # quotient of update and mean gradient: learning rate times steps times the scheme's factor on updates
    clip_norm: float | None  # norm that whole models were clipped to; None: models were not clipped
    pixels: PixelRange

    @classmethod
    def of(cls, held: HeldUpload) -> Attacker:
        federation = held.federation
        path, scenario, learner = federation.path, federation.resolved.scenario, federation.learner
        training, scheme = scenario.training, path.scheme
        of_models = scheme.clip_target.payload == "model"
        factor = 1.0 if of_models else scheme.update_factor(path.context, held.samples, held.assignment.epochs)
        domain = int(federation.data.client_domains[held.assignment.client])
        step = training.lr * training.steps_of(held.samples, held.assignment.epochs) * factor
        clip_norm = held.upload.clip_norm if of_models else None
        return cls(learner, held.assignment.base, held.samples, step, clip_norm, pixel_range(scenario.data, domain))

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
        return leaked_labels(self.gradient(upload)[0], self.learner.layout, self.samples)

    def images(
        self, upload: NoisedUpload, method: Method, count: int, steps: int, random: np.random.Generator
    ) -> NDArray[np.float32]:
        """Reconstruct (n <= count, channels, height, width) images, pixels 0..1; none for the method `labels`.

        `steps`: gradient steps of a descent; `random`: draws its first guess. For `first_layer` the network must begin
        with a dense layer.
        """
        (gradient, noise_std), learner = self.gradient(upload), self.learner
        shape, layout = learner.shape, learner.layout
        if method == "labels":
            return np.empty((0, *shape), np.float32)
        if method == "first_layer":
            first = dense_first_layer(layout, math.prod(shape))
            assert first is not None
            return self.pixels.to_unit(divided_images(gradient, first, shape, count, self.pixels, noise_std))
        labels = leaked_labels(gradient, layout, self.samples)
        looked_for = labels[np.linspace(0, self.samples - 1, count).round().astype(np.int64)]
        module = module_with_parameters(learner.model, shape, learner.n_outputs, self.base)
        found = Inversion(module, gradient, looked_for, self.pixels).images(method, steps, shape, random)
        return self.pixels.to_unit(found)


def leaked_labels(gradient: NDArray[np.floating], layout: Layout, count: int) -> NDArray[np.int64]:
    """Infer the labels (count,), ascending, of `count` >= 1 images from the gradient (n_parameters,) of their loss.

    A positive factor on the gradient changes nothing. Raises ValueError if the last layer of `layout` has other
    parameters than a weight and a bias.
    """
    last = layout.layers[-1]
    if not last.is_plain:
        raise ValueError(f"the last layer must own a weight and at most a bias, got {dict(last.shapes)}")
    classes = last.weight_shape[0]
    rows = gradient[last.start : last.bias_start].reshape(classes, -1).sum(axis=1, dtype=np.float64)
    if last.bias_shape:
        # A bias is the weight of an input that is always 1.
        rows = rows + gradient[last.bias_start : last.stop]
    impact = (1 + 1 / classes) / count * rows[rows < 0].sum()
    found: list[int] = np.argsort(rows, kind="stable")[: min(count, int((rows < 0).sum()))].tolist()
    rows[found] -= impact
    while len(found) < count:
        found.append(int(np.argmin(rows)))
        rows[found[-1]] -= impact
    return np.sort(np.array(found, np.int64))


def share_right(inferred: NDArray[np.int64], true: NDArray[np.int64]) -> float:
    """Compute the share of the true labels (n,) among the inferred labels (n,), counted with multiplicity, 0..1."""
    classes = int(max(inferred.max(initial=0), true.max(initial=0))) + 1
    both = np.minimum(np.bincount(inferred, minlength=classes), np.bincount(true, minlength=classes))
    return float(both.sum() / len(true))


def share_right_by_chance(true: NDArray[np.int64], classes: int) -> float:
    """Compute the expected `share_right` of uniformly drawn labels: sum over k of E min(Binomial(n, 1/K), n_k)/n."""
    from scipy.stats import binom

    n = len(true)
    counts = np.bincount(true, minlength=classes)
    # E min(X, c) is the sum of P(X > j) over j < c.
    return float(sum(binom.sf(np.arange(count), n, 1 / classes).sum() for count in counts) / n)


def dense_first_layer(layout: Layout, inputs: int) -> Layer | None:
    """Return the first layer if it is dense over all `inputs` and has a bias, else None."""
    first = layout.layers[0] if layout.layers else None
    if first is None or len(first.weight_shape) != 2 or first.weight_shape[1] != inputs or not first.bias_shape:
        return None
    return first


def divided_images(
    gradient: NDArray[np.floating],
    layer: Layer,
    shape: tuple[int, ...],
    count: int,
    pixels: PixelRange,
    noise_std: float = 0.0,
) -> NDArray[np.float32]:
    """Reconstruct images from the mean gradient (n_parameters,) over `count` images by division.

    `layer`: see `dense_first_layer`; `pixels`: range of the network's input; `noise_std`: standard deviation of the
    noise on each component of the gradient. A factor on gradient and noise changes nothing.

    Returns (n <= count, *shape) images as the network's input: fewer if the units tell fewer apart, none if no unit had
    an error.
    """
    rows = gradient[layer.start : layer.bias_start].reshape(layer.weight_shape).astype(np.float64)
    errors = gradient[layer.bias_start : layer.stop].astype(np.float64)
    used = np.isfinite(errors) & np.isfinite(rows).all(axis=1) & (errors != 0)
    rows, errors = rows[used], errors[used]
    if not len(errors):
        return np.empty((0, *shape), np.float32)
    if count == 1:
        # Read from all units at once: x = rows^T d / |d|^2 has the least error under noise. Noise on the errors
        # inflates |d|^2; subtract its expectation unless that removes nearly all.
        square = float(errors @ errors)
        without = square - len(errors) * noise_std**2
        found = rows.T @ errors / (without if without > 0.1 * square else square)
    else:
        span = np.broadcast_to(pixels.high - pixels.low, shape).reshape(-1).astype(np.float64)
        low = np.broadcast_to(pixels.low, shape).reshape(-1).astype(np.float64)
        candidates = (rows / errors[:, None] - low) / span
        blur = noise_std / (np.abs(errors) * float(span.mean()))
        found = _corners(candidates, blur, count) * span + low
    images: NDArray[np.float32] = found.astype(np.float32)
    return images.reshape(-1, *shape)


def _corners(candidates: Floats, blur: Floats, count: int) -> Floats:
    """Return (n <= count, pixels) corners of the convex hull of the plausible candidates (m, pixels).

    `blur`: (m,) noise std of each candidate. All are relative to the range of pixels.
    """
    clear = blur <= LEGIBLE
    if clear.sum() < count:
        clear = np.zeros(len(blur), bool)
        clear[np.argsort(blur, kind="stable")[:count]] = True
    margin = (OUTSIDE + 4 * blur)[:, None]
    plausible = clear & ((candidates >= -margin) & (candidates <= 1 + margin)).all(axis=1)
    kept = plausible if plausible.any() else clear
    candidates, blur = np.clip(candidates[kept], 0.0, 1.0), blur[kept]
    left, lengths = candidates.copy(), np.linalg.norm(candidates, axis=1)
    chosen: list[int] = []
    while len(chosen) < min(count, len(candidates)):
        new = np.linalg.norm(left, axis=1)
        new[new <= SAME * np.maximum(lengths, 1e-12)] = 0.0
        if not new.any():
            break
        # Of several copies of one image, take the one with the least noise.
        best = np.flatnonzero(new >= (1 - SAME) * new.max())
        index = int(best[np.argmin(blur[best])])
        chosen.append(index)
        across = left[index] / np.linalg.norm(left[index])
        left -= np.outer(left @ across, across)
    return candidates[chosen]


class Inversion:
    """Search for images (n, *shape), scaled like the network's input, with given labels and a given mean gradient."""

    def __init__(
        self, module: torch.nn.Module, gradient: NDArray[np.float32], labels: NDArray[np.int64], pixels: PixelRange
    ) -> None:
        """`module`: network at the model that the gradient (n_parameters,) belongs to; non-finite components count as
        0. `labels`: (n,). `pixels`: range of the network's input."""
        import torch

        self._module, self._weights = module, list(module.parameters())
        self._wanted, self._labels = torch.from_numpy(np.nan_to_num(gradient)), torch.from_numpy(labels.copy())
        self._low, self._high = torch.from_numpy(pixels.low.copy()), torch.from_numpy(pixels.high.copy())
        self.middle = (self._low + self._high) / 2
        self.spread = (self._high - self._low) / 4

    def images(self, distance: Distance, steps: int, shape: Shape, random: np.random.Generator) -> NDArray[np.float32]:
        """Find the images by at most `steps` >= 1 gradient steps (Geiping et al. take 4,800 and more). `random`: draws
        the first guess."""
        import torch

        noise = torch.from_numpy(random.standard_normal((len(self._labels), *shape), dtype=np.float32))
        first = self.middle + self.spread * noise
        found = (self._by_lbfgs if distance == "l2" else self._by_signed_adam)(steps, first)
        return torch.nan_to_num(found).numpy()

    def _by_lbfgs(self, steps: int, first: torch.Tensor) -> torch.Tensor:
        import torch

        images = first.clone().requires_grad_()
        optimiser = torch.optim.LBFGS(
            [images], lr=1.0, max_iter=steps, max_eval=steps, history_size=100, tolerance_grad=1e-12,
            tolerance_change=1e-14, line_search_fn="strong_wolfe",
        )  # fmt: skip

        def closure() -> torch.Tensor:
            value = self.distance(images, "l2")
            [images.grad] = torch.autograd.grad(value, [images])
            return value.detach()

        optimiser.step(closure)  # type: ignore[no-untyped-call]
        # A diverged search returns its first guess.
        return images.detach() if bool(torch.isfinite(images).all()) else first

    def _by_signed_adam(self, steps: int, first: torch.Tensor) -> torch.Tensor:
        import torch

        images = self.clamped(first)
        mean, square = torch.zeros_like(images), torch.zeros_like(images)
        for step in range(steps):
            images.requires_grad_(True)
            value = self.distance(images, "cosine") + TOTAL_VARIATION * self.variation(images)
            [slope] = torch.autograd.grad(value, [images])
            with torch.no_grad():
                slope = slope.sign()
                mean.lerp_(slope, 0.1)
                square.lerp_(slope.square(), 0.001)
                corrected = mean / (1 - 0.9 ** (step + 1))
                root = (square / (1 - 0.999 ** (step + 1))).sqrt_().add_(1e-8)
                length = STEP_LENGTH * 0.1 ** sum(step >= share * steps for share in (3 / 8, 5 / 8, 7 / 8))
                images = self.clamped(images.detach() - length * self.spread * corrected / root)
        return images.detach()

    def clamped(self, images: torch.Tensor) -> torch.Tensor:
        return images.clamp(self._low, self._high)

    def distance(self, images: torch.Tensor, distance: Distance) -> torch.Tensor:
        """Compute the distance of the gradient over `images` from the overheard one, differentiably."""
        import torch
        from torch.nn.functional import cosine_similarity, cross_entropy

        loss = cross_entropy(self._module(images), self._labels)
        parts = torch.autograd.grad(loss, self._weights, create_graph=True, materialize_grads=True)
        ours = torch.cat([part.reshape(-1) for part in parts])
        if distance == "l2":
            return (ours - self._wanted).square().sum() / self._wanted.square().sum().clamp_min(1e-30)
        return 1 - cosine_similarity(ours, self._wanted, dim=0, eps=1e-12)

    def variation(self, images: torch.Tensor) -> torch.Tensor:
        """Sum the mean absolute differences of vertical and horizontal neighbours, in quarters of the pixels' range."""
        scaled = images / self.spread
        down, across = scaled[:, :, 1:] - scaled[:, :, :-1], scaled[:, :, :, 1:] - scaled[:, :, :, :-1]
        return down.abs().mean() + across.abs().mean()
