"""Free rider: uploads the global model without training."""

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from asyncfl.base.messages import Vector
from asyncfl.base.quantities import MeasuredIn
from asyncfl.threats.attack import Attack, AttackView

ReturnedModel = Literal["sent", "newest"]
"""Global model that an attacker returns: the one it was sent, or the newest, which it could only learn from others."""


class FreeRider(Attack):
    """Uploads the global model, optionally disguised by noise. Source: Fraboni, Vidal, Lorenzi 2021."""

    kind: Literal["free_rider"] = "free_rider"
    model: ReturnedModel = "sent"
    """Global model to upload: the one the attacker was sent, or the newest."""
    std: Annotated[float, Field(ge=0, allow_inf_nan=False), MeasuredIn("1")] = 0.0
    """Standard deviation of the disguising noise on each parameter, >= 0; privacy noise is added to it."""

    def craft(self, view: AttackView) -> Vector:
        n_parameters = view.honest.shape[1]

        def upload(row: int) -> Vector:
            update = view.current - view.bases[row] if self.model == "newest" else np.zeros(n_parameters, np.float32)
            if self.std > 0:
                update += np.float32(self.std) * view.randoms[row].standard_normal(n_parameters, dtype=np.float32)
            return update

        return view.uploads(upload)
