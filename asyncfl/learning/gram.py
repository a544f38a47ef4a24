"""Training of an MLP with its first layer represented by coefficients of the client's samples.

The whole change of the first layer is a linear combination of the inputs X (m, inputs), W = W_base + C^T X with C (m,
units), after any number of steps with momentum and proximal term. With G = X X^T + 1 (for the bias) a batch b needs

    Z_b = (X W_base^T + b_base)_b + G_b C        in place of   Z_b = X_b W^T + b,
    C_b <- C_b - lr/n errors_b                   in place of   W <- W - lr/n errors_b^T X_b.

For 100 samples of 784 pixels over 5 epochs this takes a third of the multiplications, and the passes over memory shrink
from 784 x 256 numbers to 100 x 256. It is slower for large m or few epochs; `cost` compares both. Clipping needs |g|^2
of the first layer: the sum of (errors errors^T) * G. Noise on each step leaves the span of the samples.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from asyncfl.learning.dense import PLANS, BatchBuffers, Stack, mean_loss
from asyncfl.learning.gemm import by_size
from asyncfl.learning.training import Training

if TYPE_CHECKING:
    import torch

PASS = 11
"""Operations of a product that take as long as reading and writing one number in a pass over memory (measured)."""
TINY = 1e-12
"""Scale of the coefficients below which they are multiplied out and the scale is reset to 1."""


def cost(widths: tuple[int, ...], training: Training, samples: int) -> tuple[float, float]:
    """Estimate the operations of one client's training of the first layer: as coefficients, on its weights."""
    inputs, units = widths[0], widths[1]
    m, epochs, steps = samples, training.epochs_of(samples), training.steps_of(samples)
    momentum, pull = training.momentum > 0, training.proximal_mu > 0
    passes = momentum + pull + (momentum and pull)
    direct = 4 * epochs * m * inputs * units + steps * (PASS * passes) * inputs * units + 3 * PASS * inputs * units
    products = 2 * m * m * (inputs + epochs * units) if _needs_gram(training, samples) else 0
    gram = 4 * m * inputs * units + products
    gram += steps * (PASS * momentum * (1 + pull)) * m * units
    return gram, direct


def _needs_gram(training: Training, samples: int) -> bool:
    """Whether G is needed: for each step but the first, and with clipping for the first one too."""
    clips = training.gradient_clip is not None or training.example_clip is not None
    return clips or training.steps_of(samples) > 1


class _Coefficients:
    """Coefficients and their velocity, with slices of both: each batch, all samples before it, all up to its end."""

    def __init__(self, samples: int, units: int, cuts: list[slice]) -> None:
        import torch

        self.full = [torch.zeros(samples, units) for _ in range(2)]
        self.parts = [[full[cut] for cut in cuts] for full in self.full]
        self.seen = [[full[: cut.start] for cut in cuts] for full in self.full]
        self.reached = [[full[: cut.stop] for cut in cuts] for full in self.full]


@dataclass(frozen=True, slots=True)
class _Step:
    """The slices of the buffers that one batch needs. G of the batch: with itself, all samples, those before it."""

    batch: BatchBuffers
    pre: torch.Tensor
    logits: torch.Tensor
    targets: torch.Tensor
    gram: torch.Tensor
    gram_all: torch.Tensor
    gram_seen: torch.Tensor
    addmm: Callable[..., torch.Tensor]


class _Plan:
    """Buffers for clients with `samples` samples, and their slices for each batch."""

    def __init__(self, stack: Stack, samples: int, inputs: int, training: Training) -> None:
        import torch

        units, outputs = stack.widths[0], stack.widths[-1]
        self.mm = by_size(stack.gemm, torch.mm, samples, samples, inputs)
        self.addmm = by_size(stack.gemm, torch.addmm, samples, inputs, units)
        n = training.batch_of(samples)
        cuts = [slice(start, min(start + n, samples)) for start in range(0, samples, n)]
        self.needs_gram = _needs_gram(training, samples)
        self.pre = torch.empty(samples, units)
        self.gram = torch.empty(samples, samples)
        self.gram_rows = torch.empty(samples, samples)
        self.pre_ordered = torch.empty(samples, units)
        self.gram_ordered = torch.empty(samples, samples)
        self.targets = torch.empty(samples, outputs)
        self.logits = torch.empty(samples, outputs)
        self.banks = [_Coefficients(samples, units, cuts) for _ in range(2)]
        self.place = torch.empty(samples, dtype=torch.int64)
        self.positions = torch.arange(samples)
        self.steps = [
            _Step(
                stack.batch(cut.stop - cut.start),
                self.pre_ordered[cut],
                self.logits[cut],
                self.targets[cut],
                self.gram_ordered[cut, cut],
                self.gram_ordered[cut],
                self.gram_ordered[cut, : cut.start],
                by_size(stack.gemm, torch.addmm, cut.stop - cut.start, samples, units),
            )
            for cut in cuts
        ]


