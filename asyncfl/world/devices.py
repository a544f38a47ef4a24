"""Speed of the clients' devices: seconds to train on one sample for one epoch.

A task takes `samples x epochs x s_per_sample x jitter` seconds. The seconds per sample are drawn once per client, the
jitter once per task: some clients are always slow, and every client is sometimes slow.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from asyncfl.base.arrays import Floats
from asyncfl.base.component import Component, choice
from asyncfl.base.quantities import MeasuredIn
from asyncfl.world.distributions import (
    Exponential,
    Fixed,
    Listed,
    Lognormal,
    Pareto,
    PositiveAmount,
    Uniform,
    check_order,
)
from asyncfl.world.profiles import MeasuredColumn, RowOrder, read_profile, rows_of

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Device(Component):
    """Base class of the distributions of computing speed over clients."""

    logged: ClassVar[tuple[str, ...]] = ("rounds.time_s", "events.training_started", "events.trained")

    jitter: PositiveAmount = Fixed(value=1.0)
    """Factor on the computing time of each task, dimensionless: a number or a distribution. Choose a mean of 1."""

    @property
    def files(self) -> tuple[str, ...]:
        """Paths of the files that the speeds are read from. The digest of a run covers their contents."""
        return ()

    @abstractmethod
    def draw(self, clients: int, rng: np.random.Generator) -> Floats:
        """Draw the seconds per sample and epoch of each client, (clients,) float64, >= 0.

        Raises DataError for a damaged file.
        """


class FixedDevice(Device):
    """Equally fast devices."""

    kind: Literal["fixed"] = "fixed"
    s_per_sample: Seconds = 0.001
    """Seconds per sample and epoch, > 0."""

    def draw(self, clients: int, rng: np.random.Generator) -> Floats:
        return Fixed(value=self.s_per_sample).draw(rng, clients)


class UniformDevice(Device):
    """Uniformly distributed seconds per sample."""

    kind: Literal["uniform"] = "uniform"
    low_s_per_sample: Annotated[Seconds, Field(examples=[0.001])]
    """Seconds per sample of the fastest device, > 0."""
    high_s_per_sample: Annotated[Seconds, Field(examples=[0.004])]
    """Seconds per sample of the slowest device."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        check_order(self, "low_s_per_sample", "high_s_per_sample")
        return self

    def draw(self, clients: int, rng: np.random.Generator) -> Floats:
        return Uniform(low=self.low_s_per_sample, high=self.high_s_per_sample).draw(rng, clients)


class ExponentialDevice(Device):
    """Exponentially distributed seconds per sample above a minimum."""

    kind: Literal["exponential"] = "exponential"
    mean_s_per_sample: Annotated[Seconds, Field(examples=[0.002])]
    """Mean seconds per sample, including the minimum, > 0."""
    minimum_s_per_sample: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """Seconds per sample of the fastest device."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        check_order(self, "minimum_s_per_sample", "mean_s_per_sample")
        return self

    def draw(self, clients: int, rng: np.random.Generator) -> Floats:
        return Exponential(mean=self.mean_s_per_sample, minimum=self.minimum_s_per_sample).draw(rng, clients)


class LognormalDevice(Device):
    """Lognormally distributed seconds per sample, the usual shape of measured device populations."""

    kind: Literal["lognormal"] = "lognormal"
    median_s_per_sample: Annotated[Seconds, Field(examples=[0.002])]
    """Seconds per sample of the median device, > 0."""
    sigma: Annotated[float, Field(ge=0, le=10, examples=[0.5]), MeasuredIn("1")]
    """Standard deviation of the natural logarithm, 0..10; 0 makes all devices equal."""

    def draw(self, clients: int, rng: np.random.Generator) -> Floats:
        return Lognormal(median=self.median_s_per_sample, sigma=self.sigma).draw(rng, clients)


class ParetoDevice(Device):
    """Pareto distributed seconds per sample: a heavy tail of very slow devices."""

    kind: Literal["pareto"] = "pareto"
    minimum_s_per_sample: Annotated[Seconds, Field(examples=[0.001])]
    """Seconds per sample of the fastest device, > 0."""
    alpha: Annotated[float, Field(ge=0.1, allow_inf_nan=False, examples=[1.5]), MeasuredIn("1")]
    """Tail index, >= 0.1. A smaller index means a heavier tail of stragglers."""

    def draw(self, clients: int, rng: np.random.Generator) -> Floats:
        return Pareto(minimum=self.minimum_s_per_sample, alpha=self.alpha).draw(rng, clients)


class CsvDevice(Device):
    """Measured seconds per sample from a CSV file."""

    kind: Literal["csv"] = "csv"
    path: Annotated[str, Field(examples=["devices.csv"])]
    """The file: a header line, then one row per device. Looked for in the working directory, beside the scenario, and
    on PYTHONPATH."""
    column: str = "s_per_sample"
    """Column with the seconds per sample, each > 0."""
    unit_s: Annotated[float, Field(gt=0, allow_inf_nan=False), MeasuredIn("s")] = 1.0
    """Seconds that 1 in the column stands for: 0.001 for a column in milliseconds."""
    separator: Annotated[str, Field(min_length=1, max_length=1)] = ","
    """Character between values, such as `;` or a tab (`"\t"`)."""
    decimal: Annotated[str, Field(min_length=1, max_length=1)] = "."
    """Decimal sign, such as `,`."""
    rows: RowOrder = "drawn"
    """Assignment of rows to clients: `drawn` at random with replacement, or `in_order`."""

    @property
    def files(self) -> tuple[str, ...]:
        return (self.path,)

    def draw(self, clients: int, rng: np.random.Generator) -> Floats:
        columns = (MeasuredColumn(self.column, positive=True),)
        found = read_profile(self.path, columns, "world.device.path", self.separator, self.decimal)
        measured = self.unit_s * found[self.column]
        return measured[rows_of(clients, len(measured), self.rows, rng)]


class ListedDevice(Device):
    """Seconds per sample listed client by client."""

    kind: Literal["listed"] = "listed"
    s_per_sample: Annotated[tuple[Seconds, ...], Field(min_length=1, examples=[[0.001, 0.002, 0.005]])]
    """Seconds per sample of client 0, 1, 2, ..., each > 0. Further clients start over at the first value."""

    def draw(self, clients: int, rng: np.random.Generator) -> Floats:
        return Listed(values=self.s_per_sample).draw(rng, clients)


if TYPE_CHECKING:
    AnyDevice = Device
else:
    AnyDevice: Any = choice(
        Device, FixedDevice, UniformDevice, ExponentialDevice, LognormalDevice, ParetoDevice, ListedDevice, CsvDevice
    )
