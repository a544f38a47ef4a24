"""Sensitivity of local training with clipped gradients, for any data.

Convex losses get no smaller bound. Steps along gradients of a convex smooth loss do not drive two models apart (Hardt,
Recht, Singer 2016), so one sample would count only in the steps that use it. A clipped gradient of a batch is in
general the gradient of no convex loss: in linear regression on two samples, clipped steps of any size drive two models
apart. The same holds for clipped gradients of single samples under cross-entropy with three or more classes.
"""

from __future__ import annotations

import math

from asyncfl.privacy.context import PrivacyContext


def clipped_sgd_sensitivity(
    context: PrivacyContext, clip_norm: float, samples: int, epochs: int | None = None
) -> float:
    """Return the largest L2 distance of two models after S clipped steps from the same model: 2 lr C S.

    `samples`: of the client. `epochs`: local epochs behind the S steps; None: those of a task. Each run moves at most
    lr C per step, and after the first differing sample their gradients may differ arbitrarily. Where a step takes the
    mean of the clipped gradients of all samples, the first one is at the same model in both runs and differs in one
    term: 2 lr C (S - 1 + 1/samples). Infinite with momentum or a proximal term.
    """
    if not context.plain_sgd:
        return math.inf
    batch = min(context.batch_size, samples) if context.batch_size else samples
    steps = (context.epochs if epochs is None else epochs) * math.ceil(samples / batch)
    return 2 * context.lr * clip_norm * (steps - 1 + 1 / samples if context.clips_samples else steps)
