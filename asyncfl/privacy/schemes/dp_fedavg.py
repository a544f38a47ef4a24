"""DP-FedAvg: updates clipped to S, averaged, with Gaussian noise in proportion to S.

Source: McMahan, Ramage, Talwar, Zhang 2018 (Learning Differentially Private Recurrent Language Models). With noise
multiplier z each client adds noise of standard deviation z S to its update, so a mean of n updates carries z S/sqrt(n).
Alternatively the server, which must then be trusted, adds z S/n to the mean.

z relates the noise to the influence of one client. If a client has several updates in a version, or weighs more than
1/n, the server adds proportionally more noise (`noise.client_weights`). Clients cannot do so, because they do not know
each other.

The neighbouring relation decides what z is worth. Replacing one client's data changes the sum by 2 S (`replace`);
setting its updates to zero changes it by S (`zero_out`). An adaptive clip norm also counts a bit of each update, which
changes half as much (`schemes.adaptive_clipping`). The source adds or removes a client. With a fixed number of
participants this also changes the divisor of the mean, so `zero_out` is used instead (Kairouz et al. 2021). The number
of updates in a version is assumed to be public. Client sampling gets no amplification credit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field, model_validator

from asyncfl.base.quantities import MeasuredIn
from asyncfl.privacy.accounting.gaussian import analytic_multiplier, exact_epsilon, squared_mu_of
from asyncfl.privacy.context import Contribution, PrivacyContext
from asyncfl.privacy.noise.client_weights import (
    UNEVEN_WEIGHTS,
    client_sensitivities,
    max_client_weight,
    planned_contributions,
)
from asyncfl.privacy.ranges import LEAST, MOST, Delta, Factor, within
from asyncfl.privacy.release import BitNoise, Status
from asyncfl.privacy.scheme import (
    ClipTarget,
    FixedNorm,
    Guarantee,
    ModelNoise,
    Noise,
    Scheme,
    State,
    model_without_noise,
)
from asyncfl.privacy.schemes.adaptive_clipping import AdaptiveClip, ClipState, split_multiplier


class DpFedAvg(Scheme):
    """Clipped updates with Gaussian noise of z times the clip norm, added by each client or by the server."""

    kind: Literal["dp_fedavg"] = "dp_fedavg"
    clip_norm: Annotated[Factor, MeasuredIn("L2 norm")] = 1.0
    """S: L2 norm that updates are clipped to; with `adaptive`, only the initial value."""
    noise_multiplier: Annotated[
        float,
        Field(ge=0, allow_inf_nan=False, examples=[1.1]),
        within(LEAST, MOST, zero=True),
        MeasuredIn("clip norms"),
    ]
    """z: standard deviation of the noise divided by S; 0: clipping without noise."""
    noise_at: Literal["client", "server"] = "client"
    """Adder of the noise: each client to its update | a trusted server to the mean, with sqrt(n) times less noise in
    total."""
    neighbours: Literal["replace", "zero_out"] = "replace"
    """Neighbouring relation: a client's data are replaced (sensitivity 2 S) | its updates count as zero (S), which
    stands for adding or removing a client where the number of participants is fixed."""
    delta: Annotated[Delta, MeasuredIn("probability")] = 1e-5
    """Probability with which the stated epsilon may be broken, 0..1, exclusive."""
    adaptive: AdaptiveClip | None = None
    """Adaptation of S to a quantile of the updates' norms; null: S is fixed."""

    @model_validator(mode="after")
    def _check_split(self) -> DpFedAvg:
        noise = None if self.adaptive is None else self.adaptive.fraction_noise
        if noise is not None and self.noise_multiplier:
            try:
                split_multiplier(self.noise_multiplier, noise)
            except ValueError as error:
                raise ValueError(f"adaptive.fraction_noise {error}") from None
        return self

    @property
    def clip_target(self) -> ClipTarget:
        """The update, in L2."""
        return ClipTarget("update")

    @property
    def bounds_uploads(self) -> bool:
        """Whether noise is added. Updates are clipped in any case."""
        return self.noise_multiplier > 0

    @property
    def _by_server(self) -> bool:
        return self.noise_at == "server"

    @property
    def _reach(self) -> float:
        """Sensitivity of the sum in units of S."""
        return 2.0 if self.neighbours == "replace" else 1.0

    def _sigma_b(self, context: PrivacyContext) -> float | None:
        if self.adaptive is None:
            return None
        return self.adaptive.sigma(self.noise_multiplier, context.participants, self._by_server)

    def updates_multiplier(self, context: PrivacyContext) -> float:
        """Return the noise multiplier of the updates: z, or more if the adaptive clip norm spends part of the
        budget."""
        sigma_b = self._sigma_b(context)
        return self.noise_multiplier if sigma_b is None else split_multiplier(self.noise_multiplier, sigma_b)

    def start(self, context: PrivacyContext) -> State:
        """Create the state with a fixed or an adaptive clip norm."""
        sigma_b = self._sigma_b(context)
        if self.adaptive is None or sigma_b is None:
            return FixedNorm(self.clip_norm)
        return ClipState(self.clip_norm, self.adaptive, sigma_b, self._by_server)

    def _norm(self, clip_norm: float | None) -> float:
        return self.clip_norm if clip_norm is None else clip_norm

    def upload_noise(self, context: PrivacyContext, clip_norm: float | None, contribution: Contribution) -> Noise:
        """Return noise of standard deviation z S, or z_delta S with an adaptive clip norm; none if the server adds it.

        Its sensitivity is 2 S if data are replaced, S if an update is zeroed.
        """
        if self._by_server or not self.noise_multiplier:
            return Noise(0.0)
        norm = self._norm(clip_norm)
        return Noise(self.updates_multiplier(context) * norm, self._reach * norm)

    def proven_sensitivity(self, context: PrivacyContext, clip_norm: float | None, contribution: Contribution) -> float:
        """Return 2 S or S, which clipping proves. Only the weights that the claim for models assumes are heuristic."""
        return self._reach * self._norm(clip_norm) if self.noise_multiplier else math.inf

    def bit_noise(self, context: PrivacyContext) -> BitNoise | None:
        """Return the noise on the bits behind an adaptive clip norm, for a sensitivity of 1 if data are replaced, 1/2
        if an update is zeroed; None without adaptive clip norm or noise."""
        sigma_b = self._sigma_b(context)
        return BitNoise(sigma_b, self._reach / 2, self._by_server) if sigma_b else None

    def model_noise(
        self, context: PrivacyContext, clip_norm: float | None, contributions: Sequence[Contribution] = ()
    ) -> ModelNoise:
        """Return server noise of z S rate/n, scaled up for a client that weighs more than 1/n (`max_client_weight`), or
        0 if clients add the noise. With an adaptive clip norm z is z_delta.

        The sensitivity is S or 2 S times the client's total weight.
        """
        if not self.noise_multiplier:
            return model_without_noise(context, contributions)
        sensitivity = self._reach * self._norm(clip_norm)
        sensitivities = client_sensitivities(
            context, contributions or planned_contributions(context), lambda one: sensitivity
        )
        if not self._by_server:
            return ModelNoise(0.0, sensitivities)
        n = len(contributions) or context.participants
        even = context.rate * self.updates_multiplier(context) * self._norm(clip_norm) / n
        return ModelNoise(even * max_client_weight(context, contributions), sensitivities)

    def model_multiplier(self, context: PrivacyContext) -> float | None:
        """Return z divided by the sensitivity in units of S if the server adds the noise, since the noise of updates
        and bits is scaled to the client that weighs most; otherwise None."""
        return self.noise_multiplier / self._reach if self._by_server and self.noise_multiplier else None

    def _guarantee(self, context: PrivacyContext, multiplier: float, proven: bool) -> Guarantee | None:
        if not self.noise_multiplier:
            return None
        epsilon = float(exact_epsilon(squared_mu_of(multiplier / self._reach, context.rounds), self.delta))
        status: Status = "proven" if proven else "heuristic"
        return Guarantee("client", self.neighbours, status, epsilon, self.delta, context.rounds)

    def upload_guarantee(self, context: PrivacyContext, client: int | None = None) -> Guarantee | None:
        """Return (epsilon, delta) for one upload in each version; None if the server adds the noise."""
        return None if self._by_server else self._guarantee(context, self.noise_multiplier, proven=True)

    def model_guarantee(self, context: PrivacyContext) -> Guarantee | None:
        """Return (epsilon, delta) for all published models. If clients add the noise, each model is assumed to be a
        uniform mean of K updates of K clients."""
        n = 1 if self._by_server else context.participants
        proven = context.equal_weights and (context.once_each or self._by_server)
        return self._guarantee(context, self.noise_multiplier * math.sqrt(n), proven)

    def with_epsilon(self, epsilon: float, epochs: int, length: float) -> tuple[Scheme, dict[str, float]]:
        """Return the scheme with the z that is exact for one upload noised by the client, and the same clip norm."""
        z = self._reach * analytic_multiplier(epsilon, self.delta)
        return self.model_copy(update={"noise_multiplier": z, "noise_at": "client", "adaptive": None}), {}

    def notes(self, context: PrivacyContext) -> list[str]:
        """Return sentences on the assumptions."""
        if not self.noise_multiplier:
            return ["noise_multiplier: 0 clips updates but hides nothing"]
        notes = [f"neighbours: {self.neighbours}; the number of updates in a version is assumed to be public"]
        if self._by_server:
            notes.append("noise_at: server trusts the server: uploads carry no noise, and no ledger row covers them")
        if not context.equal_weights:
            notes.append(f"{UNEVEN_WEIGHTS}; the sensitivity of published models is heuristic")
        elif not context.once_each and not self._by_server:
            notes.append(
                "the claim for published models assumes uniform means of updates of different clients and is "
                "heuristic: here a client may be in a version several times or weigh more than others, see the ledger"
            )
        if self.adaptive is not None:
            notes.append(
                f"adaptive: the bits have noise {self._sigma_b(context):.4g}, the updates multiplier "
                f"{self.updates_multiplier(context):.6g}, together {self.noise_multiplier:g}"
            )
        return notes
