"""Convergence bounds of NbAFL, and the rounds or participants at which they are smallest.

Theorem 2, all clients take part, and theorem 3, K of N clients are drawn in each round:

    bound(T) = P^T Theta + (kappa_1 T/epsilon + kappa_0 T^2/epsilon^2) (1 - P^T)
    bound(T, K) = Q^T Theta + (1 - Q^T)/(1 - Q) (beta alpha_1 s sqrt(2/pi) + alpha_0 s^2)
    s = c C/(m K g),  g = -ln(1 - N/K + (N/K) e^(-epsilon/T))

g = b epsilon/T, with b as printed in equation 7. Its logarithm exists only if epsilon/T < -ln(1 - K/N). Towards that
edge the noise terms vanish, so the best K and T by theorem 3 tend to lie there, which is an artefact of b. A bound is
NaN where it is undefined; `why_undefined` gives the reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from asyncfl.base.component import Described
from asyncfl.privacy.accounting.gaussian import Floats, classical_constant
from asyncfl.privacy.queries import Count, Question
from asyncfl.privacy.ranges import within

_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False), within(1e-50, 1e50)]
"""A positive number. The bounds multiply up to six of them without overflow."""


class LossConstants(Described):
    """Constants of assumption 1 and of the local training. The paper gives no values."""

    initial_gap: _Positive = math.log(10)
    """Theta: F(w_0) - F(w*); ln 10 is the loss of guessing one of ten classes."""
    polyak_lojasiewicz: _Positive = 0.5
    """l: F(w) - F(w*) <= |grad F(w)|^2/(2 l) in the paper's notation."""
    lipschitz: _Positive = 1.0
    """beta: |F_i(w) - F_i(w')| <= beta |w - w'|."""
    smoothness: _Positive = 0.5
    """rho: |grad F_i(w) - grad F_i(w')| <= rho |w - w'|."""
    dissimilarity: _Positive = 1.0
    """B: |grad F_i(w)| <= B |grad F(w)|; 1 if all clients have the same data distribution."""
    proximal_mu: _Positive = 1.0
    """mu of the local proximal term."""


class BoundSettings(Described):
    """Settings of the noise in the bounds."""

    epsilon: _Positive = 60.0
    """Privacy budget of the run."""
    delta: Annotated[float, Field(gt=0, lt=1)] = 0.01
    """Probability with which the budget may be broken, 0..1, exclusive."""
    constant: _Positive = 1.25
    """Factor on c1 = sqrt(2 ln(1.25/delta))."""
    clients: Annotated[int, Field(ge=1)] = 50
    """N: number of clients."""
    clip_norm: _Positive = 20.0
    """C: L2 norm that models are clipped to."""
    samples: Annotated[int, Field(ge=1)] = 100
    """m: samples of the smallest local data set."""

    @property
    def noise_constant(self) -> float:
        """c = constant c1."""
        return self.constant * classical_constant(self.delta)


@dataclass(frozen=True, slots=True)
class FullParticipation:
    """Bound of theorem 2 (equation 6) as a function of the number of rounds."""

    loss: LossConstants
    noise: BoundSettings
    lambda1: Literal["paper", "corrected"] = "paper"
    """First factor of kappa_1: (1 + rho B)/mu as printed | 1 + rho B/mu, which its derivation gives. The printed one is
    the default because the paper's curves use it; they agree at mu = 1."""

    @property
    def contraction(self) -> float:
        """P: share of the gap that remains after a round without noise."""
        loss, mu = self.loss, self.loss.proximal_mu
        drift = loss.smoothness * loss.dissimilarity / mu**2
        return 1 + 2 * loss.polyak_lojasiewicz * (-1 / mu + drift + drift * loss.dissimilarity / 2)

    @property
    def kappa1(self) -> float:
        """kappa_1, the weight of T/epsilon; NaN if the bound is undefined."""
        loss, noise, mu = self.loss, self.noise, self.loss.proximal_mu
        factor = (1 / mu if self.lambda1 == "paper" else 1.0) + loss.smoothness * loss.dissimilarity / mu
        scale = loss.lipschitz * noise.noise_constant * noise.clip_norm / noise.samples
        return factor * scale / (1 - self._defined) * math.sqrt(2 / (noise.clients * math.pi))

    @property
    def kappa0(self) -> float:
        """kappa_0, the weight of (T/epsilon)^2; NaN if the bound is undefined."""
        scale = self.noise.noise_constant * self.noise.clip_norm / self.noise.samples
        return self.loss.smoothness * scale**2 / (2 * (1 - self._defined) * self.noise.clients)

    @property
    def _defined(self) -> float:
        """P where the bound is defined, otherwise NaN."""
        return math.nan if self.why_undefined() else self.contraction

    def why_undefined(self) -> str | None:
        P = self.contraction
        return None if 0 <= P < 1 else f"theorem 2 needs 0 <= P < 1, got P = {P:.6g}"

    def __call__(self, rounds: ArrayLike) -> Floats:
        """Return the bound on the expected gap F(w_T) - F(w*), NaN if undefined; T may be of any shape and real."""
        T = np.asarray(rounds, dtype=np.float64)
        left = self._defined**T
        spent = T / self.noise.epsilon
        return np.asarray(left * self.loss.initial_gap + (self.kappa1 + self.kappa0 * spent) * spent * (1 - left))


