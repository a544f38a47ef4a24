"""AFLGuard: accepts updates that differ from the server's own update by at most a share of its length."""

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from asyncfl.base.arrays import Floats, Vector
from asyncfl.base.quantities import MeasuredIn
from asyncfl.defences.buffer import Buffer, DefenceContext
from asyncfl.defences.detector import Verdict
from asyncfl.defences.distances import squared_norm
from asyncfl.defences.update_filters import TrustingFilter, filter_verdict


class AflGuard(TrustingFilter):
    """Accepts an update u if |u - s| <= lambda |s|, s the server's own update on its root set.

    Use it in asynchronous runs where the server holds clean samples (100 in the source). Source: Fang et al. 2022.
    """

    kind: Literal["aflguard"] = "aflguard"
    tolerance: Annotated[float, Field(gt=0), MeasuredIn("lengths of the server's update")] = 1.5
    """lambda, > 0: largest difference, in lengths of the server's update."""
    refresh: Annotated[int, Field(ge=1), MeasuredIn("versions")] = 1
    """Versions after which the server's update is trained anew, >= 1."""
    server_steps: Annotated[int, Field(ge=1), MeasuredIn("steps")] | None = None
    """Steps of gradient descent on the root set, >= 1; null: the median of the clients' steps."""

    def train(self, context: DefenceContext, model: Vector) -> Vector:
        return context.trusted_update(model, self.server_steps)

    def compare(self, context: DefenceContext, buffer: Buffer, own: Vector, energy: Floats) -> Verdict:
        limit = self.tolerance**2 * squared_norm(own)
        away = np.array([squared_norm(delta - own) for delta in buffer.deltas]) - energy
        details = [f"differs by {np.sqrt(max(a, 0)):.4g}, allowed {np.sqrt(limit):.4g}" for a in away]
        return filter_verdict(~(away <= limit), details, allowed=float(np.sqrt(limit)))
