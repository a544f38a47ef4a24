"""Speed of the clients' devices: seconds to train on one sample for one epoch.

A task takes `samples x epochs x seconds per sample of this client x jitter of this task`. The seconds per sample are
drawn once per client, the jitter once per task, so some clients are always slow and every client is sometimes slow.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from asyncfl.component import Component, choice
from asyncfl.quantities import MeasuredIn
from asyncfl.world.distributions import (
    Exponential,
    Fixed,
    Listed,
    Lognormal,
    Pareto,
    PositiveAmount,
    Uniform,
)
from asyncfl.world.profiles import MeasuredColumn, RowOrder, read_profile, rows_of

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Device(Component):
    """Base of the devices."""

    logged: ClassVar[tuple[str, ...]] = (
        "rounds.time_s",
        "events.training_started",
        "events.trained",
    )

    jitter: PositiveAmount = Fixed(value=1.0)
    """Factor on the computing time of each task: a number or a distribution, dimensionless; choose a mean of 1."""

    @property
    def files(self) -> tuple[str, ...]:
        """Files that the speeds are read from; the name of a run covers what is in them."""
        return ()

    @abstractmethod
    def draw(self, clients: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Seconds per sample and epoch of each client, (clients,) float64, >= 0.

        Raises DataError where they come from a file and the file is damaged.
        """
        raise NotImplementedError


class FixedDevice(Device):
    """All devices are equally fast."""

    kind: Literal["fixed"] = "fixed"
    s_per_sample: Seconds = 0.001
    """Seconds per sample and epoch, > 0."""

    def draw(self, clients: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """The same for all."""
        return Fixed(value=self.s_per_sample).draw(rng, clients)


class UniformDevice(Device):
    """Speeds spread evenly between two."""

    kind: Literal["uniform"] = "uniform"
    low_s_per_sample: Annotated[Seconds, Field(examples=[0.001])]
    """Seconds per sample of the fastest device, > 0."""
    high_s_per_sample: Annotated[Seconds, Field(examples=[0.004])]
    """Seconds per sample of the slowest device."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        low, high = self.low_s_per_sample, self.high_s_per_sample
        _check(low <= high, f"low_s_per_sample must be <= high_s_per_sample ({high:g}), got {low:g}")
        return self

    def draw(self, clients: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Uniform between the fastest and the slowest."""
        return Uniform(low=self.low_s_per_sample, high=self.high_s_per_sample).draw(rng, clients)


class ExponentialDevice(Device):
    """A common fastest device, and exponentially rarer slower ones."""

    kind: Literal["exponential"] = "exponential"
    mean_s_per_sample: Annotated[Seconds, Field(examples=[0.002])]
    """Mean seconds per sample, the minimum included, > 0."""
    minimum_s_per_sample: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """Seconds per sample of the fastest device."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        minimum, mean = self.minimum_s_per_sample, self.mean_s_per_sample
        _check(minimum <= mean, f"minimum_s_per_sample must be <= mean_s_per_sample ({mean:g}), got {minimum:g}")
        return self

    def draw(self, clients: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Exponential above the minimum."""
        spread = Exponential(mean=self.mean_s_per_sample, minimum=self.minimum_s_per_sample)
        return spread.draw(rng, clients)


class LognormalDevice(Device):
    """Lognormal speeds: the usual shape of measured device populations."""

    kind: Literal["lognormal"] = "lognormal"
    median_s_per_sample: Annotated[Seconds, Field(examples=[0.002])]
    """Seconds per sample of the median device, > 0."""
    sigma: Annotated[float, Field(ge=0, le=10, examples=[0.5]), MeasuredIn("1")]
    """Standard deviation of the natural logarithm, 0..10; 0 makes all devices equal."""

    def draw(self, clients: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Lognormal about the median."""
        return Lognormal(median=self.median_s_per_sample, sigma=self.sigma).draw(rng, clients)


class ParetoDevice(Device):
    """A heavy tail of very slow devices."""

    kind: Literal["pareto"] = "pareto"
    minimum_s_per_sample: Annotated[Seconds, Field(examples=[0.001])]
    """Seconds per sample of the fastest device, > 0."""
    alpha: Annotated[float, Field(ge=0.1, allow_inf_nan=False, examples=[1.5]), MeasuredIn("1")]
    """Tail index, >= 0.1: smaller means a heavier tail of stragglers."""

    def draw(self, clients: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Pareto above the fastest."""
        return Pareto(minimum=self.minimum_s_per_sample, alpha=self.alpha).draw(rng, clients)


class CsvDevice(Device):
    """Measured devices from a CSV file."""

    kind: Literal["csv"] = "csv"
    path: Annotated[str, Field(examples=["devices.csv"])]
    """The file: a header line, one row per device."""
    column: str = "s_per_sample"
    """Column with the seconds per sample, each > 0."""
    rows: RowOrder = "drawn"
    """Which row a client has: `drawn` at random with replacement, or `in_order`."""

    @property
    def files(self) -> tuple[str, ...]:
        """The one file."""
        return (self.path,)

    def draw(self, clients: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """The measured values of the clients' rows."""
        measured = read_profile(self.path, (MeasuredColumn(self.column, positive=True),))[self.column]
        return measured[rows_of(clients, len(measured), self.rows, rng)]


class ListedDevice(Device):
    """Each client's own speed, as it was measured."""

    kind: Literal["listed"] = "listed"
    s_per_sample: Annotated[tuple[Seconds, ...], Field(min_length=1, examples=[[0.001, 0.002, 0.005]])]
    """Seconds per sample of client 0, 1, 2, ..., each > 0; further clients start over."""

    def draw(self, clients: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """The values in their order."""
        return Listed(values=self.s_per_sample).draw(rng, clients)


def _check(ordered: bool, rule: str) -> None:
    if not ordered:
        raise PydanticCustomError("device", "{rule}", {"rule": rule})


if TYPE_CHECKING:
    AnyDevice = Device
else:
    AnyDevice: Any = choice(
        Device, FixedDevice, UniformDevice, ExponentialDevice, LognormalDevice, ParetoDevice, ListedDevice, CsvDevice
    )