class GramTrainer:
    """Trains an MLP of the given widths (at least one hidden layer), with the first layer as coefficients of the
    samples."""

    def __init__(self, widths: tuple[int, ...], training: Training, gemm: str) -> None:
        self._training = training
        self._widths = widths
        self._first = widths[0] * widths[1]
        self._stack = Stack(widths[1:], training, own_input=True, gemm=gemm)
        # Usually all clients have one size; under quantity skew there are many sizes, and plans take memory.
        self._plan = lru_cache(PLANS)(lambda samples: _Plan(self._stack, samples, widths[0], training))

    def train(
        self,
        row: torch.Tensor,
        base: torch.Tensor,
        images: torch.Tensor,
        wanted: torch.Tensor,
        order: torch.Tensor,
        squared: bool = False,
    ) -> float:
        """Train one client, see `DirectTrainer.train`."""
        import torch

        t, stack = self._training, self._stack
        inputs, units = self._widths[:2]
        upper = self._first + units
        weight, bias = base[: self._first].view(units, inputs), base[self._first : upper]
        plan = self._plan(len(images))
        plan.addmm(bias, images, weight.T, out=plan.pre)
        if plan.needs_gram:
            plan.mm(images, images.T, out=plan.gram).add_(1)
        stack.start(base[upper:], squared)

        # Without momentum the coefficients C, with momentum their velocity V, are stored divided by `scale`, which
        # collects the factors 1 - lr mu or momentum: so a step only adds to a batch's rows and never multiplies all.
        momentum, mu = t.momentum, t.proximal_mu
        keep, scale = momentum or 1 - t.lr * mu, 1.0
        scaled = 1 if momentum else 0
        bank = plan.banks[0]
        for full in bank.full:
            full.zero_()
        for epoch, indices in enumerate(order):
            torch.index_select(plan.pre, 0, indices, out=plan.pre_ordered)
            torch.index_select(wanted, 0, indices, out=plan.targets)
            if plan.needs_gram:
                torch.index_select(plan.gram, 0, indices, out=plan.gram_rows)
                torch.index_select(plan.gram_rows, 1, indices, out=plan.gram_ordered)
            if epoch:  # reorder the coefficients as this epoch reorders the samples
                following = plan.banks[epoch % 2]
                for here, there in zip(bank.full, following.full, strict=True):
                    torch.index_select(here, 0, plan.place[indices], out=there)
                bank = following
            plan.place[indices] = plan.positions
            coefficients, velocity = bank.full
            for number, step in enumerate(plan.steps):
                batch, logits = step.batch, step.logits
                x, activation = batch.inputs[0], batch.inner[0]
                if epoch or number:
                    # In the first epoch only the samples seen so far have coefficients.
                    gram, known = (step.gram_all, bank.full[0]) if epoch else (step.gram_seen, bank.seen[0][number])
                    step.addmm(step.pre, gram, known, alpha=1.0 if momentum else scale, out=activation).clamp_min_(0)
                else:
                    torch.clamp(step.pre, 0, out=activation)
                error = stack.differentiate(batch, x, logits, step.targets, activation)
                share = stack.step(batch, x, error, step.gram)
                scale *= keep
                if abs(scale) < TINY:
                    bank.full[scaled].mul_(scale)
                    scale = 1.0
                if not momentum:
                    bank.parts[0][number].add_(error, alpha=-t.lr * share / scale)
                    continue
                if not epoch:
                    coefficients, velocity = (reached[number] for reached in bank.reached)
                if mu:
                    velocity.add_(coefficients, alpha=mu / scale)
                bank.parts[1][number].add_(error, alpha=share / scale)
                coefficients.add_(velocity, alpha=-t.lr * scale)
        scale = 1.0 if momentum else scale
        coefficients = plan.banks[len(order) % 2].full[0]
        torch.index_select(bank.full[0], 0, plan.place, out=coefficients)
        # Not into the row, which may begin anywhere in memory: products differ with that, see `tensor_of`.
        row[: self._first].view(units, inputs).copy_(plan.addmm(weight, coefficients.T, images, alpha=scale))
        torch.add(bias, coefficients.sum(0), alpha=scale, out=row[self._first : upper])
        stack.weights.store(row[upper:])
        return mean_loss(plan.logits, plan.targets, squared)
