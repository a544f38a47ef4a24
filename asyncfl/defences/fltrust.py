"""FLTrust: weighs updates by their cosine with an update that the server trains on its own samples."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from asyncfl.base.arrays import Floats, Vector
from asyncfl.base.quantities import MeasuredIn
from asyncfl.defences.buffer import Buffer, DefenceContext
from asyncfl.defences.distances import norms
from asyncfl.defences.robust_rule import weighted_sum
from asyncfl.defences.rule import Aggregate, Rule, present


class FLTrust(Rule):
    """Mean of the updates, scaled to the length of the server's own update and weighed by their positive cosine with
    it.

    Use it if the server holds clean samples of the same kind as the clients'. Weights multiply the trust scores; equal
    weights give the original rule. If no update is trusted the model does not change. The state is the run's context.
    Source: Cao et al. 2021, algorithm 2, equations 2-4.
    """

    kind: Literal["fltrust"] = "fltrust"
    alongside: ClassVar[Mapping[str, Any]] = {"defence.root_samples": 100}
    needs_root: ClassVar[bool] = True
    server_steps: Annotated[int, Field(ge=1), MeasuredIn("steps")] | None = None
    """Gradient descent steps on the root set, >= 1; null: the median of the clients' steps."""

    def aggregate(self, updates: Vector, weights: Floats) -> Vector:
        raise ValueError(
            "FLTrust needs the server's own update: call `aggregate_trusted(own, updates, weights)` or `step`"
        )

    def aggregate_trusted(self, own: Vector, updates: Vector, weights: Floats) -> Aggregate:
        """Return the aggregate, given the server's own update `own` (n_parameters,); see `Rule.aggregate`."""
        rows = present(updates, weights)
        lengths = norms(updates)
        own_length = float(np.sqrt(np.dot(own, own)))
        along = np.zeros(len(updates))
        along[rows] = updates[rows].astype(np.float64) @ own.astype(np.float64)
        scale = lengths * own_length
        trust = np.maximum(np.divide(along, scale, out=np.zeros_like(along), where=scale > 0), 0) * weights
        total = float(trust.sum())
        if not total:
            return Aggregate(np.zeros_like(own), np.zeros(len(updates)), ("fltrust: no update was trusted",))
        weighed = float(weights.sum()) * trust / total
        stretched = np.divide(weighed * own_length, lengths, out=np.zeros_like(weighed), where=lengths > 0)
        return Aggregate(weighted_sum(stretched, updates), weighed)

    def start(self, context: DefenceContext, random: np.random.Generator) -> DefenceContext:
        return context

    def step(self, state: DefenceContext, buffer: Buffer, weights: Floats) -> tuple[Aggregate, DefenceContext]:
        own = state.trusted_update(buffer.current, self.server_steps)
        return self.aggregate_trusted(own, buffer.deltas, weights), state
