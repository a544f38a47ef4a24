"""How much of a published model is whose, and what that makes of clipping and noise.

A version adds sum_j w_j u_j to the model: u_j is what update j holds after clipping, w_j what the server really
multiplied it with, its share of the data, its age, the verdict of a rule or a detector, and the server's rate together.
Neighbours that differ in the data of client c move each u_j of that client by at most Delta_j, and update j carries
noise of sigma_j, the server's own is sigma_D. So for client c, by the triangle inequality,

    sensitivity     sum over its j of |w_j| Delta_j
    noise           sqrt(sum over all j of w_j^2 sigma_j^2 + sigma_D^2)

and over the versions these compose for each client by itself. In a mean of n updates of n clients that is
rate Delta/n and rate sigma/sqrt(n). A fast client of an asynchronous server is in a version several times; a fresh
update among stale ones has more of the sensitivity than of the noise. A rate scales both alike: what clients' noise is
worth does not depend on it (post-processing). Weights are taken for numbers that depend on nobody's data.

Weights are told relative to that mean, in which they are 1, exactly: so nothing is rounded where all is even.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from asyncfl.privacy.context import Contribution, PrivacyContext

UNEVEN_WEIGHTS = (
    "an update may weigh more than 1/n, and what it weighs may depend on the data; its weight is taken as it was"
)
"""What is to be said where `PrivacyContext.equal_weights` does not hold."""


def planned_contributions(context: PrivacyContext, updates: int | None = None) -> tuple[Contribution, ...]:
    """What enters a version where all goes as planned: one update each of K clients (`updates`: of so many)."""
    return tuple(Contribution(client, context.smallest_samples) for client in range(updates or context.participants))


def relative_weights(context: PrivacyContext, contributions: Sequence[Contribution]) -> list[float]:
    """(n,) |w_j| of each, n/rate times; 1 where no weight is known."""
    if not contributions:
        return []
    usual = context.rate * (1 / len(contributions))
    return [1.0 if one.weight is None else abs(one.weight) / usual for one in contributions]


def client_sensitivities(
    context: PrivacyContext, contributions: Sequence[Contribution], distance: Callable[[Contribution], float]
) -> dict[int, float]:
    """Client -> sum of |w_j| Delta_j over its updates in a version. `distance`: Delta_j of one."""
    n, found = len(contributions), dict.fromkeys((one.client for one in contributions), 0.0)
    for one, relative in zip(contributions, relative_weights(context, contributions), strict=True):
        if relative:  # infinite or not, what is left out moves nothing
            found[one.client] += relative * (context.rate * distance(one) / n)
    return found


def max_client_weight(context: PrivacyContext, contributions: Sequence[Contribution]) -> float:
    """How many times what it could in an even mean of as many one client can move the model; before training 1."""
    found: dict[int, float] = {}
    for one, relative in zip(contributions, relative_weights(context, contributions), strict=True):
        found[one.client] = found.get(one.client, 0.0) + relative
    return max(found.values(), default=1.0)


def noise_scale(context: PrivacyContext, contributions: Sequence[Contribution]) -> float:
    """How many times what it would be in an even mean of as many the clients' noise is; before training 1."""
    weights = relative_weights(context, contributions)
    return math.sqrt(math.fsum(weight**2 for weight in weights) / len(weights)) if weights else 1.0


def noise_of_clients(context: PrivacyContext, contributions: Sequence[Contribution], stds: Sequence[float]) -> float:
    """Standard deviation on each parameter of a version of what n clients added. `stds`: (n,) sigma_j, n >= 1."""
    n, weights = len(contributions), relative_weights(context, contributions)
    squares = math.fsum((weight * std) ** 2 for weight, std in zip(weights, stds, strict=True))
    return context.rate * math.sqrt(squares / n) / math.sqrt(n)
