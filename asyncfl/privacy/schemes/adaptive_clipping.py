"""A clip norm that privately follows a quantile of the update norms.

Andrew, Thakkar, McMahan, Ramaswamy 2021 (Differentially Private Learning with Adaptive Clipping): each client reports
one bit, whether its update is within the clip norm C. With b the noisy mean of the bits,

    C <- C exp(-learning_rate (b - quantile))

The bits are a release of their own. Centred at 1/2, as in the source, the bit of an update u is

    -1/2 if |u| > C or u is not finite,   1/2 if 0 < |u| <= C,   0 if u = 0

The third case is ours. The source removes a client from the sum, which takes 1/2 or -1/2 away. With a fixed number of
participants the removed client stands for an update of zero (`zero_out`), whose bit would count as within C and move by
1 if the client's own is above C. So an update of zero has no bit.

Sensitivities of one bit: 1/2 for `zero_out` (1/2 or -1/2 against 0), 1 for `replace` (1/2 against -1/2). Those of one
update are C and 2 C. With noise of standard deviation sigma_b on a bit and z_delta C on an update, both together are
one Gaussian release with multiplier z (z/2 for `replace`) if

    z_delta = (z^-2 - (2 sigma_b)^-2)^(-1/2)

In a published version updates have the weights of the aggregation, and bits all weigh alike. There the two are
accounted for separately (`ledger.knowledge`). A client with k updates in a collection moves the sum of the bits by k
times the sensitivity. If the server adds the noise, it multiplies sigma_b by the largest k of the collection. If
clients add it, the sum of n bits has noise sqrt(n) sigma_b.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from asyncfl.base.component import Described
from asyncfl.base.quantities import MeasuredIn
from asyncfl.privacy.context import Contribution
from asyncfl.privacy.ranges import LEAST, MOST, Factor
from asyncfl.privacy.scheme import State

_LARGEST_STEP = 600.0  # logarithm of a factor that moves any clip norm out of its range

PAPERS_SHARE = 1 / 20
"""sigma_b divided by the number of clients in a version, as set in the paper."""


def split_multiplier(multiplier: float, fraction_noise: float) -> float:
    """Return z_delta, the noise multiplier of the updates such that updates and bits together have `multiplier`.

    Raises ValueError unless `fraction_noise` (sigma_b) > multiplier/2 >= 0. Source: theorem 1.
    """
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
        """Return sigma_b, for a noise `multiplier` of the updates (0: no noise, sigma_b is 0) and K `participants`.

        `by_server`: whether the server adds the noise to the sum of the bits; otherwise clients to each bit.
        """
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
    sigma: float
    """sigma_b."""
    by_server: bool
    """Whether the noise is added to the sum of the bits; otherwise to each bit."""

    def clip_norm(self, norms: NDArray[np.floating]) -> float | None:
        """Return the current clip norm."""
        return self.norm

    def record_collection(
        self, contributions: Sequence[Contribution], norms: NDArray[np.float64], random: np.random.Generator
    ) -> None:
        """Update the clip norm. A norm that is not finite counts as above it, and one of 0 as neither."""
        n = len(norms)
        if not n:
            return
        most = max(Counter(one.client for one in contributions).values(), default=1)
        noise = self.sigma * random.standard_normal() * (most if self.by_server else math.sqrt(n))
        within = np.count_nonzero(norms <= self.norm) - np.count_nonzero(norms == 0) / 2
        fraction = (within + noise) / n
        self.norm = self.rule.next_norm(self.norm, float(fraction))
