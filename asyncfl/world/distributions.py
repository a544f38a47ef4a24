"""Distributions of non-negative quantities. The field that holds a distribution gives the unit.

Where a scenario takes an `Amount`, a plain number stands for a constant. Each distribution scales standard draws
(U ~ U(0, 1), E ~ Exp(1), Z ~ N(0, 1)), so that two scenarios that differ only in a parameter use the same random
numbers.

The *residual* of a period is its remaining length at an arbitrary moment: a uniform share of a period whose density is
proportional to x f(x), because a random moment falls into long periods more often (Cox, Renewal Theory, 1962, section
5). Alternating periods that start with residuals are stationary from time 0.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, model_validator
from pydantic_core import PydanticCustomError

from asyncfl.base.arrays import Floats
from asyncfl.base.component import Component, choice
from asyncfl.base.errors import shortened
from asyncfl.base.quantities import MeasuredIn, is_number

Finite = Annotated[float, Field(ge=0, allow_inf_nan=False)]


def check_order(component: Component, low: str, high: str) -> None:
    """Raise a validation error unless the value of field `low` is at most that of field `high`."""
    least, most = getattr(component, low), getattr(component, high)
    if least > most:
        raise PydanticCustomError("order", "{rule}", {"rule": f"{low} must be <= {high} ({most:g}), got {least:g}"})


class Distribution(Component):
    """Base class of the distributions of a non-negative quantity."""

    logged: ClassVar[tuple[str, ...]] = ("rounds.time_s",)

    @property
    def is_constant(self) -> bool:
        """Whether each draw equals the expected value, so that nothing has to be drawn."""
        return False

    @abstractmethod
    def draw(self, rng: np.random.Generator, size: int) -> Floats:
        """Draw independent values, (size,) float64, each >= 0."""

    @abstractmethod
    def expected(self) -> float:
        """Return the expected value, which may be infinite."""

    @abstractmethod
    def length_biased(self, rng: np.random.Generator, size: int) -> Floats:
        """Draw values with density proportional to x f(x), (size,) float64. The mean must be finite and positive."""

    def draw_one(self, rng: np.random.Generator) -> float:
        """Draw a single value."""
        return float(self.draw(rng, 1)[0])

    def residual(self, rng: np.random.Generator, size: int) -> Floats:
        """Draw the remaining lengths of periods at an arbitrary moment, (size,) float64."""
        return rng.random(size) * self.length_biased(rng, size)


class Fixed(Distribution):
    """A constant; in a scenario, a plain number."""

    kind: Literal["fixed"] = "fixed"
    value: Annotated[float, Field(ge=0, examples=[0.05]), MeasuredIn("that of the field")]
    """The constant. Infinite only where the field allows it."""

    @property
    def is_constant(self) -> bool:
        return True

    def draw(self, rng: np.random.Generator, size: int) -> Floats:
        return np.full(size, self.value)

    def draw_one(self, rng: np.random.Generator) -> float:
        return self.value

    def expected(self) -> float:
        return self.value

    def length_biased(self, rng: np.random.Generator, size: int) -> Floats:
        return np.full(size, self.value)


class Uniform(Distribution):
    """Uniform distribution between two values."""

    kind: Literal["uniform"] = "uniform"
    low: Annotated[Finite, MeasuredIn("that of the field"), Field(examples=[0.02])]
    """Smallest value."""
    high: Annotated[Finite, MeasuredIn("that of the field"), Field(examples=[0.08])]
    """Largest value."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        check_order(self, "low", "high")
        return self

    def draw(self, rng: np.random.Generator, size: int) -> Floats:
        return self.low + (self.high - self.low) * rng.random(size)

    def expected(self) -> float:
        return (self.low + self.high) / 2

    def length_biased(self, rng: np.random.Generator, size: int) -> Floats:
        """Draw by the inverse of the distribution function `(x^2 - low^2) / (high^2 - low^2)`."""
        squares: Floats = self.low**2 + (self.high**2 - self.low**2) * rng.random(size)
        return np.sqrt(squares)


