"""Zeno++: accepts updates that lower the loss on the server's own samples, to first order."""

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from asyncfl.base.arrays import Floats, Vector
from asyncfl.base.quantities import MeasuredIn
from asyncfl.defences.buffer import Buffer, DefenceContext
from asyncfl.defences.detector import Verdict
from asyncfl.defences.distances import inner_product, squared_norm
from asyncfl.defences.gradients import gradient_scale
from asyncfl.defences.update_filters import TrustingFilter, filter_verdict


class ZenoPlusPlus(TrustingFilter):
    """Accepts a gradient g if rate <v, g> - rho |g|^2 >= -rate epsilon, with v a trusted gradient that is renewed
    regularly.

    Use it in asynchronous runs where the server holds clean samples and most updates may be poisoned. g is the client's
    mean gradient: its update divided by -lr and by its number of steps. Source: Xie, Koyejo, Gupta 2020.
    """

    kind: Literal["zeno++"] = "zeno++"
    rate: Annotated[float, Field(gt=0), MeasuredIn("1")] | None = None
    """gamma, > 0; null: the clients' learning rate."""
    rho: Annotated[float, Field(ge=0), MeasuredIn("1")] = 0.001
    """Penalty on the squared length of a gradient, >= 0."""
    epsilon: Annotated[float, MeasuredIn("1")] = 0.0
    """Tolerated ascent; a larger value accepts more."""
    refresh: Annotated[int, Field(ge=1), MeasuredIn("versions")] = 10
    """Versions after which v is computed anew, >= 1."""

    def train(self, context: DefenceContext, model: Vector) -> Vector:
        return context.trusted_gradient(model)

    def compare(self, context: DefenceContext, buffer: Buffer, own: Vector, energy: Floats) -> Verdict:
        rate = context.lr if self.rate is None else self.rate
        merits = np.empty(len(buffer))
        for row, delta in enumerate(buffer.deltas):
            scale = gradient_scale(context, buffer, row)
            length = max(0.0, squared_norm(delta) - float(energy[row])) * scale**2
            merits[row] = rate * scale * inner_product(own, delta) - self.rho * length
        needed = 0.0 - rate * self.epsilon
        return filter_verdict(~(merits >= needed), [f"score {merit:.4g}, needed {needed:.4g}" for merit in merits])
