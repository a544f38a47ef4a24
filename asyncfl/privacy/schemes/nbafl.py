"""NbAFL: clients clip and noise their models before the server averages them, and the server adds the missing noise.

Source: Wei et al., Federated Learning With Differential Privacy: Algorithms and Performance Analysis, algorithm 1.

An eavesdropper holds L uploads of a client and all T published models. With z(n) the noise multiplier that keeps n
releases within the budget (theorem 1: z(n) = c n/epsilon):

    sigma_u = z(L) Delta_u                    on each upload
    sigma_a = z(T) Delta_d / b                needed on each published model
    sigma_d = sqrt(sigma_a^2 - sigma_u^2/K)   added by the server, or 0

b >= 1 is the discount for secretly drawing K of N clients (1 if all take part). With Delta_u = 2C/m, Delta_d =
Delta_u/K and c n/epsilon this is equation 7, and with K = N equation 5. Readings of b (`b_rule`):

- `paper`, the default: b = -(T/epsilon) ln(1 - N/K + (N/K) e^(-epsilon/T)), as printed. If T <= epsilon/gamma the
  server adds no noise; only beyond that is b guaranteed to exist. An exponent has the wrong sign, so b overstates the
  discount. It is the default because the paper's figures follow from it, and the notes of a run say so.
- `amplification`: b = (T/epsilon) ln(1 + (N/K) (e^(epsilon/T) - 1)), the correct inversion of amplification by
  subsampling (Balle, Barthe, Gaboardi 2018), which always exists. Not the default: the paper did not compute it.
- `none`: b = 1, no discount, for a draw that is not secret. Not the default: it omits the paper's point.

Readings of the sensitivity for m samples in the smallest data set (equations 3 and 4 with p_i = 1/K; `sensitivity`):

- `2C/m`, the default: Delta_u = 2C/m, Delta_d = Delta_u/K. It is derived for an average of per-sample minimisers and
  does not hold for a model trained by SGD: heuristic.
- `2C`: Delta_u = 2C, Delta_d = Delta_u/K, proven by clipping. Not the default, because the noise grows m times.
- `2C/N`: Delta_u = 2C/m, but Delta_d = 2C/K protects a whole client in the published model, as the paper's introduction
  promises; proven for equal weights. Not the default, because the paper's equation 4 protects one sample.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Discriminator, Field, Tag

from asyncfl.base.quantities import MeasuredIn
from asyncfl.privacy.accounting.calibrate import (
    WITH_C1,
    ClassicalRelease,
    Composition,
    classical_share,
    noise_multiplier,
)
from asyncfl.privacy.client_weights import UNEVEN_WEIGHTS, client_sensitivities, max_client_weight, noise_scale
from asyncfl.privacy.exposures import AnyExposures, MeasuredExposures
from asyncfl.privacy.flags import AMPLIFICATION, CLIP_NORM
from asyncfl.privacy.ranges import Budget, Delta, Factor
from asyncfl.privacy.release import Contribution, PrivacyContext, Status
from asyncfl.privacy.scheme import FixedNorm, Guarantee, ModelNoise, Noise, Scheme, State, model_without_noise

NORM_GROWTH_WORTH_A_NOTE = 2.0

BRule = Literal["paper", "amplification", "none"]
Sensitivity = Literal["2C/m", "2C", "2C/N"]

ClipNorm = Annotated[
    Annotated[Literal["median"], Tag("word")] | Annotated[Factor, Tag("number")],
    Discriminator(lambda value: "word" if isinstance(value, str) else "number"),
]


@dataclass(frozen=True, slots=True)
class NbaflNoise:
    """NbAFL's standard deviations per parameter, and how the server's noise was derived."""

    sigma_u: float  # of one client on its upload
    sigma_a: float | None  # total that a published model needs; None if b does not exist
    sigma_d: float  # added by the server
    gamma: float | None  # of equation 7: no server noise up to epsilon/gamma rounds; None for other readings of b
    b: float | None  # discount for drawing K of N clients; None if it does not exist
    server_rule: str  # reason for the server's noise


class MedianNorm(State):
    """Clipping to the median of the norms of each collection."""

    def clip_norm(self, norms: NDArray[np.floating]) -> float | None:
        return float(np.median(norms))


class Nbafl(Scheme):
    """Noising before aggregation: Gaussian noise on clipped models, on uploads and on published models."""

    kind: Literal["nbafl"] = "nbafl"
    epsilon: Annotated[Budget, MeasuredIn("epsilon"), Field(examples=[60.0])]
    """Privacy budget of the whole run, separately for uploads and for published models; .inf: no clipping and no
    noise."""
    delta: Annotated[Delta, MeasuredIn("probability")] = 0.01
    """Probability with which the budget may be broken, 0..1, exclusive."""
    exposures: AnyExposures = 1
    """L: number of uploads of one client that an eavesdropper is assumed to hold; a number, a share or `measured`."""
    clip_norm: Annotated[ClipNorm, MeasuredIn("L2 norm")] = "median"
    """C: L2 norm that models are clipped to: a number, or the median of the unclipped norms of each aggregation.
    Source: NbAFL, algorithm 1, line 6."""
    constant: Annotated[Factor, MeasuredIn("factor")] = 1.25
    """Factor on c1 = sqrt(2 ln(1.25/delta)); unused by the compositions `analytic` and `rdp`, which have no c1. Source:
    NbAFL, definition 2."""
    sensitivity: Sensitivity = "2C/m"
    """Influence of one sample, or one client; readings in `asyncfl.privacy.schemes.nbafl`. Source: NbAFL, equations 3
    and 4."""
    composition: Composition = "naive"
    """Growth of the noise with the number of releases; readings in `asyncfl.privacy.accounting.calibrate`."""
    b_rule: BRule = "paper"
    """Discount for drawing K of N clients; readings in `asyncfl.privacy.schemes.nbafl`. Source: NbAFL, equation 7."""

    @property
    def off(self) -> bool:
        return math.isinf(self.epsilon)

    @property
    def bounds_uploads(self) -> bool:
        return not self.off and self.sensitivity != "2C/m" and self.clip_norm != "median"

    def noise(
        self, context: PrivacyContext, clip_norm: float, contributions: Sequence[Contribution] = ()
    ) -> NbaflNoise:
        """Compute the noise of clients and server at one clip norm, before the server learning rate.

        Of the `contributions` (`Scheme.model_noise`) only the weights relative to a uniform mean count, not their
        number: the paper's noise is for K updates. Source: equations 5 and 7, which assume p_i = 1/K.
        """
        if self.off:
            return NbaflNoise(0.0, 0.0, 0.0, None, None, "no noise: epsilon is infinite")
        epsilon, rounds, K = self.epsilon, context.rounds, context.participants
        share = K / context.clients
        delta_d = max_client_weight(context, contributions) * (self._model_sensitivity(clip_norm, context) / K)
        sigma_u = self._multiplier(context.exposures) * self._upload_sensitivity(clip_norm, context)
        carried = sigma_u * noise_scale(context, contributions)
        undiscounted = self._multiplier(rounds) * delta_d
        b: float | None
        sigma_a: float | None
        if self.b_rule != "paper":
            b = amplification_discount(epsilon, rounds, share) if self.b_rule == "amplification" else 1.0
            sigma_a = undiscounted / b
            sigma_d = server_std(sigma_a, carried, K)
            verdict = "added" if sigma_d > 0 else "the clients' noise is enough"
            return NbaflNoise(sigma_u, sigma_a, sigma_d, None, b, f"{self.b_rule}: {verdict}")
        # Equation 7 adds noise if b < undiscounted sqrt(K)/sigma_u, in its own reading T/(L sqrt K); solved
        # for T that is T > epsilon/gamma. This is tested first, because otherwise b need not exist.
        largest_b = undiscounted * math.sqrt(K) / carried if carried > 0 else math.inf
        gamma = paper_gamma(epsilon / rounds * largest_b, share)
        b = paper_discount(epsilon, rounds, share)
        sigma_a = None if b is None else undiscounted / b
        if rounds * gamma <= epsilon or sigma_a is None:
            rule = f"paper: none, T <= epsilon/gamma ({rounds} <= {epsilon / gamma:.6g})"
            return NbaflNoise(sigma_u, sigma_a, 0.0, gamma, b, rule)
        rule = f"paper: added, T > epsilon/gamma ({rounds} > {epsilon / gamma:.6g})"
        return NbaflNoise(sigma_u, sigma_a, server_std(sigma_a, carried, K), gamma, b, rule)

    def _upload_sensitivity(self, clip_norm: float, context: PrivacyContext) -> float:
        return 2 * clip_norm if self.sensitivity == "2C" else 2 * clip_norm / context.smallest_samples

    def _model_sensitivity(self, clip_norm: float, context: PrivacyContext) -> float:
        """Return K Delta_d."""
        return 2 * clip_norm if self.sensitivity == "2C/N" else self._upload_sensitivity(clip_norm, context)

    def _multiplier(self, releases: int) -> float:
        return noise_multiplier(releases, self.epsilon, self.delta, self.constant, self.composition)

    def assumed_exposures(self, rounds: int, participants: int, clients: int) -> int | MeasuredExposures:
        rule = 0 if self.off else self.exposures
        number: int | None = rule if isinstance(rule, int) else rule.number(rounds, participants, clients)
        if number is not None:
            return number
        return rule if isinstance(rule, MeasuredExposures) else MeasuredExposures()

    def start(self, context: PrivacyContext) -> State:
        if self.clip_norm == "median" and not self.off:
            return MedianNorm()
        return FixedNorm(None if self.off else float(self.clip_norm))

    def upload_noise(self, context: PrivacyContext, clip_norm: float | None, contribution: Contribution) -> Noise:
        """Return sigma_u for the sensitivity Delta_u, the same for all clients."""
        if self.off or clip_norm is None:
            return Noise(0.0)
        return Noise(self.noise(context, clip_norm).sigma_u, self._upload_sensitivity(clip_norm, context))

    def proven_sensitivity(self, context: PrivacyContext, clip_norm: float | None, contribution: Contribution) -> float:
        """Return 2C, which holds for any training; infinite if C is the median of the clients' norms."""
        return math.inf if self.off or isinstance(self.clip_norm, str) else 2 * self.clip_norm

    def model_noise(
        self, context: PrivacyContext, clip_norm: float | None, contributions: Sequence[Contribution] = ()
    ) -> ModelNoise:
        """Return sigma_d times the server learning rate, for Delta_d with the client's actual weight instead of 1/K;
        none without clipping."""
        if self.off or clip_norm is None:
            return model_without_noise(context, contributions)
        whole = self._model_sensitivity(clip_norm, context)
        sensitivities = client_sensitivities(context, contributions, lambda one: whole)
        return ModelNoise(context.rate * self.noise(context, clip_norm, contributions).sigma_d, sensitivities)

    def _status(self, proven: bool) -> Status:
        # A median of the clients' norms depends on the data that it should protect.
        return "proven" if proven and self.clip_norm != "median" else "heuristic"

    def upload_guarantee(self, context: PrivacyContext, client: int | None = None) -> Guarantee | None:
        """Return (epsilon, delta) for L uploads of a client and one replaced sample (`2C`: all its data replaced)."""
        if self.off:
            return None
        whole = self.sensitivity == "2C"
        unit: Literal["client", "sample"] = "client" if whole else "sample"
        return Guarantee(unit, "replace", self._status(whole), self.epsilon, self.delta, context.exposures)

    def model_guarantee(self, context: PrivacyContext) -> Guarantee | None:
        """Return (epsilon, delta) for all T published models."""
        if self.off:
            return None
        whole = self.sensitivity != "2C/m"
        status = self._status(whole and context.equal_weights)
        return Guarantee("client" if whole else "sample", "replace", status, self.epsilon, self.delta, context.rounds)

    def norm_growth(self, context: PrivacyContext) -> float:
        """Return the factor by which noise alone makes the model's norm grow over the run if C is the median: each
        round by sqrt(1 + k^2 d), where k is the noise of a published model at C = 1 and d its parameters; otherwise
        1."""
        if self.off or self.clip_norm != "median":
            return 1.0
        k = model_std(self.noise(context, 1.0), context.participants)
        log_growth = context.rounds / 2 * math.log1p(k**2 * context.n_parameters)
        return math.exp(min(log_growth, 700.0))

    def flags(self, context: PrivacyContext, epsilon: float, of_models: bool = False) -> list[str]:
        drawn = of_models and context.participants < context.clients and self.b_rule != "none"
        return [AMPLIFICATION] * drawn + [CLIP_NORM] * (self.clip_norm == "median")

    def classical(self, context: PrivacyContext, epsilon: float, of_models: bool = False) -> ClassicalRelease | None:
        if self.composition not in WITH_C1:
            return None
        n = max(context.rounds if of_models else context.exposures, 1)
        return classical_share(n, self.epsilon, self.delta, self.composition, self.constant)

    def notes(self, context: PrivacyContext) -> list[str]:
        if self.off:
            return []
        notes = [
            f"exposures: {context.exposures} overheard uploads per client are an assumption about the "
            "eavesdropper, not a guarantee"
        ]
        if not context.equal_weights:
            notes.append(UNEVEN_WEIGHTS)
        if (growth := self.norm_growth(context)) > NORM_GROWTH_WORTH_A_NOTE:
            notes.append(
                f"clip_norm: median feeds noise back into the norm, which grows about {growth:.3g}-fold over "
                f"{context.rounds} rounds from noise alone"
            )
        return notes


