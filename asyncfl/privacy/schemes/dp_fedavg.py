"""DP-FedAvg: updates clipped to S, averaged, with Gaussian noise in proportion to S, and optionally an adaptive S.

With noise multiplier z each client adds noise of standard deviation z S to its update, so a mean of n updates carries
z S/sqrt(n); or the server, which must then be trusted, adds z S/n to the mean, and proportionally more for a client
with several updates in a version (`client_weights`). Replacing one client's data changes the sum by 2 S (`replace`);
setting its updates to zero changes it by S (`zero_out`). Client sampling gets no amplification credit.

Adaptive clipping (Andrew, Thakkar, McMahan, Ramaswamy 2021): each client reports one bit, whether its update is within
the clip norm C. With b the noisy mean of the bits, C <- C exp(-learning_rate (b - quantile)). Centred at 1/2, the bit
of an update u is

    -1/2 if |u| > C or u is not finite,   1/2 if 0 < |u| <= C,   0 if u = 0

The third case is ours: a removed client (`zero_out`) stands for an update of zero. So the sensitivity of one bit is 1/2
for `zero_out`, 1 for `replace`. With noise sigma_b on a bit and z_delta C on an update, both together are one Gaussian
release with multiplier z (z/2 for `replace`) if

    z_delta = (z^-2 - (2 sigma_b)^-2)^(-1/2)

The server multiplies sigma_b by the most updates of one client; if clients add it, n bits have sqrt(n) sigma_b.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from asyncfl.base.component import Described
from asyncfl.base.quantities import MeasuredIn
from asyncfl.privacy.accounting.gaussian import analytic_multiplier, exact_epsilon, squared_mu_of
from asyncfl.privacy.client_weights import UNEVEN_WEIGHTS, client_sensitivities, max_client_weight
from asyncfl.privacy.ranges import LEAST, MOST, Delta, Factor, within
from asyncfl.privacy.release import BitNoise, Contribution, PrivacyContext, Status
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

_LARGEST_STEP = 600.0  # logarithm of a factor that moves any clip norm out of its range

PAPERS_SHARE = 1 / 20  # sigma_b divided by the number of clients in a version, as set in the paper


def split_multiplier(multiplier: float, fraction_noise: float) -> float:
    """Return z_delta for z `multiplier` and sigma_b `fraction_noise` (theorem 1). Raises ValueError unless sigma_b >
    z/2 >= 0."""
    if multiplier == 0:
        return 0.0
    if not fraction_noise > multiplier / 2:
        raise ValueError(f"must be greater than half the noise multiplier ({multiplier / 2:g}), got {fraction_noise:g}")
    return 1 / math.sqrt(multiplier**-2 - (2 * fraction_noise) ** -2)


class AdaptiveClip(Described):
    """A clip norm that moves towards a quantile of the updates' norms after each collection."""

    quantile: Annotated[float, Field(gt=0, lt=1), MeasuredIn("share")] = 0.5
    """Target share of the updates within the clip norm, 0..1, exclusive."""
    learning_rate: Annotated[Factor, MeasuredIn("1")] = 0.2
    """Step size: without noise, the clip norm changes by at most a factor e^learning_rate per collection."""
    fraction_noise: Annotated[Factor, MeasuredIn("updates")] | None = None
    """sigma_b: standard deviation of the noise on the sum of the bits (on each bit if clients add the noise). null: the
    noise multiplier, or a twentieth of the updates in a version if that is larger and the server adds the noise. The
    server multiplies it by the most updates of one client in a version."""

    def sigma(self, multiplier: float, participants: int, by_server: bool) -> float:
        """Return sigma_b for a noise `multiplier` of the updates and K `participants`. `by_server`: added by the server
        to the sum of the bits; otherwise by clients to each bit."""
        if multiplier == 0:
            return 0.0
        if self.fraction_noise is not None:
            return self.fraction_noise
        return max(multiplier, PAPERS_SHARE * participants) if by_server else multiplier

    def next_norm(self, clip_norm: float, fraction: float) -> float:
        """Return the next clip norm, given the noisy `fraction` of the updates within the current one."""
        exponent = min(max(-self.learning_rate * (fraction - self.quantile), -_LARGEST_STEP), _LARGEST_STEP)
        return min(max(clip_norm * math.exp(exponent), LEAST), MOST)


