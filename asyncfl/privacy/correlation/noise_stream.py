"""The noise of a run's versions, one after another, with the memory that its correlation needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.arrays import Vector
from asyncfl.base.streams import Streams
from asyncfl.learning.normal_noise import StandardNormal
from asyncfl.privacy.correlation.factorisation import Factorisation


@dataclass
class NoiseStream:
    """Correlated server noise of one seed. The fresh noise of each version has a random stream of its own; the state is
    what a run that goes on must keep."""

    factorisation: Factorisation
    versions: int  # number of versions of the run
    streams: Streams
    version: int = 0  # last version whose noise was drawn
    state: Any = None

    def add(self, model: Vector, std: float, version: int) -> float:
        """Add the noise of `version`, in units of `std` >= 0, to `model` ((n_parameters,) float32, in place), and
        return the standard deviation of each of its entries.

        The noise of versions that were left out is drawn first: it is part of later noise. Raises ValueError for a
        version whose noise was drawn before.
        """
        if version <= self.version:
            raise ValueError(f"the noise of version {version} was drawn before; the last was {self.version}")
        while self.version < version:
            noise = self._next(len(model))
        # Noise past the range of float32 makes the model infinite, which ends the run as diverged.
        factor = std if std <= float(np.finfo(np.float32).max) else np.inf
        if std > 0:
            with np.errstate(over="ignore", invalid="ignore"):
                model += np.float32(factor) * noise
        return std * self.factorisation.std(version, self.versions)

    def _next(self, n: int) -> NDArray[np.floating]:
        if self.version == 0:
            self.state = self.factorisation.start(self.versions)
        self.version += 1
        if not n:
            return np.zeros(0)
        fresh = StandardNormal(self.streams.bits("server_noise", number=self.version), n)
        noise, self.state = self.factorisation.next(self.state, lambda: fresh.draw().copy())
        return noise
