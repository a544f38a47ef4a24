"""Shared parts of filters that judge single updates: gradients, noise in lengths, and the server's own update.

These filters judge each update as it arrives, independently of the others in the buffer. Their flags are never strikes:
they regularly reject honest updates (Kardam a fixed share), and the sources ban no client.

The sources do not consider differential privacy. Noise of standard deviation sigma on each of d parameters adds about
sigma^2 d to squared lengths, often more than the update itself; the filters as published then reject every update.
`noise: accounted` subtracts this known amount; `ignored` is the published rule.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

from asyncfl.base.component import Component, kind_of
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
    model: Vector
    """(n_parameters,) the model of that version."""

    def values(self) -> Floats:
        """Return the gradient (n_parameters,)."""
        return self.delta.astype(np.float64) * self.scale


def gradient_of(context: DefenceContext, buffer: Buffer, row: int) -> Gradient:
    """Return the mean gradient of the task whose update is in `row` of the buffer."""
    # A gradient belongs to the model that the client was sent, whatever `origin` is.
    base = buffer.base(row)
    return Gradient(
        buffer.models[row] - base, gradient_scale(context, buffer, row), int(buffer.base_versions[row]), base
    )


def without(state: State, client: int, *names: str) -> State:
    """Return `state` without `client` in the fields `names`, dictionaries by client."""
    left: dict[str, Any] = {
        name: {who: what for who, what in getattr(state, name).items() if who != client} for name in names
    }
    return replace(state, **left)


def upper_quantile(share: float, values: Iterable[float]) -> float:
    """Return the least value that all but a `share` (0..1) of `values` do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil((1 - share) * len(ordered) - 1e-9) - 1)]


def noise_energy(buffer: Buffer, noise: Noise) -> Floats:
    """Return the expected contribution (n_updates,) of noise to squared L2 norms: sigma^2 d, or 0 if ignored."""
    return buffer.upload_std**2 * len(buffer.current) if noise == "accounted" else np.zeros(len(buffer))


def filter_verdict(flagged: Bools, details: Iterable[str], weights: Floats | None = None, **notes: float) -> Verdict:
    """Return a verdict that leaves out the `flagged` (n_updates,) rows without strikes, `details` saying why."""
    shown = (detail if flag else "" for detail, flag in zip(details, flagged, strict=True))
    return Verdict(flagged, np.zeros(len(flagged), dtype=bool), weights, details=tuple(shown), notes=notes)


def require_root(context: DefenceContext, component: Component) -> None:
    """Raise ValueError if the server has no root set, which `component` needs."""
    if context.root_gradient is None:
        raise ValueError(
            f"{kind_of(component)} needs the server's own samples, but it has none; "
            "set defence.root_samples (100 is usual)"
        )


def root_gradient(context: DefenceContext, model: Vector) -> Vector:
    """Return the gradient (n_parameters,) on the root set at `model`, clipped like clients' gradients."""
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
    trained = model
    for _ in range(max(1, int(np.median(context.steps))) if steps is None else steps):
        trained = trained - np.float32(context.lr) * root_gradient(context, trained)
    return np.asarray(trained - model)


@dataclass(frozen=True)
class TrustedState:
    """The server's own gradient or update, between buffers."""

    context: DefenceContext
    own: Vector | None = None
    """(n_parameters,) gradient or update on the root set."""
    version: int = -1
    """Model version at which it was computed."""

    def renewed(self, buffer: Buffer, refresh: int, compute: Callable[[], Vector]) -> tuple[Vector, TrustedState]:
        """Return what `compute` returned at most `refresh` versions ago, and the state that stores it."""
        if self.own is not None and buffer.version - self.version < refresh:
            return self.own, self
        own = compute()
        return own, TrustedState(self.context, own, buffer.version)
