"""Bounds on norms and inner products that honest updates satisfy for any data, implied by clipping and noise.

An honest client moves its model by at most b = lr C S (S steps with gradients of norm at most C), adds its own noise
N(0, sigma^2) to each of d parameters, and sends delta = signal + noise with |signal| <= b. Except for events of q
standard deviations (q = 6: one in 10^9), therefore

    norm    lo <= |delta| <= hi     lo^2 = sigma^2 (d - q sqrt(2d) - q^2)
                                    hi^2 = b^2 + sigma^2 (d + q sqrt(2d) + q^2) + 2 q sigma b
    pair    |<delta_i, delta_j>| <= b_i b_j + q sqrt(sigma_i^2 sigma_j^2 d + sigma_i^2 b_j^2 + sigma_j^2 b_i^2)

Below lo no noise was added. Above hi the step is too long. Above the pair bound the two updates do not have independent
noise: attackers sent the same vector, or one sent its own again. A FedProx term only shortens the step; momentum m
lengthens it to at most b/(1 - m), to be included in the learning rate. Without gradient clipping, and with other
optimisers, weight decay or a kept state, b is infinite, and only lo remains. If noise is drawn between epochs, later
steps may depend on it, and lengths are bounded by the triangle inequality: lo - b and |noise| + b. Compressed updates
satisfy none of these bounds.

Models are float32, and each step rounds every weight to its spacing, at most 2^-23 of the weight. Where an update is as
small as that, it is up to (S + 2) 2^-24 |w| longer or shorter, w being the model; S steps, the noise and the difference
are rounded. b is taken that much longer, and lo shorter.
"""

from typing import NamedTuple

import numpy as np

from asyncfl.base.arrays import Bools, Floats
from asyncfl.defences.buffer import Buffer, DefenceContext
from asyncfl.defences.client_means import ClientMeans
from asyncfl.defences.distances import inner_products, squared_norm

ROUNDING = 1e-5  # relative tolerance for float32 in every comparison with a bound
UNIT_ROUNDOFF = 2.0**-24  # largest relative error of one rounding to float32
COMPARABLE = 1e18  # L2 norm up to which inner products of updates do not overflow float32
BESIDE = "left out with a forgery"  # reason for a sound update whose sender sent another that breaks a certificate
UNCHECKED_REMARK = "certificates of length and likeness are not checked: updates are compressed"


def norm_bounds(
    n_parameters: int, noise_std: Floats, step: Floats, deviations: float, *, noise_between_epochs: bool = False
) -> tuple[Floats, Floats]:
    """Return the smallest and largest norm of an honest update, lo and hi, each (n,). `n_parameters`: d. `noise_std`:
    (n,) sigma. `step`: (n,) b, may be infinite. `deviations`: q."""
    spread = deviations * np.sqrt(2 * n_parameters)
    lower = noise_std**2 * max(0.0, n_parameters - spread - deviations**2)
    noise = noise_std**2 * (n_parameters + spread + deviations**2)
    if noise_between_epochs:
        return np.maximum(0.0, np.sqrt(lower) - step), np.sqrt(noise) + step
    return np.sqrt(lower), np.sqrt(step**2 + noise + _product(2 * deviations * noise_std, step))


def pair_bounds(
    n_parameters: int, noise_std: Floats, step: Floats, others_std: Floats, others_step: Floats, deviations: float
) -> Floats:
    """Return the largest inner product of two honest updates with independent noise, (n, m), from the (n,) noise and
    step of the updates on one side and the (m,) of those on the other."""
    variance = np.multiply.outer(noise_std**2, others_std**2) * n_parameters
    variance += _product(noise_std[:, None] ** 2, others_step**2) + _product(others_std**2, step[:, None] ** 2)
    return np.asarray(np.multiply.outer(step, others_step) + deviations * np.sqrt(variance))


def _product(noise: Floats, step: Floats) -> Floats:
    """Return `noise` times `step`, with 0 where `noise` is 0 even if `step` is infinite."""
    return noise * np.where(noise > 0, step, noise)


class Checked(NamedTuple):
    """A buffer whose certificates were checked; rows are its updates."""

    own: Floats  # (n, n) inner products of the updates
    against: Floats  # (n, clients) inner products of the updates with the clients' earlier ones
    broken: Bools  # (n,) whether the update breaks a certificate
    forged: Bools
    """(n,) whether any update of its sender does; then all are left out, whether or not the sender is banned."""
    reasons: list[str]
    """(n,) the certificate that the update breaks, `BESIDE` for others that are forged, or an empty text."""


def check_certificates(context: DefenceContext, buffer: Buffer, earlier: ClientMeans, deviations: float) -> Checked:
    """Check the certificates of all updates of `buffer`, none of them by length or likeness if updates are compressed.
    Two updates of the buffer that are too similar break none: either may be the copy."""
    own, against = inner_products(buffer.deltas, buffer.deltas), earlier.products(buffer.deltas)
    lengths = np.sqrt(np.diagonal(own))
    huge = "norm {:.4g} cannot be compared with anything"
    reasons = [huge.format(length) if length > COMPARABLE else "" for length in lengths]
    if not context.compressed:
        clip = context.gradient_clip if context.bounded_steps and context.gradient_clip is not None else np.inf
        every = np.asarray(context.lr * clip * context.steps, dtype=np.float64)
        d, noise = context.n_parameters, buffer.upload_std
        # The longest honest model of the buffer; earlier ones were about as long.
        weights = max(squared_norm(base) for base in buffer.bases) ** 0.5 + float(noise.max()) * d**0.5
        rounding = (context.steps + 2) * UNIT_ROUNDOFF * weights
        every += rounding
        step = every[buffer.clients]
        lower, upper = norm_bounds(d, noise, step, deviations, noise_between_epochs=context.noise_between_epochs)
        lower = np.maximum(0.0, lower - rounding[buffer.clients])
        for row in np.flatnonzero((lengths < lower * (1 - ROUNDING)) | (lengths > upper * (1 + ROUNDING))):
            reasons[row] = reasons[row] or f"norm {lengths[row]:.4g} not in {lower[row]:.4g}..{upper[row]:.4g}"
        likeness = pair_bounds(d, noise, step, earlier.noise_std, every, deviations) * (1 + ROUNDING)
        for row in np.flatnonzero((np.abs(against) > likeness).any(axis=1)):
            reasons[row] = reasons[row] or "pair with an earlier update"
    broken = np.array([bool(reason) for reason in reasons], dtype=bool)
    forged = np.isin(buffer.clients, buffer.clients[broken])
    reasons = [reason or (BESIDE if bad else "") for reason, bad in zip(reasons, forged, strict=True)]
    return Checked(own, against, broken, forged, reasons)
