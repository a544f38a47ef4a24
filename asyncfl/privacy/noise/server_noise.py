"""NbAFL's noise: what each client adds, and what the server adds if that is not enough (equations 5 and 7).

An eavesdropper holds L uploads of a client and all T published models. With z(n) the noise multiplier that keeps n
releases within the budget (theorem 1: z(n) = c n/epsilon):

    sigma_u = z(L) Delta_u                    on each upload
    sigma_a = z(T) Delta_d / b                needed on each published model
    sigma_d = sqrt(sigma_a^2 - sigma_u^2/K)   added by the server; 0 where the clients' own noise is enough

The mean of K uploads already carries sigma_u/sqrt(K). b >= 1 is the discount for secretly drawing K of N clients (1 if
all take part). With Delta_u = 2C/m, Delta_d = Delta_u/K and c n/epsilon this is equation 7, and with K = N equation 5.
Readings of b (`b_rule`):

- `paper`, the default: b = -(T/epsilon) ln(1 - N/K + (N/K) e^(-epsilon/T)), as printed. If T <= epsilon/gamma the
  server adds no noise; only beyond that is b guaranteed to exist. An exponent has the wrong sign, so b overstates the
  discount. It is the default because the paper's figures follow from it, and the notes of a run say so.
- `amplification`: b = (T/epsilon) ln(1 + (N/K) (e^(epsilon/T) - 1)), the correct inversion of amplification by
  subsampling, which always exists. Not the default: the paper did not compute it.
- `none`: b = 1, no discount, for a draw that is not secret. Not the default: it omits the paper's point.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from asyncfl.privacy.accounting.composition import Composition, noise_multiplier

BRule = Literal["paper", "amplification", "none"]
Sensitivity = Literal["2C/m", "2C", "2C/N"]


@dataclass(frozen=True, slots=True)
class NbaflNoise:
    """NbAFL's standard deviations per parameter, and how the server's noise was derived."""

    sigma_u: float
    """Noise of one client on its upload."""
    sigma_a: float | None
    """Total noise that a published model needs; None if b does not exist."""
    sigma_d: float
    """Noise that the server adds."""
    gamma: float | None
    """gamma of equation 7: no server noise up to epsilon/gamma rounds. None without noise and for the other readings of
    b."""
    b: float | None
    """Discount for drawing K of N clients; None if it does not exist."""
    server_rule: str
    """Reason for the server's noise."""


_LARGE = 1e100  # the square of a much larger number overflows


def upload_sensitivity(clip_norm: float, samples: int, sensitivity: Sensitivity = "2C/m") -> float:
    """Return Delta_u, the L2 sensitivity of one clipped model. `samples`: m, size of the smallest local data set.

    `2C/m`, the default (equation 3), is derived for an average of per-sample minimisers and does not hold for a model
    trained by SGD: heuristic. `2C` is proven by clipping for any training; not the default, because the noise grows m
    times. `2C/N` differs only for published models.
    """
    return 2 * clip_norm if sensitivity == "2C" else 2 * clip_norm / samples


def model_sensitivity(clip_norm: float, samples: int, participants: int, sensitivity: Sensitivity = "2C/m") -> float:
    """Return Delta_d, the L2 sensitivity of the mean of K clipped models (equation 4 with p_i = 1/K).

    `2C/m` and `2C` divide Delta_u by K. `2C/N` protects a whole client in the published model, as the paper's
    introduction promises: 2C over the number of averaged clients, while uploads keep 2C/m. It is proven for equal
    weights; not the default, because the paper's equation 4 protects one sample. For a client that weighs more than 1/K
    the sensitivity grows in proportion (`client_weights`).
    """
    if sensitivity == "2C/N":
        return 2 * clip_norm / participants
    return upload_sensitivity(clip_norm, samples, sensitivity) / participants


def paper_discount(epsilon: float, rounds: int, share: float) -> float | None:
    """Return b of equation 7 as printed; None if its logarithm does not exist. `share`: K/N."""
    if share == 1:
        return 1.0
    # log1p, because at a small epsilon the argument of the logarithm is nearly 1.
    excess = math.expm1(-epsilon / rounds) / share
    return -rounds / epsilon * math.log1p(excess) if excess > -1 else None


def amplification_discount(epsilon: float, rounds: int, share: float) -> float:
    """Return b of amplification by subsampling: a round's budget epsilon/T allows b epsilon/T for a sampled client.

    `share`: K/N. Source: Balle, Barthe, Gaboardi 2018 (Privacy amplification by subsampling), inverted.
    """
    if share == 1:
        return 1.0
    per_round = epsilon / rounds
    # ln(1 + (e^x - 1)/share) without e^x, which overflows.
    return 1 + math.log1p(-(1 / share - 1) * math.expm1(-per_round)) / per_round


