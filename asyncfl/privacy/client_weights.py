"""Weights of clients in a published model, and what follows for sensitivity and noise.

A version adds sum_j w_j u_j to the model: u_j is update j after clipping, w_j its actual weight, server learning rate
included. Neighbouring data sets of client c move each u_j of that client by at most Delta_j. Update j carries noise
sigma_j, and the server adds sigma_D. By the triangle inequality, for client c

    sensitivity     sum over its j of |w_j| Delta_j
    noise           sqrt(sum over all j of w_j^2 sigma_j^2 + sigma_D^2)

Weights are assumed to be independent of all data, and expressed relative to the uniform mean, where they are exactly 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from asyncfl.privacy.release import Contribution, PrivacyContext

UNEVEN_WEIGHTS = (
    "an update may weigh more than 1/n, and its weight may depend on the data; the actual weight is used; the "
    "sensitivity of published models is heuristic"
)
"""Note for runs in which `PrivacyContext.equal_weights` does not hold."""


def planned_contributions(context: PrivacyContext, updates: int | None = None) -> tuple[Contribution, ...]:
    """Return one update from each of K clients, or `updates` of them."""
    return tuple(Contribution(client, context.smallest_samples) for client in range(updates or context.participants))


def relative_weights(context: PrivacyContext, contributions: Sequence[Contribution]) -> list[float]:
    """Return (n,) |w_j| n/rate of each contribution; 1 if the weight is unknown."""
    if not contributions:
        return []
    usual = context.rate * (1 / len(contributions))
    return [1.0 if one.weight is None else abs(one.weight) / usual for one in contributions]


def client_sensitivities(
    context: PrivacyContext, contributions: Sequence[Contribution], distance: Callable[[Contribution], float]
) -> dict[int, float]:
    """Return client -> sum of |w_j| Delta_j over its updates in a version, before training over the planned ones.
    `distance`: returns Delta_j."""
    contributions = contributions or planned_contributions(context)
    n, found = len(contributions), dict.fromkeys((one.client for one in contributions), 0.0)
    for one, relative in zip(contributions, relative_weights(context, contributions), strict=True):
        if relative:  # an update with weight 0 has no influence, even if its distance is infinite
            found[one.client] += relative * (context.rate * distance(one) / n)
    return found


def max_client_weight(context: PrivacyContext, contributions: Sequence[Contribution]) -> float:
    """Return the largest influence of one client relative to a uniform mean of as many updates; 1 before training."""
    found: dict[int, float] = {}
    for one, relative in zip(contributions, relative_weights(context, contributions), strict=True):
        found[one.client] = found.get(one.client, 0.0) + relative
    return max(found.values(), default=1.0)


def noise_scale(context: PrivacyContext, contributions: Sequence[Contribution]) -> float:
    """Return the clients' noise relative to a uniform mean of as many updates; 1 before training."""
    weights = relative_weights(context, contributions)
    return math.sqrt(math.fsum(weight**2 for weight in weights) / len(weights)) if weights else 1.0


def noise_of_clients(context: PrivacyContext, contributions: Sequence[Contribution], stds: Sequence[float]) -> float:
    """Return the standard deviation per parameter of the clients' noise in a version. `stds`: (n,) sigma_j, n >= 1."""
    weights, n = relative_weights(context, contributions), len(contributions)
    squares = math.fsum((weight * std) ** 2 for weight, std in zip(weights, stds, strict=True))
    return context.rate * math.sqrt(squares / n) / math.sqrt(n)


def clipped_sgd_sensitivity(
    context: PrivacyContext, clip_norm: float, samples: int, epochs: int | None = None
) -> float:
    """Return the largest L2 distance of two models after S clipped steps from the same model: 2 lr C S, for any data.

    Where a step takes the mean of the clipped gradients of all samples, the first one differs in one term: 2 lr C
    (S - 1 + 1/samples). Infinite with momentum or a proximal term. Convex losses get no smaller bound: a clipped
    gradient of a batch is in general the gradient of no convex loss. `epochs`: behind the S steps; None: of a task.
    """
    if not context.plain_sgd:
        return math.inf
    steps = context.steps_of(samples, epochs)
    return 2 * context.lr * clip_norm * (steps - 1 + 1 / samples if context.clips_samples else steps)
