"""Shared parts of filters that judge single updates: gradients, noise in lengths, and the server's own update.

These filters judge each update as it arrives, independently of the others in the buffer. Their flags are never strikes:
they regularly reject honest updates (Kardam a fixed share), and the sources ban no client.

The sources do not consider differential privacy. Noise of standard deviation sigma on each of d parameters adds about
sigma^2 d to squared lengths, often more than the update itself; the filters as published then reject every update.
`noise: accounted` subtracts this known amount; `ignored` is the published rule.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

from asyncfl.base.messages import Bools, Floats, Vector
from asyncfl.defences.buffer import Buffer
from asyncfl.defences.detector import DefenceContext, Verdict

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

State = TypeVar("State", bound="DataclassInstance")

Noise = Literal["accounted", "ignored"]
"""Treatment of the expected contribution of privacy noise to squared lengths: subtracted or left in."""


def gradient_scale(context: DefenceContext, buffer: Buffer, row: int) -> float:
    """Return the factor that turns the update in `row` into its client's mean gradient: -1 / (lr * steps)."""
    steps = float(context.steps[buffer.clients[row]]) * (1.0 if buffer.work is None else float(buffer.work[row]))
    return -1.0 / (context.lr * steps)


@dataclass(frozen=True)
class Gradient:
    """A client's mean gradient in one task, stored as its update, since the gradient may overflow float32."""

    delta: Vector
    """(n_parameters,) the update."""
    scale: float
    """Factor that turns the update into the gradient."""
    version: int
    """Model version at which it was computed."""

    def values(self) -> Floats:
        """Return the gradient (n_parameters,)."""
        return self.delta.astype(np.float64) * self.scale


def gradient_of(context: DefenceContext, buffer: Buffer, row: int) -> Gradient:
    """Return the mean gradient of the task whose update is in `row` of the buffer."""
    scale = gradient_scale(context, buffer, row)
    # A gradient belongs to the model that the client was sent, whatever `origin` is.
    return Gradient(buffer.models[row] - buffer.base(row), scale, int(buffer.base_versions[row]))


def without(state: State, client: int, *names: str) -> State:
    """Return `state` without `client` in the fields `names`, dictionaries by client."""
    left: dict[str, Any] = {
        name: {who: what for who, what in getattr(state, name).items() if who != client} for name in names
    }
    return replace(state, **left)


def models_of(gradients: dict[int, Gradient], models: dict[int, Vector]) -> dict[int, Vector]:
    """Return those of `models` (version -> model) at which one of `gradients` (client -> gradient) was computed."""
    known = {gradient.version for gradient in gradients.values()}
    return {version: model for version, model in models.items() if version in known}


def upper_quantile(share: float, values: Iterable[float]) -> float:
    """Return the (1 - `share`) quantile of `values`: the least value that all but a `share` (0..1) of them do not
    exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil((1 - share) * len(ordered) - 1e-9) - 1)]


def noise_energy(buffer: Buffer, noise: Noise) -> Floats:
    """Return the expected contribution of noise to the squared L2 norm of each update, (n_updates,): sigma^2 d, or 0 if
    ignored."""
    return buffer.upload_std**2 * len(buffer.current) if noise == "accounted" else np.zeros(len(buffer))


def filter_verdict(flagged: Bools, details: list[str], weights: Floats | None = None, **notes: float) -> Verdict:
    """Return a verdict that leaves out the flagged rows without strikes.

    `flagged`: (n_updates,). `details`: reason for each flag. `weights`: see `Verdict.weights`. Other keywords become
    `Verdict.notes`.
    """
    return Verdict(flagged, np.zeros(len(flagged), dtype=bool), weights, details=tuple(details), notes=notes)


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
