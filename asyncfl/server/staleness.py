"""How much an update counts that was trained from an old version.

Staleness tau is the number of versions published between the one a client was sent and the one its update is applied
to; 0 is fresh. Sources: Xie, Koyejo, Gupta 2019 (FedAsync), Nguyen et al. 2022 (FedBuff).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from asyncfl.answers import numbers
from asyncfl.component import Component, choice
from asyncfl.quantities import MeasuredIn


class Staleness(Component):
    """Turns staleness into a weight."""

    logged: ClassVar[tuple[str, ...]] = (
        "rounds.staleness_mean",
        "rounds.staleness_max",
        "events.aggregated",
    )

    @property
    def is_constant(self) -> bool:
        """Whether an update counts in full whatever its age."""
        return False

    def weight(self, staleness: NDArray[np.int64]) -> NDArray[np.float64]:
        """Weight of updates that are `staleness` versions old.

        `staleness`: (n_updates,) integers >= 0. Returns (n_updates,) float64 in 0..1, 1 at staleness 0.
        """
        raise NotImplementedError


class ConstantStaleness(Staleness):
    """1: an old update counts as much as a fresh one. Source: Xie, Koyejo, Gupta 2019, adaptive mixing."""

    kind: Literal["constant"] = "constant"

    @property
    def is_constant(self) -> bool:
        """Yes."""
        return True

    def weight(self, staleness: NDArray[np.int64]) -> NDArray[np.float64]:
        """1, see `Staleness.weight`."""
        return np.ones(len(staleness))


class PolynomialStaleness(Staleness):
    """(1 + tau)^-a. Source: Xie, Koyejo, Gupta 2019, adaptive mixing; SAFL, equation 2."""

    kind: Literal["polynomial"] = "polynomial"
    exponent: Annotated[float, Field(ge=0), MeasuredIn("1")] = 0.5
    """a; 0.5 is the value of FedBuff and of SAFL."""
    offset: Literal[0, 1] = 1
    """Added to tau. 0 is SAFL's equation 2, tau^-a with s(0) = 1: an update that is one version old counts in full; not
    the default, since SAFL's algorithm 4 and its experiments have 1."""

    @property
    def is_constant(self) -> bool:
        """Where a is 0."""
        return self.exponent == 0

    def weight(self, staleness: NDArray[np.int64]) -> NDArray[np.float64]:
        """(offset + tau)^-a, and 1 at tau = 0; see `Staleness.weight`."""
        return np.asarray(np.power(np.maximum(1.0, self.offset + staleness), -self.exponent))


class HingeStaleness(Staleness):
    """1 up to tau = b, then 1 / (a (tau - b) + 1). Source: Xie, Koyejo, Gupta 2019, adaptive mixing."""

    kind: Literal["hinge"] = "hinge"
    slope: Annotated[float, Field(gt=0), MeasuredIn("1")] = 10.0
    """a: how fast an update loses weight with each version beyond b."""
    grace: Annotated[int, Field(ge=0), MeasuredIn("versions")] = 4
    """b: versions an update may be old without losing weight."""

    def weight(self, staleness: NDArray[np.int64]) -> NDArray[np.float64]:
        """1 / (a max(0, tau - b) + 1), see `Staleness.weight`."""
        return 1.0 / (self.slope * np.maximum(0, staleness - self.grace) + 1.0)


class ExponentialStaleness(Staleness):
    """e^(-a tau). Source: ours."""

    kind: Literal["exponential"] = "exponential"
    rate: Annotated[float, Field(gt=0), MeasuredIn("1 per version")] = 0.2
    """a, per version."""

    def weight(self, staleness: NDArray[np.int64]) -> NDArray[np.float64]:
        """e^(-a tau), see `Staleness.weight`."""
        return np.asarray(np.exp(-self.rate * staleness))


def staleness_weights(function: Staleness, staleness: NDArray[np.int64]) -> NDArray[np.float64]:
    """(n_updates,) what `function` makes of these ages, finite and >= 0. Raises ComponentError otherwise."""
    return numbers(function, "weight", function.weight(staleness), staleness.shape, finite=True, at_least=0)


if TYPE_CHECKING:
    AnyStaleness = Staleness
else:
    AnyStaleness: Any = choice(Staleness, ConstantStaleness, PolynomialStaleness, HingeStaleness, ExponentialStaleness)
