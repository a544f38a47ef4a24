"""The server's own update, trained on its root set, as a reference for clients' updates."""

from __future__ import annotations

import numpy as np

from asyncfl.base.messages import Vector
from asyncfl.defences.detector import DefenceContext


def require_root(context: DefenceContext, who: str) -> None:
    """Raise ValueError if the server has no root set. `who`: name in the message of the part that needs it."""
    if context.root_gradient is None:
        raise ValueError(
            f"{who} needs the server's own samples, but it has none; set defence.root_samples (100 is usual)"
        )


def root_gradient(context: DefenceContext, model: Vector) -> Vector:
    """Return the gradient (n_parameters,) on the root set at `model`, clipped to `gradient_clip` like clients'
    gradients."""
    require_root(context, "a trusted gradient")
    assert context.root_gradient is not None
    gradient = np.asarray(context.root_gradient(model), dtype=np.float32)
    if context.gradient_clip is not None:
        norm = float(np.sqrt(np.dot(gradient, gradient)))
        if norm > context.gradient_clip:
            gradient = gradient * np.float32(context.gradient_clip / norm)
    return gradient


def root_update(context: DefenceContext, model: Vector, steps: int | None = None) -> Vector:
    """Return the change of `model` (n_parameters,) by `steps` steps of gradient descent on the whole root set.

    `steps` None: the median of the clients' steps, so that the update is about as long as theirs.
    """
    number = max(1, int(np.median(context.steps))) if steps is None else steps
    trained = model
    for _ in range(number):
        trained = trained - np.float32(context.lr) * root_gradient(context, trained)
    return np.asarray(trained - model)
