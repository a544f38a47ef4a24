"""AFLGuard: accepts updates that differ from the server's own update by at most a share of its length."""

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
from asyncfl.defences.norms import squared_norm
from asyncfl.defences.update_filters import Noise, filter_verdict, noise_energy, require_root, root_update


@dataclass(frozen=True)
class AflGuardState:
    """State of the filter between buffers."""

    context: DefenceContext
    own: Vector | None = None
    """(n_parameters,) the server's last update."""
    version: int = -1
    """Model version that `own` was trained from."""


class AflGuard(Detector):
    """Accepts an update u if |u - s| <= lambda |s|, s the server's own update on its root set.

    Use it in asynchronous runs where the server holds clean samples (100 in the source). Source: Fang et al. 2022.
    """

    kind: Literal["aflguard"] = "aflguard"
    alongside: ClassVar[Mapping[str, Any]] = {"defence.root_samples": 100}
    tolerance: Annotated[float, Field(gt=0), MeasuredIn("lengths of the server's update")] = 1.5
    """lambda, > 0: largest difference, in lengths of the server's update."""
    refresh: Annotated[int, Field(ge=1), MeasuredIn("versions")] = 1
    """Versions after which the server's update is trained anew, >= 1."""
    server_steps: Annotated[int, Field(ge=1), MeasuredIn("steps")] | None = None
    """Steps of gradient descent on the root set, >= 1; null: the median of the clients' steps."""
    noise: Noise = "accounted"
    """`accounted`: the expected contribution of privacy noise to the squared difference is subtracted first; `ignored`:
    it is not, as in the source."""

    @property
    def needs_root(self) -> bool:
        return True

    def start(self, context: DefenceContext, random: np.random.Generator) -> AflGuardState:
        require_root(context, "AFLGuard")
        return AflGuardState(context)

    def judge(self, state: AflGuardState, buffer: Buffer, scores: Floats | None) -> tuple[Verdict, AflGuardState]:
        if state.own is None or buffer.version - state.version >= self.refresh:
            own = root_update(state.context, buffer.current, self.server_steps)
            state = AflGuardState(state.context, own, buffer.version)
        assert state.own is not None
        limit = self.tolerance**2 * squared_norm(state.own)
        away = np.array([squared_norm(delta - state.own) for delta in buffer.deltas]) - noise_energy(buffer, self.noise)
        flagged = ~(away <= limit)
        details = [
            f"differs by {np.sqrt(max(a, 0)):.4g}, allowed {np.sqrt(limit):.4g}" if f else ""
            for a, f in zip(away, flagged, strict=True)
        ]
        return filter_verdict(flagged, details, allowed=float(np.sqrt(limit))), state
