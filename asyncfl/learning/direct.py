"""Training of an MLP on its weights: for clients with many samples and few epochs.

An epoch's images are gathered once, in their order and with a column of ones, so that each batch is a slice.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

from asyncfl.learning.dense import PLANS, BatchBuffers, Stack, padded
from asyncfl.learning.job import Deadline
from asyncfl.learning.noise import StandardNormal
from asyncfl.learning.training import Training

if TYPE_CHECKING:
    import torch

FEW = 4_000_000
"""Largest number of multiplications of a batch with the first layer for which oneDNN's overhead per call exceeds its
gain."""


class _Plan:
    """Buffers for clients with `samples` samples, and their slices for each batch."""

    def __init__(self, stack: Stack, samples: int, training: Training) -> None:
        import torch

        inputs, outputs = stack.widths[0], stack.widths[-1]
        self.images = torch.zeros(samples, padded(inputs))
        self.images[:, inputs] = 1
        self.targets = torch.empty(samples, outputs)
        self.logits = torch.empty(samples, outputs)
        n = training.batch_of(samples)
        self.steps: list[tuple[BatchBuffers, torch.Tensor, torch.Tensor, torch.Tensor]] = []
        for start in range(0, samples, n):
            cut = slice(start, min(start + n, samples))
            batch = stack.batch(cut.stop - cut.start)
            self.steps.append((batch, self.images[cut], self.logits[cut], self.targets[cut]))


class DirectTrainer:
    """Trains an MLP of the given widths, step by step on all its weights."""

    def __init__(self, widths: tuple[int, ...], training: Training) -> None:
        self._training = training
        self._stack = Stack(widths, training, own_input=False)
        # Usually all clients have one size; under quantity skew there are many sizes, and plans take memory.
        self._plan = lru_cache(PLANS)(lambda samples: _Plan(self._stack, samples, training))

    def multiplies_little(self, samples: int) -> bool:
        """Whether a client's products are so small that torch's default library is faster; see `learning.gemm`."""
        widths = self._stack.widths
        return self._training.batch_of(samples) * widths[0] * widths[1] <= FEW

    def train(
        self,
        row: torch.Tensor,
        base: torch.Tensor,
        images: torch.Tensor,
        wanted: torch.Tensor,
        order: torch.Tensor,
        noise: StandardNormal | None = None,
        squared: bool = False,
        deadline: Deadline | None = None,
    ) -> float:
        """Train one client, write the model into `row` and return the mean loss of the last epoch.

        row, base: (n_parameters,); images (m, inputs); wanted (m, outputs): one-hot labels, or numbers to predict if
        the loss is `squared`; order (epochs, m) int64; noise: n_parameters standard normals per step; `deadline`: see
        `Job`.
        """
        import torch

        stack, clip = self._stack, self._training.gradient_clip
        plan = self._plan(len(images))
        inner = plan.images[:, : stack.widths[0]]
        stack.start(base, squared)
        loss = math.nan
        for epoch, indices in enumerate(order, 1):
            torch.index_select(images, 0, indices, out=inner)
            torch.index_select(wanted, 0, indices, out=plan.targets)
            for batch, x, logits, targets in plan.steps:
                stack.forward(batch, x, logits)
                stack.backward(batch, logits, targets)
                share = 1 / batch.n
                if clip is not None:
                    share = clipped(share, clip, stack.squared_norm(batch, x))
                    if not share:
                        stack.drop(slice(None), batch, x)
                elif stack.example_clip:
                    stack.clip_examples(stack.example_norms(batch, x), batch, x)
                stack.step(batch, x, share)
                if noise is not None:
                    stack.add_noise(torch.from_numpy(noise.draw()), share)
                if deadline is not None and deadline.passed():
                    return loss
            if deadline is not None:
                deadline.epochs_done += 1
            if deadline is not None or epoch == len(order):
                stack.weights.store(row)
                loss = mean_loss(plan.logits, plan.targets, squared)
        return loss


def clipped(share: float, clip: float, squared_norm: float) -> float:
    """Return the factor on the errors after clipping, given that the mean gradient is `share` times their sum.

    0 if the norm is not finite: such a gradient counts as zero.
    """
    if not math.isfinite(squared_norm):
        return 0.0
    norm = share * squared_norm**0.5 if squared_norm > 0 else 0.0
    return share * clip / norm if norm > clip else share


def mean_loss(outputs: torch.Tensor, wanted: torch.Tensor, squared: bool) -> float:
    """Compute the mean cross-entropy of logits (m, outputs) against one-hot labels, or the squared error against
    numbers."""
    if squared:
        return float((outputs - wanted).square_().double().mean())
    return float((outputs.logsumexp(1) - (outputs * wanted).sum(1)).double().mean())
