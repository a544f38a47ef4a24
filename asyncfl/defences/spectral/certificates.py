"""Bounds on norms and inner products that honest updates satisfy for any data, implied by clipping and noise.

An honest client moves its model by at most b = lr C S (S steps with gradients of norm at most C), adds its own noise
N(0, sigma^2) to each of d parameters, and sends delta = signal + noise with |signal| <= b. Except for events of q
standard deviations (q = 6: one in 10^9), therefore

    norm    lo <= |delta| <= hi     lo^2 = sigma^2 (d - q sqrt(2d) - q^2)
                                    hi^2 = b^2 + sigma^2 (d + q sqrt(2d) + q^2) + 2 q sigma b
    pair    |<delta_i, delta_j>| <= b_i b_j + q sqrt(sigma_i^2 sigma_j^2 d + sigma_i^2 b_j^2 + sigma_j^2 b_i^2)

Below lo no noise was added. Above hi the step is too long. Above the pair bound the two updates do not have independent
noise: attackers sent the same vector, or one sent its own again. A FedProx term only shortens the step; momentum m
lengthens it to at most b/(1 - m), to be included in the learning rate. Without gradient clipping b is infinite, and
only lo remains. If noise is drawn between epochs, later steps may depend on it, and lengths are bounded by the triangle
inequality: lo - b and |noise| + b. Compressed updates satisfy none of these bounds: sparsification removes noise,
quantisation adds to it, and error feedback repeats a client's earlier noise.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]

ROUNDING = 1e-5
"""Relative tolerance for float32 in every comparison with a bound."""
UNCHECKED_REMARK = "certificates of length and likeness are not checked: updates are compressed"
"""Remark for the user if updates are compressed."""


def norm_bounds(
    n_parameters: int, noise_std: Floats, step: Floats, deviations: float, *, noise_between_epochs: bool = False
) -> tuple[Floats, Floats]:
    """Return the smallest and largest norm of an honest update, lo and hi, each (n,).

    `n_parameters`: d. `noise_std`: (n,) sigma. `step`: (n,) b, may be infinite. `deviations`: q.
    `noise_between_epochs`: whether noise is also drawn before the last step, so that the step may depend on it.
    """
    spread = deviations * np.sqrt(2 * n_parameters)
    lower = noise_std**2 * max(0.0, n_parameters - spread - deviations**2)
    noise = noise_std**2 * (n_parameters + spread + deviations**2)
    if noise_between_epochs:
        return np.maximum(0.0, np.sqrt(lower) - step), np.sqrt(noise) + step
    upper = step**2 + noise
    return np.sqrt(lower), np.sqrt(upper + _product(2 * deviations * noise_std, step))


def pair_bounds(
    n_parameters: int, noise_std: Floats, step: Floats, others_std: Floats, others_step: Floats, deviations: float
) -> Floats:
    """Return the largest inner product of two honest updates with independent noise, (n, m).

    `noise_std`, `step`: (n,) of the updates on one side; `others_std`, `others_step`: (m,) of those on the other.
    `deviations`: q.
    """
    variance = np.multiply.outer(noise_std**2, others_std**2) * n_parameters
    variance += _product(noise_std[:, None] ** 2, others_step**2) + _product(others_std**2, step[:, None] ** 2)
    return np.asarray(np.multiply.outer(step, others_step) + deviations * np.sqrt(variance))


def _product(noise: Floats, step: Floats) -> Floats:
    """Return `noise` times `step`, elementwise, with 0 where `noise` is 0 even if `step` is infinite."""
    return noise * np.where(noise > 0, step, noise)


def resolve_conflicts(conflicts: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return whether to remove each update so that no two of the others are in conflict, (n,) bool.

    `conflicts`: (n, n) symmetric bool, in order of arrival. The update with most conflicts is removed, of ties the
    latest, until no conflict remains: of a star only the centre.
    """
    open_conflicts = conflicts.copy()
    np.fill_diagonal(open_conflicts, False)
    removed = np.zeros(len(conflicts), dtype=bool)
    while open_conflicts.any():
        counts = open_conflicts.sum(axis=1)
        worst = len(counts) - 1 - int(np.argmax(counts[::-1]))
        removed[worst] = True
        open_conflicts[worst] = open_conflicts[:, worst] = False
    return removed
