"""DP-FedAvg: updates clipped to S, averaged, with Gaussian noise in proportion to S.

Source: McMahan, Ramage, Talwar, Zhang 2018 (Learning Differentially Private Recurrent Language Models). With noise
multiplier z each client adds noise of standard deviation z S to its update, so a mean of n carries z S/sqrt(n); or the
server, which must then be trusted, adds z S/n to the mean. z is noise over what one client can change: where it is in a
version several times, or weighs more than 1/n, the server adds as many times more (`noise.client_weights`); clients
cannot, who do not know the others. Neighbours are named, since they decide what z is worth: one client with other
data changes the sum by 2 S (`replace`); one whose updates are zero by S (`zero_out`). The source adds or removes a
client;
with a fixed number of participants that changes the number that the sum is divided by as well, and `zero_out` is what
is left
of it (Kairouz et al. 2021). The number of updates in a version is taken to be public, and no credit is given for
clients being drawn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field, model_validator

from asyncfl.privacy.accounting.gaussian import analytic_multiplier, exact_epsilon, squared_mu_of
from asyncfl.privacy.context import Contribution, PrivacyContext
from asyncfl.privacy.noise.client_weights import (
    UNEVEN_WEIGHTS,
    client_sensitivities,
    max_client_weight,
    planned_contributions,
)
from asyncfl.privacy.ranges import LEAST, MOST, Delta, Factor, within
from asyncfl.privacy.release import Status
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
from asyncfl.quantities import MeasuredIn


class DpFedAvg(Scheme):
    """Clipped updates with Gaussian noise of z times the clip norm, from each client or from the server."""

    kind: Literal["dp_fedavg"] = "dp_fedavg"
    clip_norm: Annotated[Factor, MeasuredIn("L2 norm")] = 1.0
    """S: L2 norm that updates are clipped to; with `adaptive` only at first."""
    noise_multiplier: Annotated[
        float,
        Field(ge=0, allow_inf_nan=False, examples=[1.1]),
        within(LEAST, MOST, zero=True),
        MeasuredIn("clip norms"),
    ]
    """z: noise over S; 0: clipped, without noise."""
    noise_at: Literal["client", "server"] = "client"
    """Who adds it: each client to its update | a trusted server to the mean, sqrt(n) times less in all."""
    neighbours: Literal["replace", "zero_out"] = "replace"
    """What is to be hidden: what a client's data are (sensitivity 2 S) | whether its updates count, or zero in their
    place (S): what "a client more or less" comes to where the number of participants is fixed."""
    delta: Annotated[Delta, MeasuredIn("probability")] = 1e-5
    """Probability with which the stated epsilon may be broken, 0..1, exclusive."""
    adaptive: AdaptiveClip | None = None
    """S follows a quantile of the updates' norms; null: it stays."""

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
        """The update."""
        return ClipTarget("update")

    @property
    def bounds_uploads(self) -> bool:
        """With noise."""
        return self.noise_multiplier > 0

    @property
    def _by_server(self) -> bool:
        return self.noise_at == "server"

    @property
    def _reach(self) -> float:
        """Norms that one neighbour can change the sum by."""
        return 2.0 if self.neighbours == "replace" else 1.0

    def _sigma_b(self, context: PrivacyContext) -> float | None:
        if self.adaptive is None:
            return None
        return self.adaptive.sigma(self.noise_multiplier, context.participants, self._by_server)

    def updates_multiplier(self, context: PrivacyContext) -> float:
        """Noise over S on the updates: z, or more where part of the budget goes to the adaptive clip norm."""
        sigma_b = self._sigma_b(context)
        return self.noise_multiplier if sigma_b is None else split_multiplier(self.noise_multiplier, sigma_b)

    def start(self, context: PrivacyContext) -> State:
        """S, which stays or adapts."""
        sigma_b = self._sigma_b(context)
        if self.adaptive is None or sigma_b is None:
            return FixedNorm(self.clip_norm)
        return ClipState(self.clip_norm, self.adaptive, sigma_b, self._by_server)

    def _norm(self, clip_norm: float | None) -> float:
        return self.clip_norm if clip_norm is None else clip_norm

    def upload_noise(self, context: PrivacyContext, clip_norm: float | None, contribution: Contribution) -> Noise:
        """z S on S or 2 S; none where the server adds it.

        With an adaptive clip norm the bits are in the sensitivity: as much more as makes the multiplier that of both
        together.
        """
        if self._by_server or not self.noise_multiplier:
            return Noise(0.0)
        return Noise(self.updates_multiplier(context) * self._norm(clip_norm), self._sensitivity(context, clip_norm))

    def _sensitivity(self, context: PrivacyContext, clip_norm: float | None) -> float:
        bits = self.updates_multiplier(context) / self.noise_multiplier
        return self._reach * self._norm(clip_norm) * bits

    def model_noise(
        self, context: PrivacyContext, clip_norm: float | None, contributions: Sequence[Contribution] = ()
    ) -> ModelNoise:
        """z S rate/n, for a client that weighs more than that (`max_client_weight`) as much more, 0 where
        the clients add the noise; on S or 2 S times what a client's updates weigh, with the bits as on an upload."""
        if not self.noise_multiplier:
            return model_without_noise(context, contributions)
        sensitivity = self._sensitivity(context, clip_norm)
        sensitivities = client_sensitivities(
            context, contributions or planned_contributions(context), lambda one: sensitivity
        )
        if not self._by_server:
            return ModelNoise(0.0, sensitivities)
        n = len(contributions) or context.participants
        even = context.rate * self.updates_multiplier(context) * self._norm(clip_norm) / n
        return ModelNoise(even * max_client_weight(context, contributions), sensitivities)

    def model_multiplier(self, context: PrivacyContext) -> float | None:
        """z over the norms that one neighbour can change, where the server adds the noise: it grows with the client
        that weighs most."""
        return self.noise_multiplier / self._reach if self._by_server and self.noise_multiplier else None

    def _guarantee(self, context: PrivacyContext, multiplier: float, proven: bool) -> Guarantee | None:
        if not self.noise_multiplier:
            return None
        epsilon = float(exact_epsilon(squared_mu_of(multiplier / self._reach, context.rounds), self.delta))
        status: Status = "proven" if proven else "heuristic"
        return Guarantee("client", self.neighbours, status, epsilon, self.delta, context.rounds)

    def upload_guarantee(self, context: PrivacyContext, client: int | None = None) -> Guarantee | None:
        """(epsilon, delta) for an upload in each version; None where the server adds the noise."""
        return None if self._by_server else self._guarantee(context, self.noise_multiplier, proven=True)

    def model_guarantee(self, context: PrivacyContext) -> Guarantee | None:
        """(epsilon, delta) for all published models, each an even mean of K updates of K clients where the noise is the
        clients'."""
        n = 1 if self._by_server else context.participants
        proven = context.equal_weights and (context.once_each or self._follows_weights)
        return self._guarantee(context, self.noise_multiplier * math.sqrt(n), proven)

    @property
    def _follows_weights(self) -> bool:
        """Whether all noise is made when it is known what each client weighs; that on the bits is not."""
        return self._by_server and self.adaptive is None

    def with_epsilon(self, epsilon: float, epochs: int, length: float) -> tuple[Scheme, dict[str, float]]:
        """z that is exact for one upload, which the client noises; the clip norm stays."""
        z = self._reach * analytic_multiplier(epsilon, self.delta)
        return self.model_copy(update={"noise_multiplier": z, "noise_at": "client", "adaptive": None}), {}

    def notes(self, context: PrivacyContext) -> list[str]:
        """What is assumed."""
        if not self.noise_multiplier:
            return ["noise_multiplier: 0 clips updates and hides nothing"]
        notes = [f"neighbours: {self.neighbours}; the number of updates in a version is taken to be public"]
        if self._by_server:
            notes.append(
                "noise_at: server trusts the server: uploads carry no noise, and no ledger row speaks for them"
            )
        if not context.equal_weights:
            notes.append(f"{UNEVEN_WEIGHTS}; the sensitivity of published models is heuristic")
        elif not context.once_each and not self._follows_weights:
            notes.append(
                "what is claimed of published models is for even means of updates of different clients, and heuristic: "
                "here a client may be in a version several times, or weigh more than others, which the ledger counts"
            )
        if self.adaptive is not None:
            notes.append(
                f"adaptive: the bits have noise {self._sigma_b(context):.4g}, the updates multiplier "
                f"{self.updates_multiplier(context):.6g}, together {self.noise_multiplier:g}"
            )
        return notes
