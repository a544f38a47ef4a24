"""Zeno++: accepts updates that lower the loss on the server's own samples, to first order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from asyncfl.base.messages import Floats, Vector
from asyncfl.base.quantities import MeasuredIn
from asyncfl.defences.buffer import Buffer
from asyncfl.defences.detector import DefenceContext, Detector, Verdict
from asyncfl.defences.norms import inner_product, squared_norm
from asyncfl.defences.update_filters import (
    Noise,
    filter_verdict,
    gradient_scale,
    noise_energy,
    require_root,
    root_gradient,
)


@dataclass(frozen=True)
class ZenoState:
    """State of the filter between buffers."""

    context: DefenceContext
    gradient: Vector | None = None
    """(n_parameters,) v, the trusted gradient."""
    version: int = -1
    """Model version at which `gradient` was computed."""


class ZenoPlusPlus(Detector):
    """Accepts a gradient g if rate <v, g> - rho |g|^2 >= -rate epsilon, with v a trusted gradient that is renewed
    regularly.

    Use it in asynchronous runs where the server holds clean samples and most updates may be poisoned. g is the client's
    mean gradient: its update divided by -lr and by its number of steps. Source: Xie, Koyejo, Gupta 2020.
    """

    kind: Literal["zeno++"] = "zeno++"
    alongside: ClassVar[Mapping[str, Any]] = {"defence.root_samples": 100}
    rate: Annotated[float, Field(gt=0), MeasuredIn("1")] | None = None
    """gamma, > 0; null: the clients' learning rate."""
    rho: Annotated[float, Field(ge=0), MeasuredIn("1")] = 0.001
    """Penalty on the squared length of a gradient, >= 0."""
    epsilon: Annotated[float, MeasuredIn("1")] = 0.0
    """Tolerated ascent; a larger value accepts more."""
    refresh: Annotated[int, Field(ge=1), MeasuredIn("versions")] = 10
    """Versions after which v is computed anew, >= 1."""
    noise: Noise = "accounted"
    """`accounted`: the expected contribution of privacy noise to |g|^2 is subtracted first; `ignored`: it is not, as in
    the source."""

    @property
    def needs_root(self) -> bool:
        return True

    def start(self, context: DefenceContext, random: np.random.Generator) -> ZenoState:
        require_root(context, "Zeno++")
        return ZenoState(context)

    def judge(self, state: ZenoState, buffer: Buffer, scores: Floats | None) -> tuple[Verdict, ZenoState]:
        context = state.context
        if state.gradient is None or buffer.version - state.version >= self.refresh:
            state = ZenoState(context, root_gradient(context, buffer.current), buffer.version)
        assert state.gradient is not None
        rate = context.lr if self.rate is None else self.rate
        merits, energy = np.empty(len(buffer)), noise_energy(buffer, self.noise)
        for row, delta in enumerate(buffer.deltas):
            scale = gradient_scale(context, buffer, row)
            length = max(0.0, squared_norm(delta) - float(energy[row])) * scale**2
            merits[row] = rate * scale * inner_product(state.gradient, delta) - self.rho * length
        flagged = ~(merits >= -rate * self.epsilon)
        details = [
            f"score {m:.4g}, needed {0.0 - rate * self.epsilon:.4g}" if f else ""
            for m, f in zip(merits, flagged, strict=True)
        ]
        return filter_verdict(flagged, details), state
