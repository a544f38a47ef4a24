"""Size skew: unequal shares with the same mixture of classes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from asyncfl.base.errors import Fault
from asyncfl.base.quantities import MeasuredIn
from asyncfl.data.partition.partition import Partition, Shares, smallest_share_faults


class Quantity(Partition):
    """Clients hold unequally many samples, drawn at random from all.

    Source: Li et al. 2020 (FedProx) for the power law.
    """

    kind: Literal["quantity"] = "quantity"
    distribution: Literal["lognormal", "power"] = "lognormal"
    """Distribution of sizes: lognormal, or a power law over the clients' ranks (ranks are assigned at random)."""
    spread: Annotated[float, MeasuredIn("1")] = Field(default=1.0, ge=0, le=10, allow_inf_nan=False)
    """Standard deviation of the logarithm of the sizes, or exponent of the power law; 0: equal sizes."""
    min_samples: Annotated[int, MeasuredIn("samples")] = Field(default=10, ge=1)
    """Smallest number of samples of a client."""

    def faults(self, clients: int, samples_per_client: int) -> Iterator[Fault]:
        yield from smallest_share_faults(self.min_samples, samples_per_client)

    def sizes(self, clients: int, samples_per_client: int, rng: np.random.Generator) -> NDArray[np.int64]:
        if self.distribution == "lognormal":
            weights = np.exp(self.spread * rng.standard_normal(clients))
        else:
            weights = rng.permutation(np.arange(1, clients + 1) ** -self.spread)
        spread = clients * (samples_per_client - self.min_samples)
        return self.min_samples + apportion(spread, weights)

    def assign(
        self, labels: NDArray[np.int64], clients: int, samples_per_client: int, rng: np.random.Generator
    ) -> Shares:
        sizes = self.sizes(clients, samples_per_client, rng)
        total = clients * samples_per_client
        return np.split(rng.permutation(len(labels))[:total], np.cumsum(sizes)[:-1])


def apportion(total: int, weights: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return integers in proportion to `weights` with the sum `total` (largest remainder method, ties to the first)."""
    exact = total * (weights / weights.sum())
    whole: NDArray[np.int64] = np.floor(exact).astype(np.int64)
    missing = total - int(whole.sum())
    whole[np.argsort(whole - exact, kind="stable")[:missing]] += 1
    return whole