@dataclass
class ClipState(State):
    """The current clip norm."""

    norm: float
    rule: AdaptiveClip
    sigma: float  # sigma_b
    by_server: bool  # whether the noise is added to the sum of the bits; otherwise to each bit

    def clip_norm(self, norms: NDArray[np.floating]) -> float | None:
        return self.norm

    def record_collection(
        self, contributions: Sequence[Contribution], norms: NDArray[np.float64], random: np.random.Generator
    ) -> None:
        n = len(norms)
        if not n:
            return
        most = max(Counter(one.client for one in contributions).values(), default=1)
        noise = self.sigma * random.standard_normal() * (most if self.by_server else math.sqrt(n))
        within = np.count_nonzero(norms <= self.norm) - np.count_nonzero(norms == 0) / 2
        fraction = (within + noise) / n
        self.norm = self.rule.next_norm(self.norm, float(fraction))


class DpFedAvg(Scheme):
    """Clipped updates with Gaussian noise of z times the clip norm, added by each client or by the server.

    Source: McMahan, Ramage, Talwar, Zhang 2018 (Learning Differentially Private Recurrent Language Models).
    """

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
        return ClipTarget("update")

    @property
    def bounds_uploads(self) -> bool:
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
        """Return z, or z_delta if the adaptive clip norm spends part of the budget."""
        sigma_b = self._sigma_b(context)
        return self.noise_multiplier if sigma_b is None else split_multiplier(self.noise_multiplier, sigma_b)

    def start(self, context: PrivacyContext) -> State:
        sigma_b = self._sigma_b(context)
        if self.adaptive is None or sigma_b is None:
            return FixedNorm(self.clip_norm)
        return ClipState(self.clip_norm, self.adaptive, sigma_b, self._by_server)

    def _norm(self, clip_norm: float | None) -> float:
        return self.clip_norm if clip_norm is None else clip_norm

    def upload_noise(self, context: PrivacyContext, clip_norm: float | None, contribution: Contribution) -> Noise:
        """Return noise of standard deviation z S (adaptive: z_delta S) for 2 S or S; none if the server adds it."""
        if self._by_server or not self.noise_multiplier:
            return Noise(0.0)
        norm = self._norm(clip_norm)
        return Noise(self.updates_multiplier(context) * norm, self._reach * norm)

    def proven_sensitivity(self, context: PrivacyContext, clip_norm: float | None, contribution: Contribution) -> float:
        """Return 2 S or S, which clipping proves."""
        return self._reach * self._norm(clip_norm) if self.noise_multiplier else math.inf

    def bit_noise(self, context: PrivacyContext) -> BitNoise | None:
        """Return the noise on the bits, for a sensitivity of 1 if data are replaced, 1/2 if an update is zeroed."""
        sigma_b = self._sigma_b(context)
        return BitNoise(sigma_b, self._reach / 2, self._by_server) if sigma_b else None

    def model_noise(
        self, context: PrivacyContext, clip_norm: float | None, contributions: Sequence[Contribution] = ()
    ) -> ModelNoise:
        """Return server noise of z S rate/n, scaled to the client that weighs most; 0 if clients add the noise."""
        if not self.noise_multiplier:
            return model_without_noise(context, contributions)
        whole = self._reach * self._norm(clip_norm)
        sensitivities = client_sensitivities(context, contributions, lambda one: whole)
        if not self._by_server:
            return ModelNoise(0.0, sensitivities)
        n = len(contributions) or context.participants
        even = context.rate * self.updates_multiplier(context) * self._norm(clip_norm) / n
        return ModelNoise(even * max_client_weight(context, contributions), sensitivities)

    def model_multiplier(self, context: PrivacyContext) -> float | None:
        """Return z over the sensitivity in units of S if the server adds the noise; otherwise None."""
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
        n = 1 if self._by_server else context.participants
        proven = context.equal_weights and (context.once_each or self._by_server)
        return self._guarantee(context, self.noise_multiplier * math.sqrt(n), proven)

    def with_epsilon(self, epsilon: float, epochs: int, length: float) -> tuple[Scheme, dict[str, float]]:
        """Return the scheme with the z that is exact for one upload noised by the client, and the same clip norm."""
        z = self._reach * analytic_multiplier(epsilon, self.delta)
        return self.model_copy(update={"noise_multiplier": z, "noise_at": "client", "adaptive": None}), {}

    def notes(self, context: PrivacyContext) -> list[str]:
        if not self.noise_multiplier:
            return ["noise_multiplier: 0 clips updates but hides nothing"]
        notes = [f"neighbours: {self.neighbours}; the number of updates in a version is assumed to be public"]
        if self._by_server:
            notes.append("noise_at: server trusts the server: uploads carry no noise, and no ledger row covers them")
        if not context.equal_weights:
            notes.append(UNEVEN_WEIGHTS)
        if self.adaptive is not None:
            notes.append(
                f"adaptive: the bits have noise {self._sigma_b(context):.4g}, the updates multiplier "
                f"{self.updates_multiplier(context):.6g}, together {self.noise_multiplier:g}"
            )
        return notes
