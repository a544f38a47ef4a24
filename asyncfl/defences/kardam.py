"""Kardam: rejects a client whose gradients change faster with the model than those of most other clients."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from asyncfl.base.messages import Floats, Vector
from asyncfl.base.quantities import MeasuredIn
from asyncfl.defences.buffer import Buffer
from asyncfl.defences.detector import DefenceContext, Detector, Verdict
from asyncfl.defences.norms import squared_norm
from asyncfl.defences.update_filters import filter_verdict, gradient_scale, upper_quantile, without


@dataclass(frozen=True)
class KardamState:
    """State of the filter: the last gradient of each client."""

    context: DefenceContext
    gradients: dict[int, Vector] = field(default_factory=dict)
    """Client -> its last gradient (n_parameters,)."""
    versions: dict[int, int] = field(default_factory=dict)
    """Client -> model version of that gradient."""
    models: dict[int, Vector] = field(default_factory=dict)
    """Version -> global model, for the versions above."""
    coefficients: dict[int, float] = field(default_factory=dict)
    """Client -> its last Lipschitz coefficient."""
    accepted: tuple[int, ...] = ()
    """Senders of the last 2f accepted updates, oldest first."""


class Kardam(Detector):
    """Accepts an update if its client's empirical Lipschitz coefficient is within the (n - f)/n quantile of all
    clients.

    The coefficient is |g - g'| / |x - x'|: the change of the client's gradient since its last one over the change of
    the model it was sent. A client's first update, and one trained from the same version as its last, cannot be judged
    and are accepted. The frequency filter requires that of 2f + 1 consecutive accepted updates at least f + 1 come from
    different clients.

    Use it if the server holds no samples. It also rejects a share f/n of honest updates, and noise on updates hides the
    differences it measures. Source: Damaskinos et al. 2018, Lipschitz and frequency filter.
    """

    kind: Literal["kardam"] = "kardam"
    expected_share: Annotated[float, Field(ge=0, lt=1), MeasuredIn("share")] = 0.2
    """f/n: share of clients assumed to be attackers, 0..1."""
    frequency_filter: bool = True
    """Whether accepted updates must come from enough different clients."""
    dampening: Literal["none", "inverse", "exponential"] = "none"
    """Factor on an update of staleness tau, in addition to the protocol's `staleness`: 1, 1/(tau + 1) or
    e^(-.2 tau)."""

    def start(self, context: DefenceContext, random: np.random.Generator) -> KardamState:
        return KardamState(context)

    def judge(self, state: KardamState, buffer: Buffer, scores: Floats | None) -> tuple[Verdict, KardamState]:
        """See `Detector.judge`. Updates are judged one after another, each with the coefficients known by then."""
        attackers = math.floor(self.expected_share * state.context.clients + 0.5)
        gradients, versions, models = dict(state.gradients), dict(state.versions), dict(state.models)
        coefficients, accepted = dict(state.coefficients), list(state.accepted)
        flagged = np.zeros(len(buffer), dtype=bool)
        details = [""] * len(buffer)
        for row, client in enumerate(buffer.clients.tolist()):
            version = int(buffer.base_versions[row])
            model = models.setdefault(version, np.array(buffer.base(row)))
            with np.errstate(over="ignore"):
                gradient = buffer.deltas[row] * np.float32(gradient_scale(state.context, buffer, row))
            if client in gradients and versions[client] != version:
                apart = squared_norm(model - models[versions[client]])
                with np.errstate(over="ignore", invalid="ignore"):
                    changed = squared_norm(gradient - gradients[client])
                # A change that overflows counts as infinite.
                comparable = math.isfinite(changed)
                coefficients[client] = math.sqrt(changed / apart) if apart and comparable else math.inf
                limit = self.limit(coefficients)
                if not (comparable and coefficients[client] <= limit):
                    flagged[row], details[row] = True, f"lipschitz {coefficients[client]:.4g}, allowed {limit:.4g}"
            gradients[client], versions[client] = gradient, version
            if not flagged[row]:
                window = [*accepted, client][-(2 * attackers + 1) :]
                if self.frequency_filter and len(window) > 2 * attackers and len(set(window)) <= attackers:
                    flagged[row], details[row] = (
                        True,
                        f"{len(set(window))} clients sent the last {len(window)} accepted",
                    )
                else:
                    accepted = window
        known = set(versions.values())
        following = replace(
            state,
            gradients=gradients,
            versions=versions,
            models={version: model for version, model in models.items() if version in known},
            coefficients=coefficients,
            accepted=tuple(accepted[-2 * attackers :]) if attackers else (),
        )
        return filter_verdict(flagged, details, self._dampening_factors(buffer)), following

    def limit(self, coefficients: dict[int, float]) -> float:
        """Return the largest accepted coefficient: the (1 - `expected_share`) quantile of `coefficients` (client -> its
        last)."""
        return upper_quantile(self.expected_share, coefficients.values())

    def _dampening_factors(self, buffer: Buffer) -> Floats | None:
        """Return the factor (n_updates,) on the weight of each update; None without dampening."""
        if self.dampening == "none":
            return None
        if self.dampening == "inverse":
            return np.asarray(1.0 / (1 + buffer.staleness))
        return np.asarray(np.exp(-0.2 * buffer.staleness))

    def forget_client(self, state: KardamState, client: int) -> KardamState:
        return without(state, client, "gradients", "versions", "coefficients")
