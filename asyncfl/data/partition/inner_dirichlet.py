"""Size skew and label skew together, controlled independently."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from asyncfl.base.quantities import MeasuredIn
from asyncfl.data.partition.dirichlet import draw_mixtures
from asyncfl.data.partition.partition import Shares
from asyncfl.data.partition.quantity import Quantity


class InnerDirichlet(Quantity):
    """Sizes are drawn first, as in `quantity`; then each client draws its mixture of classes from Dirichlet(alpha), and
    its samples from the mixture, so that sizes and labels are independent (Acar et al., FedDyn, ICLR 2021,
    arXiv:2111.04263; FedLab and Flower Datasets call it inner Dirichlet).

    `dirichlet` with free sizes draws each class's distribution over clients instead, so that size and mixture depend on
    each other.

    Source: ours; the name is that of Acar et al. 2021.
    """

    oversampling: ClassVar[int] = (
        3  # so that the mixtures, not the number of samples, decide which classes a client gets
    )

    kind: Literal["inner_dirichlet"] = "inner_dirichlet"  # type: ignore[assignment]
    alpha: Annotated[float, MeasuredIn("1")] = Field(default=0.5, gt=0, le=1e6)
    """Concentration of each client's mixture: .1 leaves one to three classes, 100 is almost the mixture of all."""

    @property
    def by_class(self) -> bool:
        return True

    def assign(
        self, labels: NDArray[np.int64], clients: int, samples_per_client: int, rng: np.random.Generator
    ) -> Shares:
        sizes = self.sizes(clients, samples_per_client, rng)
        return draw_mixtures(rng.permutation(len(labels)), labels, sizes, self.alpha, rng)
