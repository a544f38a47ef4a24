"""What a paper says, as checks that can be judged on measured values.

A claim names a `value` (see `VALUE`), the axis it speaks about, and what the source states in words (`says`). Where the
experiment has further axes, the claim must be true at each of their combinations, unless `where` fixes them. How
verdicts are reached: `asyncfl.analysis.checks`.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from asyncfl.component import Described

VALUE = re.compile(
    r"^(?:best (?P<axis>\S+) of )?"
    r"(?:(?P<when>final|mean|lowest|highest|fluctuation)|round (?P<round>\d+)) (?P<column>\w+)$"
)
"""`final train_loss`, `mean test_accuracy` (over rounds), `lowest train_loss`, `fluctuation test_accuracy` (see
`asyncfl.analysis.grid`), `round 14 train_loss`, or `best protocol.rounds of final train_loss`: the axis value at which
the rest is best."""


class ClaimBase(Described):
    """What all claims have."""

    says: str
    """What the source states, in our words."""
    value: str = "final train_loss"
    """Which number is judged: `final train_loss`, `mean ...`, `round 14 ...`, `best <axis> of final ...`."""
    where: dict[str, Any] = Field(default_factory=dict)
    """Axis -> value (or list of values) that the claim is restricted to."""
    goal: Literal["low", "high"] | None = None
    """Whether low or high values are good; None: high for accuracies and shares, else low."""
    log: bool = False
    """Judged on the logarithm of the value, for losses that range over decades: differences are ratios then, and a
    margin is a logarithm."""
    bound: str | None = None
    """Judged on this entry of `bounds` instead of runs."""
    absolute: bool = False
    """The claim is about absolute numbers, so it is judged on the original data sets only."""
    expected: Literal["holds", "fails"] = "holds"
    """What we expect of it before running; shown beside the verdict, never an input to it."""
    why: str = ""
    """Why a claim that does not hold does not hold: shown in the table of claims."""

    @field_validator("value")
    @classmethod
    def _is_value(cls, value: str) -> str:
        if not VALUE.match(value):
            raise ValueError(
                "must be 'final|mean|lowest|highest|fluctuation <column>', 'round <n> <column>' or "
                "'best <axis> of final <column>'"
            )
        return value

    @property
    def column(self) -> str:
        """Measured column that the value is made of."""
        match = VALUE.match(self.value)
        assert match is not None
        return match["column"]

    @property
    def low_is_good(self) -> bool:
        """Whether smaller is better."""
        if self.goal is not None:
            return self.goal == "low"
        return not any(word in self.column for word in ("accuracy", "share", "precision", "recall"))

    @property
    def axes_named(self) -> list[tuple[str, str]]:
        """(field of the claim, axis it names), for checking them against the experiment."""
        named = [("where", axis) for axis in self.where]
        match = VALUE.match(self.value)
        if match is not None and match["axis"]:
            named.append(("value", match["axis"]))
        along = getattr(self, "along", None)
        return named if along is None else [*named, ("along", along)]

    @property
    def values_named(self) -> list[tuple[str, str, Any]]:
        """(field of the claim, axis, value of it that the claim needs)."""
        return [
            ("where", axis, value)
            for axis, wanted in self.where.items()
            for value in (wanted if isinstance(wanted, list | tuple) else [wanted])
        ]


class Order(ClaimBase):
    """The value falls (or rises) from each point of an axis to the next."""

    check: Literal["order"] = "order"
    along: str
    """The axis, in the order of its list."""
    direction: Literal["falls", "rises"] = "falls"
    strict: bool = True
    """False: neighbours may tie, only the two ends must differ and no neighbours in the wrong direction."""


class BestAt(ClaimBase):
    """The value is best at one point of an axis."""

    check: Literal["best_at"] = "best_at"
    along: str
    at: Any
    """The point that beats every other."""

    @property
    def values_named(self) -> list[tuple[str, str, Any]]:
        return [*super().values_named, ("at", self.along, self.at)]


class InteriorBest(ClaimBase):
    """Some point inside an axis beats both of its ends."""

    check: Literal["interior_best"] = "interior_best"
    along: str


class Crossover(ClaimBase):
    """The curve of `early` is better before the given rounds, that of `late` after them."""

    check: Literal["crossover"] = "crossover"
    along: str
    early: Any
    """Axis value that is ahead at first."""
    late: Any
    """Axis value that is ahead afterwards."""
    rounds: tuple[int, int]
    """The crossing lies between these two rounds."""

    @property
    def values_named(self) -> list[tuple[str, str, Any]]:
        return [*super().values_named, ("early", self.along, self.early), ("late", self.along, self.late)]


class AtLeast(ClaimBase):
    """The value reaches a threshold (with `goal: low`: stays at or below it)."""

    check: Literal["at_least"] = "at_least"
    threshold: float


class Near(ClaimBase):
    """The value is what the source measured, within a tolerance."""

    check: Literal["near"] = "near"
    target: float
    """The source's number."""
    tolerance: float = Field(gt=0)
    """How far from it the mean may be, in units of the value."""


class PairClaim(ClaimBase):
    """What claims that compare two points of an axis have."""

    along: str
    at: Any
    """The point that the claim is about."""
    than: Any
    """The point it is compared with."""

    @property
    def values_named(self) -> list[tuple[str, str, Any]]:
        return [*super().values_named, ("at", self.along, self.at), ("than", self.along, self.than)]


class NoWorse(PairClaim):
    """`at` is not worse than `than` by more than a margin."""

    check: Literal["no_worse"] = "no_worse"
    margin: float = Field(default=0.0, ge=0)
    """Loss of quality that is still accepted, in units of the value."""


class Alike(PairClaim):
    """`at` and `than` differ by no more than a margin, either way."""

    check: Literal["alike"] = "alike"
    margin: float = Field(gt=0)
    """Difference that still counts as alike, in units of the value."""


class Times(PairClaim):
    """`at` is better than `than` by a factor."""

    check: Literal["times"] = "times"
    factor: float = Field(gt=0)
    """How many times better: a value to be low is divided by this, one to be high multiplied. 1 asks for better at all,
    which a tie is not."""
    log: Literal[True] = True
    """Ratios are differences of logarithms."""


Claim = Annotated[
    Order | BestAt | InteriorBest | Crossover | AtLeast | Near | NoWorse | Alike | Times, Field(discriminator="check")
]