def paper_gamma(exponent: float, share: float) -> float:
    """Return gamma of equation 7. `exponent`: epsilon/(L sqrt K), infinite at L = 0; `share`: K/N."""
    return exponent if share == 1 else -math.log1p(share * math.expm1(-exponent))


def server_std(sigma_a: float, sigma_u: float, participants: int) -> float:
    """Return sigma_d, the noise missing to `sigma_a` in the mean of `participants` uploads with noise `sigma_u` each.

    0 if nothing is missing. Source: equations 5 and 7.
    """
    largest = max(sigma_a, sigma_u)
    unit = largest if largest > _LARGE else 1.0
    missing = (sigma_a / unit) ** 2 - (sigma_u / unit) ** 2 / participants
    # Equal amounts may differ by rounding.
    return math.sqrt(missing) * unit if missing > 1e-12 * (sigma_a / unit) ** 2 else 0.0


def model_std(noise: NbaflNoise, participants: int) -> float:
    """Return the standard deviation of the total noise in a published model: that of K `participants` and the
    server's."""
    return math.hypot(noise.sigma_u / math.sqrt(participants), noise.sigma_d)


def nbafl_noise(
    *,
    clients: int,
    participants: int,
    rounds: int,
    exposures: int,
    samples: int,
    clip_norm: float,
    epsilon: float,
    delta: float,
    constant: float = 1.0,
    sensitivity: Sensitivity = "2C/m",
    composition: Composition = "naive",
    b_rule: BRule = "paper",
    max_client_weight: float = 1.0,
    noise_scale: float = 1.0,
) -> NbaflNoise:
    """Compute the noise of clients and server of one NbAFL run.

    `clients` N, `participants` K (1..N), `rounds` T, `exposures` L (0..T), `samples` m of the smallest local data set,
    `clip_norm` C, `constant`: factor on c1. All noise is 0 at infinite `epsilon`. Source: equations 5 and 7. The
    readings are described in this module and in `composition`.

    Equations 5 and 7 assume p_i = 1/K. For other weights, `max_client_weight` is K times the largest total weight of
    one client and scales Delta_d; `noise_scale` is sqrt(K sum p_j^2) and scales the clients' noise in the mean. The
    default 1 for both is the paper's case.
    """
    if math.isinf(epsilon):
        return NbaflNoise(0.0, 0.0, 0.0, None, None, "no noise: epsilon is infinite")
    share = participants / clients
    delta_u = upload_sensitivity(clip_norm, samples, sensitivity)
    delta_d = max_client_weight * model_sensitivity(clip_norm, samples, participants, sensitivity)
    sigma_u = noise_multiplier(exposures, epsilon, delta, constant, composition) * delta_u
    carried = sigma_u * noise_scale
    undiscounted = noise_multiplier(rounds, epsilon, delta, constant, composition) * delta_d
    b: float | None
    sigma_a: float | None
    if b_rule != "paper":
        b = amplification_discount(epsilon, rounds, share) if b_rule == "amplification" else 1.0
        sigma_a = undiscounted / b
        sigma_d = server_std(sigma_a, carried, participants)
        verdict = "added" if sigma_d > 0 else "the clients' noise is enough"
        return NbaflNoise(sigma_u, sigma_a, sigma_d, None, b, f"{b_rule}: {verdict}")
    # Equation 7 adds noise if b < undiscounted sqrt(K)/sigma_u, in its own reading T/(L sqrt K); solved
    # for T that is T > epsilon/gamma. This is tested first, because otherwise b need not exist.
    largest_b = undiscounted * math.sqrt(participants) / carried if carried > 0 else math.inf
    gamma = paper_gamma(epsilon / rounds * largest_b, share)
    b = paper_discount(epsilon, rounds, share)
    sigma_a = None if b is None else undiscounted / b
    if rounds * gamma <= epsilon or sigma_a is None:
        rule = f"paper: none, T <= epsilon/gamma ({rounds} <= {epsilon / gamma:.6g})"
        return NbaflNoise(sigma_u, sigma_a, 0.0, gamma, b, rule)
    rule = f"paper: added, T > epsilon/gamma ({rounds} > {epsilon / gamma:.6g})"
    return NbaflNoise(sigma_u, sigma_a, server_std(sigma_a, carried, participants), gamma, b, rule)
