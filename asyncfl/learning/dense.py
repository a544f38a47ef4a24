"""A stack of linear layers with ReLU in between: forward pass, backward pass and SGD step by hand.

Weight and bias of a layer form one matrix `(outputs, inputs + 1, padded)`, and the inputs carry a column of ones. So a
layer's step is a single matrix product that is accumulated into the velocity, v <- momentum v + g + mu (w - base),
followed by w <- w - lr v; or, without momentum, into the weights, w <- (1 - lr mu) w + lr mu base - lr g. There 1 - lr
mu is rounded to float32, and each step corrects the rounding error of the step before, so that nothing drifts.

Clipping uses |g|^2 = sum_ij (D D^T)_ij (X X^T)_ij with the inputs X (batch, inputs) and the output gradients D (batch,
outputs): no gradient has to be formed (Goodfellow 2015). An example's gradient is clipped by scaling its rows of D.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from asyncfl.learning.gemm import by_size
from asyncfl.learning.optimizer import Optimizer, OptimizerState, slots_of
from asyncfl.learning.tensors import tensor_of
from asyncfl.learning.training import Training

if TYPE_CHECKING:
    import torch


PLANS = 8
"""Number of client sizes for which buffers are cached."""


def padded(inputs: int) -> int:
    """Round the columns of a matrix for `inputs` inputs and a one up to whole vector registers."""
    return -(-(inputs + 1) // 8) * 8


class BatchBuffers:
    """Activations and gradients of a batch of n examples.

    inputs[l]: (n, padded inputs), the input of layer l with its column of ones; inner[l]: without that column.
    errors[l]: (n, outputs), gradient of the summed loss at the output of layer l; error_in: at the input of the first
    layer. Without `own_input` the input of the first layer is passed in by the caller, and inputs[0], inner[0] and
    error_in are empty. mm[l], addmm_[l]: products of layer l's size, by the library `gemm`; square[l]: of its inputs or
    errors with themselves. masks[l]: (n, outputs) factors of dropout behind layer l; empty without.
    """

    def __init__(self, n: int, widths: Sequence[int], own_input: bool, gemm: str, drops: bool = False) -> None:
        import torch

        self.n = n
        rows = [n if own_input else 0, *[n] * (len(widths) - 2)]
        self.inputs = [torch.zeros(r, padded(w)) for r, w in zip(rows, widths, strict=False)]
        for x, w in zip(self.inputs, widths[:-1], strict=True):
            x[:, w] = 1
        self.inner = [x[:, :w] for x, w in zip(self.inputs, widths[:-1], strict=True)]
        self.errors = [torch.empty(n, w) for w in widths[1:]]
        self.errors_t = [e.T for e in self.errors]
        self.error_in = torch.empty(rows[0], widths[0])
        self.mm = [by_size(gemm, torch.mm, n, i, o) for i, o in pairwise(widths)]
        self.addmm_ = [by_size(gemm, torch.Tensor.addmm_, n, i, o) for i, o in pairwise(widths)]
        self.masks = [torch.empty(n, w) for w in widths[1:-1]] if drops else []
        self.square = [by_size(gemm, torch.mm, n, n, max(i, o)) for i, o in pairwise(widths)]


class Weights:
    """All layers of a stack in one flat tensor, with the views that the matrix products use."""

    def __init__(self, widths: Sequence[int]) -> None:
        import torch

        sizes = [outputs * padded(inputs) for inputs, outputs in pairwise(widths)]
        self.flat = torch.zeros(sum(sizes))
        parts = torch.split(self.flat, sizes)
        self.full = [p.view(o, padded(i)) for p, (i, o) in zip(parts, pairwise(widths), strict=True)]
        self.transposed = [w.T for w in self.full]
        self.inner = [w[:, :i] for w, i in zip(self.full, widths, strict=False)]
        self.bias = [w[:, i] for w, i in zip(self.full, widths, strict=False)]
        self.padding = [w[:, i + 1 :] for w, i in zip(self.full, widths, strict=False)]

    def load(self, flat: torch.Tensor) -> None:
        """Copy the layers from a model's flat vector."""
        for padding in self.padding:
            padding.zero_()  # an earlier model may have left NaN there, and 0 * NaN is NaN
        for own, part in self._parts(flat):
            own.copy_(part)

    def store(self, flat: torch.Tensor) -> None:
        """Copy the layers into a model's flat vector."""
        for own, part in self._parts(flat):
            part.copy_(own)

    def add(self, flat: torch.Tensor, alpha: float) -> None:
        """Add `alpha` times a model's flat vector."""
        for own, part in self._parts(flat):
            own.add_(part, alpha=alpha)

    def _parts(self, flat: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Yield the weight and the bias of each layer, each with its view of a model's flat vector."""
        start = 0
        for inner, bias in zip(self.inner, self.bias, strict=True):
            outputs, inputs = inner.shape
            middle, stop = start + outputs * inputs, start + outputs * (inputs + 1)
            yield inner, flat[start:middle].view(outputs, inputs)
            yield bias, flat[middle:stop]
            start = stop


class Stack:
    """Layers of the given widths (inputs, hidden..., outputs) during training, inside `products(gemm, small=True)`."""

    def __init__(
        self, widths: Sequence[int], training: Training, own_input: bool, gemm: str, dropout: float = 0.0
    ) -> None:
        import torch

        self.widths = tuple(widths)
        self.gemm = gemm
        self.layers = len(widths) - 1
        self.lr = training.lr
        self.momentum = training.momentum
        self.mu = training.proximal_mu
        self.pull = training.lr * training.proximal_mu
        self._owed = 0.0
        self.gradient_clip, self.example_clip = training.gradient_clip, training.example_clip or 0.0
        self.noise_std = training.example_noise * self.example_clip
        self.expected: int | None = None
        """Number that the sums of a Poisson batch are divided by; None: the samples of the batch."""
        self.weights = Weights(widths)
        self.velocity = Weights(widths)
        names = () if training.is_basic else slots_of(training)
        self.slots = {name: Weights(widths) for name in names}
        """The optimiser's vectors, by name."""
        self.optimizer: Optimizer | None = None
        """Rule of steps other than basic ones; None: basic steps."""
        if not training.is_basic:
            self._slope = Weights(widths)
            self.optimizer = Optimizer(training, {name: [one.flat] for name, one in self.slots.items()})
        self._squared = False
        self._base, self._away = (torch.zeros_like(self.weights.flat) for _ in range(2))
        self.batch = lru_cache(2 * PLANS)(lambda n: BatchBuffers(n, self.widths, own_input, gemm, dropout > 0))
        self._kept_share = 1 - dropout
        self.random = torch.Generator()
        """Generator of dropout, to be seeded for each task."""
        # Look functions up once: a step is a dozen calls of a few microseconds each.
        self._softmax, self._norm = torch.softmax, torch.linalg.vector_norm
        self._subtract = torch.sub
        self._relu_backward = torch.ops.aten.threshold_backward.grad_input

    def start(self, flat: torch.Tensor, squared: bool = False, state: OptimizerState | None = None) -> None:
        """Start training at these parameters (n_parameters,) with the optimiser's `state`, None for a fresh one;
        minimise cross-entropy, or the squared error."""
        self.weights.load(flat)
        self._squared = squared
        self._owed = 0.0
        if self.momentum:
            self.velocity.flat.zero_()
        if self.mu:
            self._base.copy_(self.weights.flat)
        if self.optimizer is not None:
            self.optimizer.steps = 0 if state is None else state.steps
            for name, slot in self.slots.items():
                array = None if state is None else state.arrays.get(name)
                slot.flat.zero_() if array is None else slot.load(tensor_of(array))

    def keep(self, state: OptimizerState) -> None:
        """Replace `state` by the optimiser's present one."""
        import torch

        assert self.optimizer is not None
        flat = {name: torch.empty(sum(w.numel() for w in one.inner + one.bias)) for name, one in self.slots.items()}
        for name, one in self.slots.items():
            one.store(flat[name])
        state.arrays, state.steps = {name: one.numpy() for name, one in flat.items()}, self.optimizer.steps

    def descend(
        self,
        batch: BatchBuffers,
        x: torch.Tensor,
        lr: float,
        noise: torch.Tensor | None = None,
        constant: torch.Tensor | None = None,
    ) -> None:
        """Clip the batch's gradient, add `noise` and `constant`, both (n_parameters,), and step."""
        assert self.optimizer is not None
        share, slope = self._clip(batch, x, None, None), self._slope
        for layer in range(self.layers):
            batch.addmm_[layer](slope.full[layer], batch.errors_t[layer], x, beta=0, alpha=share)
            if layer + 1 < self.layers:
                x = batch.inputs[layer + 1]
        if noise is not None:
            slope.add(noise, self.noise_std * share)
        if self.mu:
            self._subtract(self.weights.flat, self._base, out=self._away)
            slope.flat.add_(self._away, alpha=self.mu)
        if constant is not None:
            slope.add(constant, 1.0)
        self.optimizer.step([self.weights.flat], [slope.flat], lr)

    def differentiate(
        self,
        batch: BatchBuffers,
        x: torch.Tensor,
        logits: torch.Tensor,
        targets: torch.Tensor,
        activation: torch.Tensor | None = None,
        shift: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Run a batch forward and backward: write its logits (n, outputs) and fill its errors. Returns `error_in`.

        `x`: (n, padded) inputs, whose last used column is ones; `targets`: (n, outputs) one-hot labels, or numbers to
        predict. `activation`: (n, inputs) output of the ReLU that is the stack's input, whose gradient `error_in` then
        is; None leaves `error_in` as it is. `shift`: (n, units) share of a block's noise in the outputs of the first
        layer, see `BlockDraws`.
        """
        transposed, inner, errors = self.weights.transposed, self.weights.inner, batch.errors
        for layer in range(1, self.layers):
            output = batch.mm[layer - 1](x, transposed[layer - 1], out=batch.inner[layer])
            if shift is not None and layer == 1:
                output.add_(shift, alpha=-self.lr * self.noise_std)
            output.clamp_min_(0)
            if batch.masks:
                # As `torch.nn.functional.dropout` draws it on a CPU.
                mask = batch.masks[layer - 1].bernoulli_(self._kept_share, generator=self.random)
                output.mul_(mask.div_(self._kept_share))
            x = batch.inputs[layer]
        batch.mm[-1](x, transposed[-1], out=logits)
        if self._squared:
            self._subtract(logits, targets, out=errors[-1]).mul_(2 / self.widths[-1])
        else:
            self._softmax(logits, 1, out=errors[-1]).sub_(targets)
        for layer in range(self.layers - 1, 0, -1):
            error = errors[layer - 1]
            batch.mm[layer](errors[layer], inner[layer], out=error)
            self._relu_backward(error, batch.inner[layer], 0, grad_input=error)
            if batch.masks:
                error.mul_(batch.masks[layer - 1])
        if activation is not None:
            batch.mm[0](errors[0], inner[0], out=batch.error_in)
            self._relu_backward(batch.error_in, activation, 0, grad_input=batch.error_in)
        return batch.error_in

    def _clip(
        self, batch: BatchBuffers, x: torch.Tensor, error: torch.Tensor | None, gram: torch.Tensor | None
    ) -> float:
        """Clip the batch's gradient, or each example's by scaling its errors; return the factor on the errors.

        A gradient whose norm is not finite counts as zero.
        """
        share, inputs = 1 / (self.expected or batch.n), (x, *batch.inputs[1:])
        if self.gradient_clip is not None:
            squared = 0.0
            for square, one, entered in zip(batch.square, batch.errors, inputs, strict=True):
                squared += float(square(one, one.T).mul_(square(entered, entered.T)).sum())
            if error is not None and gram is not None:
                squared += float((error @ error.T).mul_(gram).sum())
            if not math.isfinite(squared):
                self._drop(slice(None), batch, x, error)
                return 0.0
            norm = share * squared**0.5 if squared > 0 else 0.0
            return share * self.gradient_clip / norm if norm > self.gradient_clip else share
        if self.example_clip:
            norms = self._norm(batch.errors[0], dim=1).mul_(self._norm(x, dim=1)).square_()
            for one, entered in zip(batch.errors[1:], inputs[1:], strict=True):
                norms.add_(self._norm(one, dim=1).mul_(self._norm(entered, dim=1)).square_())
            if error is not None and gram is not None:
                norms.add_(self._norm(error, dim=1).square_().mul_(gram.diagonal()))
            factors = (self.example_clip / norms.sqrt_()).clamp_max_(1).unsqueeze(1)  # a gradient of 0 becomes 1
            for one in batch.errors if error is None else (*batch.errors, error):
                one.mul_(factors)
            if not math.isfinite(norms.sum()):
                self._drop(~norms.isfinite(), batch, x, error)
        return share

    def _drop(
        self, rows: torch.Tensor | slice, batch: BatchBuffers, x: torch.Tensor, error: torch.Tensor | None
    ) -> None:
        """Make the gradients of these examples zero: their errors and, as 0 times infinity is NaN, their inputs."""
        for part in (x[:, : self.widths[0]], *batch.inner[1:], *batch.errors, *([] if error is None else [error])):
            part[rows] = 0

    def add_noise(self, noise: torch.Tensor, share: float) -> None:
        """Add the effect of `noise` (n_parameters,), standard normals on the sum of clipped gradients, to the last
        step."""
        self.weights.add(noise, -self.lr * self.noise_std * share)
        if self.momentum:
            self.velocity.add(noise, self.noise_std * share)

    def add_constant(self, constant: torch.Tensor) -> None:
        """Add the effect of `constant` (n_parameters,) in the gradient to the last step."""
        self.weights.add(constant, -self.lr)
        if self.momentum:
            self.velocity.add(constant, 1.0)

    def add_block_noise(self, total: torch.Tensor, part: float, upper: torch.Tensor, share: float) -> None:
        """Add `part` of `total` to the first layer, and `upper` to the others as `add_noise` does; both are padded."""
        first, others = self.weights.flat[: len(total)], self.weights.flat[len(total) :]
        first.add_(total, alpha=-self.lr * self.noise_std * part)
        others.add_(upper, alpha=-self.lr * self.noise_std * share)

    def step(
        self, batch: BatchBuffers, x: torch.Tensor, error: torch.Tensor | None = None, gram: torch.Tensor | None = None
    ) -> float:
        """Clip the batch's gradient and take one SGD step in all layers; return the factor that makes its errors the
        mean clipped gradient.

        Clipping includes a layer below the stack with errors `error` (n, units) and inner products of inputs `gram`.
        """
        share = self._clip(batch, x, error, gram)
        if self.momentum:
            moved, keep, alpha = self.velocity, self.momentum, share
        else:
            moved, keep, alpha = self.weights, 1.0, -self.lr * share
            if self.mu:
                wanted = self.pull + self._owed
                keep = float(np.float32(1 - wanted))
                self._owed = wanted - (1 - keep)
        for layer in range(self.layers):
            batch.addmm_[layer](moved.full[layer], batch.errors_t[layer], x, beta=keep, alpha=alpha)
            if layer + 1 < self.layers:
                x = batch.inputs[layer + 1]
        if not self.momentum:
            if self.mu:
                self.weights.flat.add_(self._base, alpha=1 - keep)
            return share
        if self.mu:
            self._subtract(self.weights.flat, self._base, out=self._away)
            self.velocity.flat.add_(self._away, alpha=self.mu)
        self.weights.flat.add_(self.velocity.flat, alpha=-self.lr)
        return share


def mean_loss(outputs: torch.Tensor, wanted: torch.Tensor, squared: bool) -> float:
    """Compute the mean cross-entropy of logits (m, outputs) against one-hot labels, or the squared error against
    numbers."""
    if squared:
        return float((outputs - wanted).square_().double().mean())
    return float((outputs.logsumexp(1) - (outputs * wanted).sum(1)).double().mean())
