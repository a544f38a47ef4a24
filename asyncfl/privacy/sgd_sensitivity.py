"""How far apart two runs of local training may end, whatever the data."""

from __future__ import annotations

import math

from asyncfl.privacy.context import PrivacyContext


def clipped_sgd_sensitivity(
    context: PrivacyContext, clip_norm: float, samples: int, epochs: int | None = None
) -> float:
    """2 lr C S: L2 distance of two models after S steps from the same model, each gradient clipped to C.

    `samples`: of the client; `epochs` of S steps (None: those of a task). Each run moves by at most lr C in a step, and
    after the first sample that differs nothing keeps their gradients together. Infinite with momentum or a proximal
    term.
    """
    if not context.plain_sgd:
        return math.inf
    batch = min(context.batch_size, samples) if context.batch_size else samples
    steps = (context.epochs if epochs is None else epochs) * math.ceil(samples / batch)
    return 2 * context.lr * clip_norm * steps
