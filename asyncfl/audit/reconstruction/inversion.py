"""Images whose gradient is close to the overheard one, found by descent.

Two methods from the literature. Both start from noise and fix the labels at those that `labels` infers (Zhao et al.
2020: right labels make the search easier):

| distance | between gradients g (of the images) and h (overheard) | optimiser |
|---|---|---|
| `l2` | sum (g - h)^2: deep leakage from gradients, Zhu et al. 2019 | L-BFGS |
| `cosine` | 1 - <g, h>/(|g| |h|), and total variation of the images: Geiping et al. 2020 | signed Adam |

Signed Adam is Adam on the sign of the gradient. Its step length falls to a tenth after 3/8, 5/8 and 7/8 of the steps,
and pixels are clamped to their range. `l2` must know the factor on the gradient, `cosine` need not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asyncfl.learning.architecture import Shape

if TYPE_CHECKING:
    import torch

Distance = Literal["l2", "cosine"]

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
        parts = torch.autograd.grad(loss, self._weights, create_graph=True)
        ours = torch.cat([part.reshape(-1) for part in parts])
        if distance == "l2":
            return (ours - self._wanted).square().sum() / self._wanted.square().sum().clamp_min(1e-30)
        return 1 - cosine_similarity(ours, self._wanted, dim=0, eps=1e-12)

    def variation(self, images: torch.Tensor) -> torch.Tensor:
        """Sum the mean absolute differences of vertical and horizontal neighbours, in quarters of the pixels' range."""
        scaled = images / self.spread
        down, across = scaled[:, :, 1:] - scaled[:, :, :-1], scaled[:, :, :, 1:] - scaled[:, :, :, :-1]
        return down.abs().mean() + across.abs().mean()
