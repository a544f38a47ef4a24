"""Free rider: uploads the model that it was sent, untrained."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from asyncfl.messages import Vector
from asyncfl.quantities import MeasuredIn
from asyncfl.threats.attack import Attack, AttackView
from asyncfl.threats.row_arithmetic import stack_uploads

ReturnedModel = Literal["sent", "newest"]
"""Which global model an attacker returns: the one it was sent, or the newest, which it could only know from others."""


class FreeRider(Attack):
    """Uploads the global model, with noise that hides it if wanted (Fraboni, Vidal and Lorenzi 2021).

    Source: Fraboni, Vidal, Lorenzi 2021.
    """

    kind: Literal["free_rider"] = "free_rider"
    model: ReturnedModel = "sent"
    """Which global model: the one it was sent, or the newest."""
    std: Annotated[float, Field(ge=0, allow_inf_nan=False), MeasuredIn("1")] = 0.0
    """Standard deviation of the disguising noise on each parameter, >= 0; privacy noise comes on top."""

    def craft(self, view: AttackView) -> Vector:
        """The returned model as a difference from the one that was sent, and noise."""
        n_parameters = view.honest.shape[1]

        def upload(row: int) -> Vector:
            update = view.current - view.bases[row] if self.model == "newest" else np.zeros(n_parameters, np.float32)
            if self.std > 0:
                update += np.float32(self.std) * view.randoms[row].standard_normal(n_parameters, dtype=np.float32)
            return update

        return stack_uploads(view.attackers, n_parameters, upload)
