"""Kardam: rejects a client whose gradients change faster with the model than those of most other clients."""

import math
from dataclasses import dataclass, field
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from asyncfl.base.arrays import Floats
from asyncfl.base.quantities import MeasuredIn
from asyncfl.defences.buffer import Buffer, DefenceContext
from asyncfl.defences.detector import Detector, Verdict
from asyncfl.defences.distances import squared_norm
from asyncfl.defences.gradients import Gradient, gradient_scale, upper_quantile, without
from asyncfl.defences.update_filters import filter_verdict


@dataclass(frozen=True)
class KardamState:
    """State of the filter: the last gradient of each client."""

    context: DefenceContext
    gradients: dict[int, Gradient] = field(default_factory=dict)
    """Client -> its last gradient, in float32 with infinities where it overflows."""
    coefficients: dict[int, float] = field(default_factory=dict)  # client -> its last Lipschitz coefficient
    accepted: tuple[int, ...] = ()  # senders of the last 2f accepted updates, oldest first


class Kardam(Detector):
    """Accepts an update if its client's empirical Lipschitz coefficient is within the (n - f)/n quantile of all
    clients.

    The coefficient is |g - g'| / |x - x'|: the change of the client's gradient since its last one over the change of
    the model it was sent. A client's first update, and one trained from the same version as its last, cannot be judged
    and are accepted. The frequency filter requires that of 2f + 1 consecutive accepted updates at least f + 1 come from
    different clients. Its dampening of stale updates is the protocol's `staleness`.

    Use it if the server holds no samples. It also rejects a share f/n of honest updates, and noise on updates hides the
    differences it measures. Source: Damaskinos et al. 2018, Lipschitz and frequency filter.
    """

    kind: Literal["kardam"] = "kardam"
    expected_share: Annotated[float, Field(ge=0, lt=1), MeasuredIn("share")] = 0.2
    """f/n: share of clients assumed to be attackers, 0..1."""
    frequency_filter: bool = True
    """Whether accepted updates must come from enough different clients."""

    def start(self, context: DefenceContext, random: np.random.Generator) -> KardamState:
        return KardamState(context)

    def judge(self, state: KardamState, buffer: Buffer, scores: Floats | None) -> tuple[Verdict, KardamState]:
        """See `Detector.judge`. Updates are judged one after another, each with the coefficients known by then."""
        attackers = math.floor(self.expected_share * state.context.clients + 0.5)
        gradients, coefficients, accepted = dict(state.gradients), dict(state.coefficients), list(state.accepted)
        flagged, details = np.zeros(len(buffer), dtype=bool), [""] * len(buffer)
        for row, client in enumerate(buffer.clients.tolist()):
            with np.errstate(over="ignore"):
                values = buffer.deltas[row] * np.float32(gradient_scale(state.context, buffer, row))
            last, new = gradients.get(client), Gradient(values, 1.0, int(buffer.base_versions[row]), buffer.base(row))
            gradients[client] = new
            if last is not None and last.version != new.version:
                apart = squared_norm(new.model - last.model)
                with np.errstate(over="ignore", invalid="ignore"):
                    changed = squared_norm(new.delta - last.delta)
                # A change that overflows counts as infinite.
                comparable = math.isfinite(changed)
                coefficients[client] = math.sqrt(changed / apart) if apart and comparable else math.inf
                limit = upper_quantile(self.expected_share, coefficients.values())
                if not (comparable and coefficients[client] <= limit):
                    flagged[row], details[row] = True, f"lipschitz {coefficients[client]:.4g}, allowed {limit:.4g}"
                    continue
            window = [*accepted, client][-(2 * attackers + 1) :]
            different = len(set(window))
            if self.frequency_filter and len(window) > 2 * attackers and different <= attackers:
                flagged[row], details[row] = True, f"{different} clients sent the last {len(window)} accepted"
            else:
                accepted = window
        senders = tuple(accepted[-2 * attackers :]) if attackers else ()
        return filter_verdict(flagged, details), KardamState(state.context, gradients, coefficients, senders)

    def forget_client(self, state: KardamState, client: int) -> KardamState:
        return without(state, client, "gradients", "coefficients")
