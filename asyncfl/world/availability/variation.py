"""Some clients are online for longer than others, and it may be the fast ones, or those with much data.

The factor of client i is exp(sigma z_i), z_i = rho u_i + sqrt(1 - rho^2) e_i, where e_i is a standard normal draw of
its own and u_i the normal score of its rank among all clients, Phi^-1((rank - 1/2) / n): whatever the distribution of
speeds or sizes, z is close to standard normal and its correlation with the ranks is rho (a Gaussian copula).
"""

from __future__ import annotations

import math
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from asyncfl.component import Described
from asyncfl.quantities import MeasuredIn
from asyncfl.streams import Streams
from asyncfl.world.availability.pattern import ClientTraits


class Variation(Described):
    """How unequal the clients are, and what that goes along with."""

    sigma: Annotated[float, Field(ge=0, le=10, examples=[0.5]), MeasuredIn("1")]
    """Standard deviation of the natural logarithm of the factor, 0..10; its median is 1."""
    along: Literal["speed", "samples"] = "speed"
    """What it is correlated with: how fast a client computes, or how many training samples it has."""
    correlation: Annotated[float, Field(ge=-1, le=1), MeasuredIn("1")] = 0.0
    """rho, -1..1: above 0 fast clients, or those with many samples, are online for longer; 0: it is left to chance."""

    def factors(self, traits: ClientTraits, streams: Streams) -> NDArray[np.float64]:
        """Factor of each client, (clients,) > 0. Equal speeds or sizes have equal ranks.

        Raises ValueError for a variation along samples that are not known.
        """
        of = -traits.s_per_sample if self.along == "speed" else traits.samples
        if of is None:
            raise ValueError("availability goes along with samples: the world must be told how many each client has")
        # scipy takes as long to import as the rest of the package.
        from scipy.special import ndtri
        from scipy.stats import rankdata

        own = streams.generator("availability", number=3).standard_normal(traits.clients)
        scores = ndtri((rankdata(of) - 0.5) / traits.clients)
        z = self.correlation * scores + math.sqrt(1 - self.correlation**2) * own
        return np.asarray(np.exp(self.sigma * z), dtype=np.float64)