class Exponential(Distribution):
    """Exponential distribution above a minimum."""

    kind: Literal["exponential"] = "exponential"
    mean: Annotated[Finite, MeasuredIn("that of the field"), Field(examples=[0.05])]
    """Mean, including the minimum."""
    minimum: Annotated[Finite, MeasuredIn("that of the field")] = 0.0
    """Smallest value."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        check_order(self, "minimum", "mean")
        return self

    def draw(self, rng: np.random.Generator, size: int) -> Floats:
        return self.minimum + (self.mean - self.minimum) * rng.standard_exponential(size)

    def draw_one(self, rng: np.random.Generator) -> float:
        return self.minimum + (self.mean - self.minimum) * rng.standard_exponential()

    def expected(self) -> float:
        return self.mean

    def length_biased(self, rng: np.random.Generator, size: int) -> Floats:
        """Draw `minimum` plus an exponential with probability `minimum / mean`, else plus a Gamma(2) value."""
        scale = self.mean - self.minimum
        twice = rng.random(size) * self.mean >= self.minimum
        first, second = rng.standard_exponential(size), rng.standard_exponential(size)
        return self.minimum + scale * (first + twice * second)


class Lognormal(Distribution):
    """Lognormal distribution: the logarithm is normal."""

    kind: Literal["lognormal"] = "lognormal"
    median: Annotated[Finite, MeasuredIn("that of the field"), Field(examples=[0.05])]
    """Median of the values."""
    sigma: Annotated[float, Field(ge=0, le=10, examples=[0.5]), MeasuredIn("1")]
    """Standard deviation of the natural logarithm, 0..10."""

    def draw(self, rng: np.random.Generator, size: int) -> Floats:
        return self.median * np.exp(self.sigma * rng.standard_normal(size))

    def draw_one(self, rng: np.random.Generator) -> float:
        return self.median * math.exp(self.sigma * rng.standard_normal())

    def expected(self) -> float:
        return self.median * math.exp(self.sigma**2 / 2)

    def length_biased(self, rng: np.random.Generator, size: int) -> Floats:
        """Draw from a lognormal whose median is larger by the factor `exp(sigma^2)`."""
        return self.median * np.exp(self.sigma * rng.standard_normal(size) + self.sigma**2)


class Pareto(Distribution):
    """Pareto distribution, with a heavy tail: P(X > x) = (minimum / x)^alpha."""

    kind: Literal["pareto"] = "pareto"
    minimum: Annotated[Finite, MeasuredIn("that of the field"), Field(examples=[0.02])]
    """Smallest value."""
    alpha: Annotated[float, Field(ge=0.1, allow_inf_nan=False, examples=[1.5]), MeasuredIn("1")]
    """Tail index, >= 0.1; the mean is finite above 1, the variance above 2."""

    def draw(self, rng: np.random.Generator, size: int) -> Floats:
        return self.minimum * np.exp(rng.standard_exponential(size) / self.alpha)

    def expected(self) -> float:
        return self.minimum * self.alpha / (self.alpha - 1) if self.alpha > 1 else math.inf

    def length_biased(self, rng: np.random.Generator, size: int) -> Floats:
        """Draw from a Pareto with index `alpha - 1`."""
        return self.minimum * np.exp(rng.standard_exponential(size) / (self.alpha - 1))


class Listed(Distribution):
    """Values listed client by client; in a scenario, a plain list."""

    kind: Literal["listed"] = "listed"
    values: Annotated[
        tuple[Annotated[float, Field(ge=0)], ...],
        Field(min_length=1, examples=[[0.02, 0.05, 0.3]]),
        MeasuredIn("that of the field"),
    ]
    """Value of client 0, 1, 2, ... Further clients start over at the first value. Infinite only where the field allows
    it."""

    def draw(self, rng: np.random.Generator, size: int) -> Floats:
        return np.resize(np.array(self.values, dtype=np.float64), size)

    def expected(self) -> float:
        return math.fsum(self.values) / len(self.values)

    def length_biased(self, rng: np.random.Generator, size: int) -> Floats:
        values = np.array(self.values, dtype=np.float64)
        return np.asarray(rng.choice(values, size, p=values / values.sum()))


def _from_number(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return {"kind": "listed", "values": value}
    if isinstance(value, int | float) and not isinstance(value, bool):
        return {"kind": "fixed", "value": value}
    if isinstance(value, str) and value.lstrip("+-.")[:1].isdigit():  # in quotes, or a unit is written behind it
        how = "without quotes" if is_number(value) else "alone"
        told = "must be a number {how}, in the unit of the field, or a mapping with a kind, got {value}"
        raise PydanticCustomError("amount", told, {"how": how, "value": shortened(repr(value))})
    return value


def _to_number(value: Distribution) -> Any:
    if isinstance(value, Listed):
        return list(value.values)
    return value.value if isinstance(value, Fixed) else value.model_dump(mode="json")


def _finite(value: Distribution) -> Distribution:
    values = value.values if isinstance(value, Listed) else (value.value,) if isinstance(value, Fixed) else ()
    if any(map(math.isinf, values)):
        raise PydanticCustomError("amount", "must be finite, got inf")
    return value


def _positive(value: Distribution) -> Distribution:
    if isinstance(value, Listed) and min(value.values) == 0:
        raise PydanticCustomError("amount", "must be > 0 for each client, got 0")
    if not value.expected() > 0:
        mean = {"mean": value.expected()}
        raise PydanticCustomError("amount", "must be > 0, got a distribution with mean {mean}", mean)
    return value


def _recurrent(value: Distribution) -> Distribution:
    if math.isinf(value.expected()):
        raise PydanticCustomError(
            "amount", "must have a finite mean: no long-run share exists otherwise; give pareto an alpha > 1"
        )
    return value


if TYPE_CHECKING:
    AnyDistribution = Distribution
    Amount = Distribution
    PositiveAmount = Distribution
    ClientAmount = Distribution
    ClientRate = Distribution
    Period = Distribution
else:
    AnyDistribution: Any = choice(Distribution, Fixed, Uniform, Exponential, Lognormal, Pareto)
    _Plain: Any = Annotated[float, Field(ge=0)]
    _NumberOr: Any = Annotated[
        AnyDistribution,
        BeforeValidator(_from_number, json_schema_input_type=_Plain | AnyDistribution),
        PlainSerializer(_to_number),
    ]
    Amount: Any = Annotated[_NumberOr, AfterValidator(_finite)]
    PositiveAmount: Any = Annotated[Amount, AfterValidator(_positive)]
    _Listed: Any = choice(Distribution, Fixed, Uniform, Exponential, Lognormal, Pareto, Listed)
    _PerClient: Any = Annotated[
        _Listed,
        BeforeValidator(_from_number, json_schema_input_type=_Plain | list[_Plain] | _Listed),
        PlainSerializer(_to_number),
    ]
    ClientAmount: Any = Annotated[_PerClient, AfterValidator(_finite)]
    ClientRate: Any = Annotated[_PerClient, AfterValidator(_positive)]
    Period: Any = Annotated[PositiveAmount, AfterValidator(_recurrent)]
