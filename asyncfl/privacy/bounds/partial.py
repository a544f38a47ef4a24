"""Theorem 3: convergence bound of NbAFL with K of N clients drawn in each round.

    bound(T, K) = Q^T Theta + (1 - Q^T)/(1 - Q) (beta alpha_1 s sqrt(2/pi) + alpha_0 s^2)
    s = c C/(m K g),  g = -ln(1 - N/K + (N/K) e^(-epsilon/T))

g = b epsilon/T, with b as printed in equation 7. Its logarithm exists only if epsilon/T < -ln(1 - K/N): with many
participants, many rounds or a small budget. Elsewhere the theorem is undefined. Towards that edge g grows without limit
and the noise terms vanish, so the best K and T by this bound tend to lie there, which is an artefact of b.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asyncfl.privacy.bounds.constants import BoundSettings, LossConstants

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class PartialParticipation:
    """Bound of theorem 3 (equation 8) as a function of the numbers of rounds and participants."""

    loss: LossConstants
    noise: BoundSettings

    def contraction(self, participants: ArrayLike) -> Floats:
        """Return Q, the share of the gap that remains after a round without noise. `participants`: K, of any shape."""
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
        T = np.asarray(rounds, dtype=np.float64)
        K = np.asarray(participants, dtype=np.float64)
        with np.errstate(divide="ignore"):
            fallen = self.noise.clients / K * np.expm1(-self.noise.epsilon / T)
        # At K = N the logarithm is -epsilon/T, also where its argument underflows.
        log = np.log1p(np.where(fallen > -1, fallen, 0.0))
        everyone = np.equal(K, self.noise.clients)
        with np.errstate(divide="ignore"):
            return np.asarray(np.where(everyone, self.noise.epsilon / T, np.where(fallen > -1, -log, np.nan)))

    def why_undefined(self, rounds: float, participants: int) -> str | None:
        """Return why the bound is undefined for these rounds and participants; None if it is defined."""
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
        """Return the bound on the expected gap F(v_T) - F(w*), NaN if undefined.

        `rounds`: T > 0, also between the integers, and `participants`: K 1..N, of shapes that broadcast. Source:
        theorem 3, equation 8.
        """
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