def paper_discount(epsilon: float, rounds: int, share: float) -> float | None:
    """Return b of equation 7 as printed; None if its logarithm does not exist. `share`: K/N."""
    if share == 1:
        return 1.0
    # log1p, because at a small epsilon the argument of the logarithm is nearly 1.
    excess = math.expm1(-epsilon / rounds) / share
    return -rounds / epsilon * math.log1p(excess) if excess > -1 else None


def amplification_discount(epsilon: float, rounds: int, share: float) -> float:
    """Return b of amplification by subsampling: a round's budget epsilon/T allows b epsilon/T for a sampled client."""
    if share == 1:
        return 1.0
    per_round = epsilon / rounds
    # ln(1 + (e^x - 1)/share) without e^x, which overflows.
    return 1 + math.log1p(-(1 / share - 1) * math.expm1(-per_round)) / per_round


def paper_gamma(exponent: float, share: float) -> float:
    """Return gamma of equation 7. `exponent`: epsilon/(L sqrt K), infinite at L = 0; `share`: K/N."""
    return exponent if share == 1 else -math.log1p(share * math.expm1(-exponent))


def server_std(sigma_a: float, sigma_u: float, participants: int) -> float:
    """Return sigma_d, the noise missing to `sigma_a` in the mean of `participants` uploads with noise `sigma_u`."""
    largest = max(sigma_a, sigma_u)
    unit = largest if largest > 1e100 else 1.0  # the square of a much larger number overflows
    missing = (sigma_a / unit) ** 2 - (sigma_u / unit) ** 2 / participants
    # Equal amounts may differ by rounding.
    return math.sqrt(missing) * unit if missing > 1e-12 * (sigma_a / unit) ** 2 else 0.0


def model_std(noise: NbaflNoise, participants: int) -> float:
    """Return the standard deviation of the clients' and the server's noise in a published model."""
    return math.hypot(noise.sigma_u / math.sqrt(participants), noise.sigma_d)
