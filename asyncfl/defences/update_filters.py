"""What defences share that look at updates one by one: gradients out of them, and what noise adds to their length.

They judge single updates as they come, knowing nothing of the others in the buffer. A flag of theirs is never a strike:
all of them turn away honest updates as a matter of course (Kardam a fixed share of them), and the sources ban nobody.

The sources know no differential privacy. Noise of standard deviation sigma on each of d parameters adds about
sigma^2 d to squared lengths, often more than the update itself, and as published they then turn everyone away.
`noise: accounted` subtracts that known amount; `ignored` is the literal rule.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from asyncfl.defences.buffer import Buffer
from asyncfl.defences.detector import DefenceContext, Verdict
from asyncfl.messages import Vector

Noise = Literal["accounted", "ignored"]


def gradient_scale(context: DefenceContext, buffer: Buffer, row: int) -> float:
    """Factor that turns the update in that row into its client's mean gradient: -1 / (lr * steps)."""
    steps = float(context.steps[buffer.clients[row]]) * (1.0 if buffer.work is None else float(buffer.work[row]))
    return -1.0 / (context.lr * steps)


@dataclass(frozen=True)
class Gradient:
    """What a client last sent, kept as the update that it was: as a gradient it may overflow float32."""

    delta: Vector
    """(n_parameters,) the update."""
    scale: float
    """What makes it a gradient."""
    version: int
    """Version that it was computed at."""

    def values(self) -> NDArray[np.float64]:
        """(n_parameters,) the gradient."""
        return self.delta.astype(np.float64) * self.scale


def gradient_of(context: DefenceContext, buffer: Buffer, row: int) -> Gradient:
    """The mean gradient that the update in that row comes of."""
    scale = gradient_scale(context, buffer, row)
    # Whatever the server takes differences from, a gradient is of the model that was sent.
    return Gradient(buffer.models[row] - buffer.base(row), scale, int(buffer.base_versions[row]))


def upper_quantile(share: float, values: Iterable[float]) -> float:
    """The least of `values` that all but a `share` (0..1) of them are no larger than; there is at least one."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil((1 - share) * len(ordered) - 1e-9) - 1)]


def noise_energy(buffer: Buffer, noise: Noise) -> NDArray[np.float64]:
    """(n_updates,) what noise adds to the squared L2 norm of an update on average: sigma^2 d, or 0 if ignored."""
    return buffer.upload_std**2 * len(buffer.current) if noise == "accounted" else np.zeros(len(buffer))


def filter_verdict(
    flagged: NDArray[np.bool_], details: list[str], weights: NDArray[np.float64] | None = None, **notes: float
) -> Verdict:
    """Verdict that leaves out the flagged rows and strikes nobody."""
    return Verdict(flagged, np.zeros(len(flagged), dtype=bool), weights, details=tuple(details), notes=notes)
