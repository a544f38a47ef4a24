"""Shared parts of filters that judge single updates: noise in lengths, and the server's own update.

These filters judge each update as it arrives, independently of the others in the buffer. Their flags are never strikes:
they regularly reject honest updates (Kardam a fixed share), and the sources ban no client.

The sources do not consider differential privacy. Noise of standard deviation sigma on each of d parameters adds about
sigma^2 d to squared lengths, often more than the update itself; the filters as published then reject every update.
`noise: accounted` subtracts this known amount; `ignored` is the published rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from asyncfl.base.component import Component, kind_of
from asyncfl.base.messages import Bools, Floats, Vector
from asyncfl.defences.buffer import Buffer, DefenceContext
from asyncfl.defences.detector import Verdict

Noise = Literal["accounted", "ignored"]
"""Treatment of the expected contribution of privacy noise to squared lengths: subtracted or left in."""


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
    """Return the change of `model` (n_parameters,) by `steps` steps of gradient descent on the whole root set. `steps`
    None: the median of the clients' steps, so that the update is about as long as theirs."""
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
