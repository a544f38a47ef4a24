"""Attackers that train nothing and upload the global model: free riders, and bait for SAFL's choice of an evaluator.

SAFL asks the client whose model has the largest cosine with the global model. The global model itself has cosine 1. Ten
times the global model has the same cosine, and privacy noise changes it ten times less. Answers of an evaluator are set
by `threats.attackers_lie` or by a `lying_evaluator` in combination.
"""

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from asyncfl.base.arrays import Vector
from asyncfl.base.quantities import MeasuredIn
from asyncfl.threats.attack import Attack, AttackView


class ReturnedModel(Attack):
    """Base class of attacks that upload the global model."""

    model: Literal["sent", "newest"] = "sent"
    """Global model to upload: the one the attacker was sent, or the newest, which it could only learn from others."""

    def returned(self, view: AttackView, row: int) -> Vector:
        return view.current if self.model == "newest" else view.bases[row]


class FreeRider(ReturnedModel):
    """Uploads the global model, optionally disguised by noise. Source: Fraboni, Vidal, Lorenzi 2021."""

    kind: Literal["free_rider"] = "free_rider"
    std: Annotated[float, Field(ge=0, allow_inf_nan=False), MeasuredIn("1")] = 0.0
    """Standard deviation of the disguising noise on each parameter, >= 0; privacy noise is added to it."""

    def craft(self, view: AttackView) -> Vector:
        def upload(row: int) -> Vector:
            update = self.returned(view, row) - view.bases[row]
            if self.std > 0:
                update += np.float32(self.std) * view.randoms[row].standard_normal(len(update), dtype=np.float32)
            return np.asarray(update)

        return view.uploads(upload)


class EvaluatorBait(ReturnedModel):
    """Uploads a multiple of the global model in order to be chosen as evaluator. Source: ours, against SAFL, equation
    1."""

    kind: Literal["evaluator_bait"] = "evaluator_bait"
    factor: Annotated[float, Field(gt=0, allow_inf_nan=False), MeasuredIn("factor")] = 1.0
    """Multiple of the global model, > 0."""

    def craft(self, view: AttackView) -> Vector:
        factor = np.float32(self.factor)
        return view.uploads(lambda row: np.asarray(factor * self.returned(view, row) - view.bases[row]))
