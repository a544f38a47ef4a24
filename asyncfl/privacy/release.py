"""What leaves a client or the server once, for whoever keeps accounts: how much noise lies on how much sensitivity.

Noise is always told as the standard deviation on each parameter: Laplace noise of scale b has std
sqrt(2) b.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Distribution = Literal["gaussian", "laplace"]
"""What noise is drawn from. The sensitivity that counts is L2 for `gaussian` and L1 for `laplace`."""

Unit = Literal["sample", "client", "none"]
"""Whose data neighbours differ in: one sample of one client | all data of one client | nothing is stated."""

Status = Literal["proven", "heuristic", "disproved", "invalid", "none"]
"""What stands behind a sensitivity: a proof | an argument that does not hold for this training | the same, where an
audit of the run found data that break it | a wrong formula | no noise at all. Too little noise for a sensitivity that
holds is another matter: `privacy.flags`."""


@dataclass(frozen=True, slots=True)
class Release:
    """One upload, or one published model, as an accountant sees it."""

    distribution: Distribution
    std: float
    """Standard deviation of the noise on each parameter, >= 0."""
    sensitivity: float
    """What one neighbour can change, in L2 (gaussian) or L1 (laplace); infinite where nothing bounds it. Where noise is
    calibrated to a wrong one (`status` invalid), the true one."""
    count: int
    """Mechanisms of this multiplier that it stands for: 1, or the epochs of a task that adds noise in each."""
    neighbours: str
    """Data sets that are to be indistinguishable."""
    status: Status
    """How well the sensitivity is founded."""
    epsilon: float
    """Claimed for this release alone; infinite where nothing is claimed."""
    delta: float
    """Claimed for it; 0 where nothing is."""

    @property
    def multiplier(self) -> float:
        """std/sensitivity (gaussian) or scale/sensitivity (laplace); 0 where the sensitivity is infinite."""
        scale = self.std if self.distribution == "gaussian" else self.std / math.sqrt(2)
        if self.sensitivity == 0:
            return math.inf
        return scale / self.sensitivity
