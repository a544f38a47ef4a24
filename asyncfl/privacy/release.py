"""One upload or published model as accountants see it. Noise is given as the standard deviation on each parameter;
Laplace noise of scale b has standard deviation sqrt(2) b."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Distribution = Literal["gaussian", "laplace"]
"""Distribution of the noise. The matching sensitivity is L2 for `gaussian` and L1 for `laplace`."""

Unit = Literal["sample", "client", "none"]
"""Data in which neighbouring data sets differ: one sample of one client | all data of one client | nothing is
stated."""

Status = Literal["proven", "heuristic", "disproved", "invalid", "none"]
"""Foundation of a sensitivity: a proof | an argument that does not hold for this training | the same, refuted by an
audit of the run | a wrong formula | no noise. Whether there is enough noise for the sensitivity is a separate question:
`privacy.flags`."""


@dataclass(frozen=True, slots=True)
class BitNoise:
    """Noise on the bits behind an adaptive clip norm: one bit for each collected update, of which the sum is known."""

    std: float
    """Standard deviation of the noise on each bit, or on the sum of the bits (`by_server`), > 0."""
    sensitivity: float
    """Largest change of one bit between neighbouring data sets."""
    by_server: bool
    """Whether the server adds the noise to the sum, multiplied by the most updates of one client in the collection."""

    def influence(self, updates: int, most: int, collected: int) -> float:
        """Return the change of the sum over its noise, for a client with `updates` of the `collected` updates; `most`:
        the most updates of one client."""
        return updates * self.sensitivity / (self.std * (most if self.by_server else math.sqrt(collected)))


@dataclass(frozen=True, slots=True)
class Release:
    """One upload or one published model as accountants see it."""

    distribution: Distribution
    std: float
    """Standard deviation of the noise on each parameter, >= 0."""
    sensitivity: float
    """Largest change between neighbouring data sets, L2 (Gaussian) or L1 (Laplace); infinite if nothing bounds it. If
    the noise was calibrated to a wrong sensitivity (`status` invalid), the true one."""
    count: int
    """Number of mechanisms with this noise: 1, or the epochs of a task that adds noise in each."""
    epsilon: float
    """Epsilon claimed for this release alone; infinite if nothing is claimed."""

    @property
    def multiplier(self) -> float:
        """Noise multiplier: std/sensitivity (Gaussian) or scale/sensitivity (Laplace); 0 if the sensitivity is
        infinite."""
        scale = self.std if self.distribution == "gaussian" else self.std / math.sqrt(2)
        if self.sensitivity == 0:
            return math.inf
        return scale / self.sensitivity
