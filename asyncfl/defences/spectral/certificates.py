"""Bounds on lengths and inner products that honest updates keep whatever their data; clipping and noise imply them.

An honest client moves its model by at most b = lr C S (S steps of a gradient of norm at most C), adds noise
N(0, sigma^2) of its own to each of d parameters, and so sends delta = signal + noise with |signal| <= b. Hence, but for
events of q standard deviations (q = 6: one in 10^9),

    norm    lo <= |delta| <= hi     lo^2 = sigma^2 (d - q sqrt(2d) - q^2)
                                    hi^2 = b^2 + sigma^2 (d + q sqrt(2d) + q^2) + 2 q sigma b
    pair    |<delta_i, delta_j>| <= b_i b_j + q sqrt(sigma_i^2 sigma_j^2 d + sigma_i^2 b_j^2 + sigma_j^2 b_i^2)

Under lo: no noise was added. Over hi: too long a step. Over the pair bound: the two do not have independent noise, as
when attackers send the same vector, or one sends its own again. A FedProx term only shortens the step; momentum m
lengthens it to at most b/(1 - m), so give that as the learning rate's factor. Without gradient clipping b is infinite:
then only lo is left. Where noise is drawn between epochs, later steps may follow it, and lengths are bounded by the
triangle inequality alone: lo - b and |noise| + b. What is compressed keeps none of these bounds: left-out numbers take
noise with them, rounding adds to it, and what is made up for later is a client's earlier noise.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]

ROUNDING = 1e-5
"""Relative slack for float32 on every comparison with a bound."""
UNCHECKED_REMARK = "certificates of length and likeness are not checked: updates are compressed"
"""What a user is told then."""


def norm_bounds(
    n_parameters: int, noise_std: Floats, step: Floats, deviations: float, *, follows: bool = False
) -> tuple[Floats, Floats]:
    """Least and greatest length of an honest update, lo and hi.

    `noise_std`: (n,) sigma. `step`: (n,) b, may be infinite. `deviations`: q. `follows`: whether the step may depend
    on the noise. Returns two (n,) arrays.
    """
    spread = deviations * np.sqrt(2 * n_parameters)
    lower = noise_std**2 * max(0.0, n_parameters - spread - deviations**2)
    noise = noise_std**2 * (n_parameters + spread + deviations**2)
    if follows:
        return np.maximum(0.0, np.sqrt(lower) - step), np.sqrt(noise) + step
    upper = step**2 + noise
    return np.sqrt(lower), np.sqrt(upper + _product(2 * deviations * noise_std, step))


def pair_bounds(
    n_parameters: int, noise_std: Floats, step: Floats, others_std: Floats, others_step: Floats, deviations: float
) -> Floats:
    """Greatest inner product of two honest updates with independent noise.

    `noise_std`, `step`: (n,) of one side; `others_std`, `others_step`: (m,) of the other. Returns (n, m).
    """
    variance = np.multiply.outer(noise_std**2, others_std**2) * n_parameters
    variance += _product(noise_std[:, None] ** 2, others_step**2) + _product(others_std**2, step[:, None] ** 2)
    return np.asarray(np.multiply.outer(step, others_step) + deviations * np.sqrt(variance))


def _product(noise: Floats, step: Floats) -> Floats:
    """noise * step, 0 where there is no noise even if the step is unbounded."""
    return noise * np.where(noise > 0, step, noise)


def resolve_conflicts(conflicts: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which of several updates are removed so that no two of the others are in conflict.

    `conflicts`: (n, n) symmetric bool, in the order of arrival. The one with most conflicts is removed, ties the
    latest, until none is left: of a star only the centre goes. Returns (n,) bool.
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
