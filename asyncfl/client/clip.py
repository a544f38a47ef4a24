"""Clip: measure the vector that the scheme clips, and scale it down to the clipping norm.

The statistics over all collected uploads (such as the median norm) are taken before attacks.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.arrays import Vector
from asyncfl.client.batch import Batch, Stage
from asyncfl.privacy import Contribution

_SMALLEST_FACTOR = 1e-30  # smaller factors lose digits in float32


class Measure(Stage):
    """Stage that multiplies each update by the scheme's factor, and records norm and loss in the scheme's state."""

    def run(self, batch: Batch) -> None:
        facts, rows = self.facts, batch.rows
        scheme, order, of_update = facts.scheme, facts.scheme.clip_target.order, facts.clips_update
        samples = facts.data.sizes[[one.client for one in batch.assignments]].tolist()
        if of_update:
            for row, one, size in zip(rows, batch.assignments, samples, strict=True):
                factor = scheme.update_factor(facts.context, size, one.epochs)
                if factor != 1:
                    row -= one.base
                    row *= np.float32(factor)
                    row += one.base
        sent = zip(rows, batch.assignments, strict=True)
        batch.norms = np.array([norm_of(row - one.base if of_update else row, order) for row, one in sent])
        contributions = []
        for place, one in enumerate(batch.assignments):
            # The state is read for each task before it learns of that task.
            epsilon = facts.state.epsilon(one.client, one.turn)
            contribution = Contribution(one.client, samples[place], one.turn, epsilon, epochs=one.epochs)
            contributions.append(contribution)
            facts.state.record_training(contribution, float(batch.losses[place]), float(batch.norms[place]))
        batch.contributions = contributions


class ClipPayloads(Stage):
    """Stage that scales payloads longer than the clipping norm down to it.

    If clipping bounds the influence of a client, the server must not see either that a payload is unusable: an honest
    client's payload that is not finite becomes zero.
    """

    last: float | None = None
    """Norm that the last batch was clipped to; None before, or without clipping."""

    def run(self, batch: Batch) -> None:
        rows, norms, of_update = batch.rows, batch.norms, self.facts.clips_update
        batch.zeroed = ~batch.attacked & ~np.isfinite(norms) & self.facts.scheme.bounds_uploads
        for row in np.flatnonzero(batch.zeroed).tolist():
            rows[row] = batch.assignments[row].base if of_update else 0.0
        clip_norm = batch.clip_norm = self.last = self.clip_norm(norms)
        if clip_norm is None:
            return
        for row in np.flatnonzero((norms > clip_norm) & np.isfinite(norms)).tolist():
            if of_update:
                rows[row] -= batch.assignments[row].base
            _scale_to(rows[row], clip_norm, norms[row])
            if of_update:
                rows[row] += batch.assignments[row].base

    def clip_norm(self, norms: NDArray[np.float64]) -> float | None:
        """Return the norm to which payloads with these norms (n,) before clipping are clipped now; None without
        clipping."""
        finite = norms[np.isfinite(norms)]
        if not len(finite) and self.facts.scheme.bounds_uploads:
            finite = np.zeros(1)  # all were replaced by zero
        return self.facts.state.clip_norm(finite) if len(finite) else None


def norm_of(vector: NDArray[np.floating], order: int) -> float:
    """Compute the L1 (`order` 1) or L2 norm of `vector` in float64."""
    if order == 1:
        return float(np.abs(vector).sum(dtype=np.float64))
    # Squares of float32 values above 1.8e19 overflow float32.
    exact = vector.astype(np.float64)
    return float(np.sqrt(np.dot(exact, exact)))


def _scale_to(vector: Vector, clip_norm: float, norm: float) -> None:
    """Scale `vector`, which has norm `norm`, to `clip_norm`, in place."""
    factor = clip_norm / norm
    if factor < _SMALLEST_FACTOR:
        vector[:] = vector.astype(np.float64) * factor
    else:
        vector *= np.float32(factor)
