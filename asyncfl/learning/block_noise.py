"""Noise of DP-SGD on an MLP, drawn for blocks of steps: a fraction of the draws, and the same law.

Let Z_1, ..., Z_B (units, inputs) be the noise that the steps of a block add to the first layer, of variances v_k, and
S_k = Z_1 + ... + Z_k their sums, of variances t_k = v_1 + ... + v_k. Within the block, training reads S_k only through
its products with the next batch, X_{k+1} S_k^T. Given the data, these and S_B are Gaussian, and

    S_k = (t_k / t_B) S_B + R_k,       R: Brownian bridge, independent of S_B,
    Cov(X_{j+1} R_j^T, X_{k+1} R_k^T) = (min(t_j, t_k) - t_j t_k / t_B) X_{j+1} X_{k+1}^T for each unit.

So S_B is drawn once instead of B matrices, and the products with R from their covariance by its Cholesky factor L: as
L n with standard normals n. The upper layers have noise of their own in each step.

For the accountant nothing changes. The noise is independent of data and model, and the trained model and its losses are
one function of data, products, S_B and the upper layers' noise; these have the joint law that they have with one draw
per step, so model and losses have theirs. The diagonal of the covariance is raised by `JITTER`, since images may be
equal and L would not exist: that is independent noise on what the first layer answers to each example, before the
example's gradient is clipped to C, and so leaves the sensitivity of each step as it is.

With momentum or a proximal term, and where it does not pay, each step draws its own noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from asyncfl.learning.dense import Stack
from asyncfl.learning.gemm import by_size
from asyncfl.learning.training import Training

if TYPE_CHECKING:
    import torch

ROWS = 96
"""Samples of a block whose products are drawn together: larger blocks take longer to factorise than they save."""
LARGE = 100_000
"""Weights of the first layer from which blocks pay: they save a sixth of the time at 100,000, a third at 200,000."""
JITTER = 1e-5
"""Relative increase of the variances, above the rounding errors of the factorisation in float32."""


class BlockDraws(NamedTuple):
    """Noise of a block, for a standard deviation of 1 of the noise on the sum of a batch's gradients."""

    total: torch.Tensor
    """(units * padded inputs,) S_B over the square root of t_B."""
    shifts: tuple[torch.Tensor | None, ...]
    """(n, units) X_{k+1} R_k^T of each step, which the outputs of the first layer lack; None for the first step."""
    upper: tuple[torch.Tensor, ...]
    """(n_upper,) normals of each step for the upper layers, padded."""


@dataclass(frozen=True)
class Block:
    """Steps whose noise is drawn together."""

    batches: tuple[int, ...]
    """Samples of each step."""
    parts: tuple[float, ...]
    """(t_k - t_{k-1}) / t_B for each step k, the share of S_B that it adds, times the square root of t_B."""
    covariance: torch.Tensor
    """(m, m) factors of the inner products of the samples after the first batch in the covariance of the products."""

    @classmethod
    def of(cls, batches: Sequence[int]) -> Block:
        """Build the block of steps on batches of these numbers of samples, noise of variance 1 / n^2 on each mean."""
        import torch

        *times, end = accumulate(n**-2 for n in batches)
        t = torch.tensor(times, dtype=torch.float64).repeat_interleave(torch.tensor(batches[1:], dtype=torch.int64))
        covariance = (torch.minimum(t[:, None], t) - t[:, None] * t / end).float()
        return cls(tuple(batches), tuple(n**-2 / end**0.5 for n in batches), covariance)

    def normals(self, stack: Stack) -> int:
        """Count the standard normals that `draw` needs."""
        return sum(self._sizes(stack))

    def _sizes(self, stack: Stack) -> list[int]:
        first = stack.weights.full[0].numel()
        upper = len(stack.weights.flat) - first
        return [first, len(self.covariance) * stack.widths[1], *[upper] * len(self.batches)]

    def draw(self, stack: Stack, x: torch.Tensor, normals: torch.Tensor) -> BlockDraws | None:
        """Return the noise of the block; None if samples are so long that their products are not finite.

        x: (m, padded inputs), the batches after the first; normals: standard normals, at least as many as needed.
        """
        import torch

        total, bridge, *upper = torch.split(normals[: self.normals(stack)], self._sizes(stack))
        m = len(x)
        covariance = by_size(stack.gemm, torch.mm, m, m, x.shape[1])(x, x.T).mul_(self.covariance)
        covariance.diagonal().mul_(1 + JITTER)
        factor, failed = torch.linalg.cholesky_ex(covariance)
        if failed or not factor.sum().isfinite():
            return None
        product = by_size(stack.gemm, torch.mm, m, m, stack.widths[1])
        shifts = torch.split(product(factor, bridge.view(m, -1)), list(self.batches[1:])) if m else ()
        return BlockDraws(total, (None, *shifts), tuple(upper))


def blocks_of(training: Training, widths: Sequence[int], samples: int) -> list[Block]:
    """Cut the steps of an epoch of an MLP of these widths on `samples` samples into blocks; [] if each step draws its
    own noise."""
    n = training.batch_of(samples)
    length = 1 + ROWS // n
    plain = training.example_noise and training.is_basic and not (training.momentum or training.proximal_mu)
    if not plain or len(widths) < 3 or widths[0] * widths[1] < LARGE or length < 2:
        return []
    batches = [min(n, samples - start) for start in range(0, samples, n)]
    return [Block.of(batches[start : start + length]) for start in range(0, len(batches), length)]