@dataclass(frozen=True, slots=True)
class PartialParticipation:
    """Bound of theorem 3 (equation 8) as a function of the numbers of rounds and participants."""

    loss: LossConstants
    noise: BoundSettings

    def contraction(self, participants: ArrayLike) -> Floats:
        """Return Q, the share of the gap that remains after a round without noise."""
        loss, mu, B = self.loss, self.loss.proximal_mu, self.loss.dissimilarity
        K, rho = np.asarray(participants, dtype=np.float64), self.loss.smoothness
        drift = rho * B**2 / 2 + rho * B + rho * B**2 / K + (2 * rho * B**2 + mu * B) / np.sqrt(K)
        return np.asarray(1 + 2 * loss.polyak_lojasiewicz / mu**2 * (drift - mu))

    def alpha0(self, participants: ArrayLike) -> Floats:
        """Return alpha_0 = 2 rho K/N + rho, the weight of the noise's variance."""
        K = np.asarray(participants, dtype=np.float64)
        return np.asarray(self.loss.smoothness * (2 * K / self.noise.clients + 1))

    def alpha1(self, participants: ArrayLike) -> Floats:
        """Return alpha_1 = 1 + 2 rho B/mu + 2 rho B sqrt(K)/(mu N), the weight of the noise's standard deviation."""
        K = np.asarray(participants, dtype=np.float64)
        drift = 2 * self.loss.smoothness * self.loss.dissimilarity / self.loss.proximal_mu
        return np.asarray(1 + drift + drift * np.sqrt(K) / self.noise.clients)

    def discounted_budget(self, rounds: ArrayLike, participants: ArrayLike) -> Floats:
        """Return g, the budget of one round after the discount of equation 7; NaN if its logarithm does not exist."""
        T, K = np.asarray(rounds, dtype=np.float64), np.asarray(participants, dtype=np.float64)
        with np.errstate(divide="ignore"):
            per_round = self.noise.epsilon / T
            fallen = self.noise.clients / K * np.expm1(-per_round)
        log = np.log1p(np.where(fallen > -1, fallen, 0.0))
        # At K = N the logarithm is -epsilon/T, also where its argument underflows.
        everyone = np.equal(K, self.noise.clients)
        return np.asarray(np.where(everyone, per_round, np.where(fallen > -1, -log, np.nan)))

    def why_undefined(self, rounds: float, participants: int) -> str | None:
        Q = float(self.contraction(participants))
        if not 0 <= Q < 1:
            return f"theorem 3 needs 0 <= Q < 1, got Q = {Q:.6g}"
        if math.isnan(float(self.discounted_budget(rounds, participants))):
            limit = -math.log1p(-participants / self.noise.clients)
            return (
                f"theorem 3 needs epsilon/T < -ln(1 - K/N) = {limit:.6g}, "
                f"got epsilon/T = {self.noise.epsilon / rounds:.6g}"
            )
        return None

    def __call__(self, rounds: ArrayLike, participants: ArrayLike) -> Floats:
        """Return the bound on the expected gap, NaN if undefined; T and K may be of any shape and real."""
        T = np.asarray(rounds, dtype=np.float64)
        Q = self.contraction(participants)
        Q = np.where((Q >= 0) & (Q < 1), Q, np.nan)
        noise, K = self.noise, np.asarray(participants, dtype=np.float64)
        g = self.discounted_budget(T, K)
        scale = noise.noise_constant * noise.clip_norm / (noise.samples * K * g)
        deviation = scale * self.loss.lipschitz * self.alpha1(K) * math.sqrt(2 / math.pi)
        left = Q**T
        noise_terms = deviation + scale**2 * self.alpha0(K)
        return np.asarray(left * self.loss.initial_gap + (1 - left) / (1 - Q) * noise_terms)


