"""Variation of availability between clients, correlated with their speed or their amount of data.

The factor of client i is exp(sigma z_i) with z_i = rho u_i + sqrt(1 - rho^2) e_i, where e_i is a standard normal draw
and u_i = Phi^-1((rank - 1/2) / n) the normal score of the client's rank among n clients. For any distribution of speeds
or sizes, z is approximately standard normal and has the correlation rho with the normal scores (a Gaussian copula).
"""

from __future__ import annotations

import math
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from asyncfl.base.component import Described
from asyncfl.base.quantities import MeasuredIn
from asyncfl.base.streams import Streams
from asyncfl.world.availability.pattern import ClientTraits


class Variation(Described):
    """Lognormal factors of the clients, and their correlation with speed or number of samples."""

    sigma: Annotated[float, Field(ge=0, le=10, examples=[0.5]), MeasuredIn("1")]
    """Standard deviation of the natural logarithm of the factor, 0..10; its median is 1."""
    along: Literal["speed", "samples"] = "speed"
    """Property that the factor is correlated with: the computing speed, or the number of training samples."""
    correlation: Annotated[float, Field(ge=-1, le=1), MeasuredIn("1")] = 0.0
    """Correlation rho, -1..1. Above 0, fast clients or clients with many samples are online for longer."""

    def factors(self, traits: ClientTraits, streams: Streams) -> NDArray[np.float64]:
        """Draw the factor of each client, (clients,) > 0. Equal speeds or sizes have equal ranks.

        Raises ValueError where the numbers of samples are needed but unknown.
        """
        ranked = -traits.s_per_sample if self.along == "speed" else traits.samples
        if ranked is None:
            raise ValueError("availability varies along samples: start the world with the samples of each client")
        # scipy takes as long to import as the rest of the package.
        from scipy.special import ndtri
        from scipy.stats import rankdata

        own = streams.generator("availability", number=3).standard_normal(traits.clients)
        scores = ndtri((rankdata(ranked) - 0.5) / traits.clients)
        z = self.correlation * scores + math.sqrt(1 - self.correlation**2) * own
        return np.asarray(np.exp(self.sigma * z), dtype=np.float64)
