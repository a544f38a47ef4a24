"""AFLGuard: accepts updates that differ from the server's own update by at most a share of its length."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from asyncfl.base.messages import Floats
from asyncfl.base.quantities import MeasuredIn
from asyncfl.defences import update_filters as filters
from asyncfl.defences.buffer import Buffer, DefenceContext
from asyncfl.defences.detector import Detector, Verdict
from asyncfl.defences.distances import squared_norm


class AflGuard(Detector):
    """Accepts an update u if |u - s| <= lambda |s|, s the server's own update on its root set.

    Use it in asynchronous runs where the server holds clean samples (100 in the source). Source: Fang et al. 2022.
    """

    kind: Literal["aflguard"] = "aflguard"
    alongside: ClassVar[Mapping[str, Any]] = {"defence.root_samples": 100}
    needs_root: ClassVar[bool] = True
    tolerance: Annotated[float, Field(gt=0), MeasuredIn("lengths of the server's update")] = 1.5
    """lambda, > 0: largest difference, in lengths of the server's update."""
    refresh: Annotated[int, Field(ge=1), MeasuredIn("versions")] = 1
    """Versions after which the server's update is trained anew, >= 1."""
    server_steps: Annotated[int, Field(ge=1), MeasuredIn("steps")] | None = None
    """Steps of gradient descent on the root set, >= 1; null: the median of the clients' steps."""
    noise: filters.Noise = "accounted"
    """`accounted`: the expected contribution of privacy noise to the squared difference is subtracted first; `ignored`:
    it is not, as in the source."""

    def start(self, context: DefenceContext, random: np.random.Generator) -> filters.TrustedState:
        filters.require_root(context, self)
        return filters.TrustedState(context)

    def judge(
        self, state: filters.TrustedState, buffer: Buffer, scores: Floats | None
    ) -> tuple[Verdict, filters.TrustedState]:
        context = state.context
        own, state = state.renewed(
            buffer, self.refresh, lambda: filters.root_update(context, buffer.current, self.server_steps)
        )
        limit = self.tolerance**2 * squared_norm(own)
        away = np.array([squared_norm(delta - own) for delta in buffer.deltas])
        away -= filters.noise_energy(buffer, self.noise)
        details = [f"differs by {np.sqrt(max(a, 0)):.4g}, allowed {np.sqrt(limit):.4g}" for a in away]
        return filters.filter_verdict(~(away <= limit), details, allowed=float(np.sqrt(limit))), state
