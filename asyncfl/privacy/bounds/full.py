"""Theorem 2: convergence bound of NbAFL with all clients taking part.

    bound(T) = P^T Theta + (kappa_1 T/epsilon + kappa_0 T^2/epsilon^2) (1 - P^T)

The first term falls with T and the second grows, so there is a best number of rounds. The paper calls the bound convex
in T, which it need not be: where kappa_0 is small it is concave past T = Theta epsilon/kappa_1 + 2/|ln P|. It has only
one minimum, which is what the argument needs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asyncfl.privacy.bounds.constants import BoundSettings, LossConstants


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
        if self.why_undefined():
            return math.nan
        loss, noise, mu = self.loss, self.noise, self.loss.proximal_mu
        drift = loss.smoothness * loss.dissimilarity / mu
        factor = (1 / mu if self.lambda1 == "paper" else 1.0) + drift
        scale = loss.lipschitz * noise.noise_constant * noise.clip_norm / noise.samples
        return factor * scale / (1 - self.contraction) * math.sqrt(2 / (noise.clients * math.pi))

    @property
    def kappa0(self) -> float:
        """kappa_0, the weight of (T/epsilon)^2; NaN if the bound is undefined."""
        if self.why_undefined():
            return math.nan
        noise = self.noise
        scale = noise.noise_constant * noise.clip_norm / noise.samples
        return self.loss.smoothness * scale**2 / (2 * (1 - self.contraction) * noise.clients)

    def why_undefined(self) -> str | None:
        """Return why the bound is undefined; None if it is defined."""
        if 0 <= self.contraction < 1:
            return None
        return f"theorem 2 needs 0 <= P < 1, got P = {self.contraction:.6g}"

    def __call__(self, rounds: ArrayLike) -> NDArray[np.float64]:
        """Return the bound on the expected gap F(w_T) - F(w*), NaN if undefined.

        `rounds`: T >= 0, of any shape, also between the integers. Source: theorem 2, equation 6.
        """
        T = np.asarray(rounds, dtype=np.float64)
        if self.why_undefined():
            return np.full(T.shape, np.nan)
        left = self.contraction**T
        spent = T / self.noise.epsilon
        return np.asarray(left * self.loss.initial_gap + (self.kappa1 + self.kappa0 * spent) * spent * (1 - left))