class Optimum(NamedTuple):
    """Minimum of a bound."""

    best: int  # best integer
    bound: float  # value of the bound there
    real: float  # best real number near it
    interior: bool  # whether the best lies strictly inside the range in which the bound is defined


def optimum(bound: Callable[[Floats], Floats], largest: int) -> Optimum | None:
    """Find the minimum of a `bound` of rounds or participants in 1..largest; None if it is undefined everywhere."""
    from scipy.optimize import minimize_scalar

    values = bound(np.arange(1.0, largest + 1))
    defined = np.flatnonzero(np.isfinite(values))
    if not defined.size:
        return None
    at = int(np.nanargmin(values))
    best, first, last = at + 1, int(defined[0]) + 1, int(defined[-1]) + 1

    def between(argument: float) -> float:
        value = float(bound(np.array(argument)))
        return value if np.isfinite(value) else 1e150  # above any bound, and its square is a float

    real, around = float(best), (max(best - 1, first), min(best + 1, last))
    if around[0] < around[1]:
        real = float(minimize_scalar(between, bounds=around, method="bounded", options={"xatol": 1e-9 * best}).x)
    return Optimum(best, float(values[at]), real, first < best < last)


class BoundsQuestion(Question):
    """Question for NbAFL's convergence bounds, and for the rounds and participants at which they are smallest."""

    loss: LossConstants = LossConstants()
    """Constants of the loss."""
    noise: BoundSettings = BoundSettings()
    """Settings of the noise."""
    rounds: Count = 25
    """T at which the bound is evaluated."""
    participants: Count | None = None
    """K; null: all clients, theorem 2. Any number, also N itself, uses theorem 3."""
    lambda1: Literal["paper", "corrected"] = "paper"
    """Reading of kappa_1 in theorem 2."""
    largest_rounds: Count = 500
    """Largest T in the search for the best one."""

    @field_validator("participants")
    @classmethod
    def _no_more_participants_than_clients(cls, value: int | None, info: ValidationInfo) -> int | None:
        noise = info.data.get("noise")
        if value is not None and noise is not None and value > noise.clients:
            message = "must be at most noise.clients ({clients}), got {value}"
            raise PydanticCustomError("too_many", message, {"clients": noise.clients, "value": value})
        return value

    @property
    def bound(self) -> FullParticipation | PartialParticipation:
        """The bound in question."""
        if self.participants is None:
            return FullParticipation(self.loss, self.noise, self.lambda1)
        return PartialParticipation(self.loss, self.noise)

    def _over_rounds(self, rounds: ArrayLike) -> Floats:
        bound = self.bound
        return bound(rounds) if isinstance(bound, FullParticipation) else bound(rounds, self.participants or 1)

    @property
    def value(self) -> float:
        """The bound on the expected gap at `rounds`; NaN if undefined."""
        return float(self._over_rounds(self.rounds))

    def answer(self) -> dict[str, Any]:
        """Return the bound's constants, its value or why it is undefined, and its minimum."""
        bound, K = self.bound, self.participants or 1
        found: dict[str, Any] = {"bound": _number(self.value)}
        best_rounds = _found(optimum(self._over_rounds, self.largest_rounds))
        if isinstance(bound, FullParticipation):
            kappa = {"kappa1": _number(bound.kappa1), "kappa0": _number(bound.kappa0)}
            found |= {"undefined": bound.why_undefined(), "best_rounds": best_rounds}
            return {"theorem": 2, "P": bound.contraction, **kappa, **found}
        alphas = {"alpha0": float(bound.alpha0(K)), "alpha1": float(bound.alpha1(K))}
        found |= {"undefined": bound.why_undefined(self.rounds, K), "best_rounds": best_rounds}
        found["best_participants"] = _found(optimum(lambda drawn: bound(self.rounds, drawn), self.noise.clients))
        return {"theorem": 3, "Q": float(bound.contraction(K)), **alphas, **found}

    def curve(self) -> dict[str, list[float | None]]:
        """Return the bound over 1..rounds, to be drawn next to a measured curve; None where it is undefined."""
        T = np.arange(1, self.rounds + 1)
        return {"rounds": [int(t) for t in T], "bound": [_number(value) for value in self._over_rounds(T)]}


def _number(value: Any) -> float | None:
    return None if math.isnan(value) else float(value)


def _found(best: Optimum | None) -> dict[str, Any] | None:
    return None if best is None else best._asdict()
