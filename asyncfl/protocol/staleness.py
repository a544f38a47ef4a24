"""Staleness functions: the weight of an update that was trained from an old version.

Staleness tau is the number of versions published between the version that a client was sent and the version to which
its update is applied; a fresh update has tau = 0. Sources: Xie, Koyejo, Gupta 2019 (FedAsync), Nguyen et al. 2022
(FedBuff).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from asyncfl.base.answers import numbers
from asyncfl.base.component import Component, choice
from asyncfl.base.quantities import MeasuredIn


class Staleness(Component):
    """Base class of staleness functions. Subclasses implement `weight`."""

    logged: ClassVar[tuple[str, ...]] = ("rounds.staleness_mean", "rounds.staleness_max", "events.aggregated")
    one_of: ClassVar[tuple[str, ...]] = ("weight",)

    @property
    def is_constant(self) -> bool:
        """Whether the weight is 1 at any staleness."""
        return False

    def weight(self, staleness: NDArray[np.int64]) -> NDArray[np.float64]:
        """Compute the weight of updates that are `staleness` versions old. `staleness`: (n_updates,) integers >= 0.
        Returns (n_updates,) float64 in 0..1, 1 at staleness 0."""
        raise NotImplementedError


class ConstantStaleness(Staleness):
    """Weight 1: a stale update counts as much as a fresh one. Source: Xie, Koyejo, Gupta 2019, adaptive mixing."""

    kind: Literal["constant"] = "constant"

    @property
    def is_constant(self) -> bool:
        return True

    def weight(self, staleness: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.ones(len(staleness))


class PolynomialStaleness(Staleness):
    """Weight (1 + tau)^-a. Source: Xie, Koyejo, Gupta 2019, adaptive mixing; SAFL, equation 2."""

    kind: Literal["polynomial"] = "polynomial"
    exponent: Annotated[float, Field(ge=0, allow_inf_nan=False), MeasuredIn("1")] = 0.5
    """a; FedBuff and SAFL use 0.5."""
    offset: Literal[0, 1] = 1
    """Number added to tau. 0 is SAFL's equation 2, tau^-a with s(0) = 1, where an update that is one version old has
    weight 1. The default is 1, as in SAFL's algorithm 4 and experiments."""

    @property
    def is_constant(self) -> bool:
        return self.exponent == 0

    def weight(self, staleness: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.asarray(np.power(np.maximum(1.0, self.offset + staleness), -self.exponent))


class HingeStaleness(Staleness):
    """Weight 1 up to tau = b, then 1 / (a (tau - b) + 1). Source: Xie, Koyejo, Gupta 2019, adaptive mixing."""

    kind: Literal["hinge"] = "hinge"
    slope: Annotated[float, Field(gt=0, allow_inf_nan=False), MeasuredIn("1")] = 10.0
    """a: loss of weight per version beyond b."""
    grace: Annotated[int, Field(ge=0), MeasuredIn("versions")] = 4
    """b: greatest staleness with weight 1."""

    def weight(self, staleness: NDArray[np.int64]) -> NDArray[np.float64]:
        return 1.0 / (self.slope * np.maximum(0, staleness - self.grace) + 1.0)


class DelayAdaptiveStaleness(Staleness):
    """Weight 1 up to tau = b, then b / tau.

    With the learning rate 1 / (4 L b), L the smoothness of the loss, these are the steps min(1 / (4 L b), 1 /
    (4 L tau)) of asynchronous SGD whose rate adapts to delays; b is its concurrency, the number of tasks in flight.
    Source: Koloskova, Stich and Jaggi 2022.
    """

    kind: Literal["delay_adaptive"] = "delay_adaptive"
    concurrency: Annotated[int, Field(ge=1), MeasuredIn("versions")] = 10
    """b: greatest staleness with weight 1; `in_flight` of a FedAsync server."""

    def weight(self, staleness: NDArray[np.int64]) -> NDArray[np.float64]:
        return self.concurrency / np.maximum(self.concurrency, staleness)


class ExponentialStaleness(Staleness):
    """Weight e^(-a tau). Source: ours."""

    kind: Literal["exponential"] = "exponential"
    rate: Annotated[float, Field(gt=0, allow_inf_nan=False), MeasuredIn("1 per version")] = 0.2
    """a, per version."""

    def weight(self, staleness: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.asarray(np.exp(-self.rate * staleness))


def staleness_weights(function: Staleness, staleness: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the (n_updates,) weights that `function` gives to these staleness values. Raises: ComponentError if a
    weight is negative or not finite."""
    return numbers(function, "weight", function.weight(staleness), staleness.shape, finite=True, at_least=0)


if TYPE_CHECKING:
    AnyStaleness = Staleness
else:
    AnyStaleness: Any = choice(
        Staleness,
        ConstantStaleness,
        PolynomialStaleness,
        HingeStaleness,
        DelayAdaptiveStaleness,
        ExponentialStaleness,
    )
