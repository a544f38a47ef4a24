"""The longest payload that a client can upload which keeps to its privacy scheme.

A payload (model or update, `Scheme.clip_target`) is clipped to norm C, then noise of standard deviation s is added to
each of its n parameters. Its norm is at most C and the norm of the noise, which is near its expectation:

    L2, Gaussian   s (sqrt(n) + t)                            exceeded with probability exp(-t^2 / 2), as the norm is a
                                                              function of n Gaussians with Lipschitz constant s
    L1, Gaussian   s (n sqrt(2/pi) + t sqrt(n))               the same, with Lipschitz constant s sqrt(n)
    L1, Laplace    b (n + t sqrt(n) + t^2 / 2), s = sqrt(2) b    with probability exp(-t^2 / 2) (Gamma tail)
    L2, Laplace    as L1, divided by sqrt(n), and b (ln n + t^2 / 2) for the largest value (both are generous)

Six deviations (t = 6) are exceeded once in 6e7 uploads. Compression that rounds moves an update by at most
`Compression.rounding_norm`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from asyncfl.base.arrays import Bools, Vector
from asyncfl.client.batch import PathComponents
from asyncfl.privacy import Contribution
from asyncfl.privacy.release import Distribution

ROUNDING_OF_SUMS, ROUNDING_OF_MODELS = 1e-4, 1e-6
"""Shares by which sums in float32, and the difference of models in float32, may be off."""
DEVIATIONS = 6.0
"""t, standard deviations of noise up to which a payload is taken for an honest one."""


def noise_norm(distribution: Distribution, order: int, std: float, n: int) -> float:
    """Return the norm (L1 or L2 by `order`) that noise of standard deviation `std` on `n` parameters hardly exceeds."""
    t, root = DEVIATIONS, math.sqrt(n)
    if distribution == "gaussian":
        return std * (root + t if order == 2 else n * math.sqrt(2 / math.pi) + t * root)
    scale = std / math.sqrt(2)
    if order == 1:
        return scale * (n + t * root + t**2 / 2)
    # The square sums to n s^2; heavy tails come from the largest values.
    return std * (root + t) + scale * (math.log(n) + t**2 / 2)


def largest_noise(distribution: Distribution, std: float, n: int) -> float:
    """Return the absolute value that none of `n` draws of noise hardly exceeds."""
    t = DEVIATIONS
    if distribution == "gaussian":
        return std * (math.sqrt(2 * math.log(2 * n)) + t)
    return std / math.sqrt(2) * (math.log(n) + t**2 / 2)


def payload_limit(facts: PathComponents, clip_norm: float | None, contribution: Contribution) -> float:
    """Return the norm that the payload of an upload can have; infinite where nothing bounds it: without clipping, with
    noise between the epochs of a task, and where clients send later what compression left out."""
    scheme, compression, n = facts.scheme, facts.compression, facts.learner.n_parameters
    if clip_norm is None or scheme.noise_each_epoch:
        return math.inf
    noise, order = scheme.upload_noise(facts.context, clip_norm, contribution), scheme.clip_target.order
    limit = clip_norm + noise_norm(noise.distribution, order, noise.upload_std, n)
    if compression is None or compression.off:
        return limit
    if not facts.clips_update or order != 2:
        # The difference of models is compressed, which no norm of a model bounds.
        return math.inf
    return limit + compression.rounding_norm(
        limit, clip_norm + largest_noise(noise.distribution, noise.upload_std, n), n
    )


def too_long(
    facts: PathComponents,
    models: Vector,
    bases: Sequence[Vector],
    clip_norm: float | None,
    contributions: Sequence[Contribution],
) -> Bools:
    """Return (n,) whether the payload of each upload is longer than its scheme allows; rounding to float32 is granted.

    `models`: (n, n_parameters) as uploaded; `bases`: models that their clients were sent. Values that are not finite
    count as too long.
    """
    long, order = np.zeros(len(models), dtype=bool), facts.scheme.clip_target.order
    for row, (model, base, contribution) in enumerate(zip(models, bases, contributions, strict=True)):
        limit = payload_limit(facts, clip_norm, contribution)
        if limit < math.inf:
            with np.errstate(invalid="ignore", over="ignore"):
                norm = np.linalg.norm(model - base if facts.clips_update else model, order)
                within = limit * (1 + ROUNDING_OF_SUMS)
                long[row] = not norm <= within and not norm <= within + ROUNDING_OF_MODELS * np.linalg.norm(base, order)
    return long
