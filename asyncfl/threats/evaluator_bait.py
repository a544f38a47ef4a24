"""Evaluator bait: an upload so similar to the global model that its sender is chosen to score the others.

SAFL asks the client whose model has the largest cosine with the global model. The global model itself has cosine 1. Ten
times the global model has the same cosine, and privacy noise changes it ten times less. The attacker trains nothing.
Its answers as an evaluator are set by `threats.attackers_lie` or by a `lying_evaluator` in combination.
"""

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from asyncfl.base.messages import Vector
from asyncfl.base.quantities import MeasuredIn
from asyncfl.threats.attack import Attack, AttackView
from asyncfl.threats.free_rider import ReturnedModel


class EvaluatorBait(Attack):
    """Uploads a multiple of the global model in order to be chosen as evaluator. Source: ours, against SAFL, equation
    1."""

    kind: Literal["evaluator_bait"] = "evaluator_bait"
    factor: Annotated[float, Field(gt=0, allow_inf_nan=False), MeasuredIn("factor")] = 1.0
    """Multiple of the global model, > 0."""
    model: ReturnedModel = "sent"
    """Global model to upload: the one the attacker was sent, or the newest."""

    def craft(self, view: AttackView) -> Vector:
        factor = np.float32(self.factor)

        def upload(row: int) -> Vector:
            returned = view.current if self.model == "newest" else view.bases[row]
            return np.asarray(factor * returned - view.bases[row])

        return view.uploads(upload)
