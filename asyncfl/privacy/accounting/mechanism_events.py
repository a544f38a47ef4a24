"""Lists of releases as events of equal releases, and their notation as text.

A multiplier is the noise's scale over the sensitivity: standard deviation over L2 for Gaussian, b over L1 for Laplace
noise. Text: `gaussian:1.1x10`, ten releases with multiplier 1.1; `gaussian:2@0.01x1000`, a thousand, each on a secret
Poisson sample of 1 %; `laplace:5x3`; `pure:0.5`, one release that is only known to be 0.5-private.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from asyncfl.privacy.accounting.gaussian import squared_mu_of

MechanismName = Literal["gaussian", "laplace", "pure"]
MECHANISMS: tuple[MechanismName, ...] = ("gaussian", "laplace", "pure")

SMALLEST, LARGEST = 1e-9, 1e9
"""Range of multipliers, and of epsilons of `pure`, in text. Outside of it epsilon is practically 0 or infinite."""
MOST_RELEASES = 10**9

Neighbours = Literal["add_remove", "replace"]
"""Neighbouring relation: one record added or removed | one record replaced, which moves a sum of clipped records twice
as far."""


@dataclass(frozen=True, slots=True, order=True)
class MechanismEvent:
    """Equal releases of the same data."""

    mechanism: MechanismName
    parameter: float
    """Noise multiplier, >= 0 (0: no noise, infinite: reveals nothing); for `pure` the epsilon of one release, >= 0."""
    count: int = 1  # number of releases, >= 0
    rate: float = 1.0
    """Probability with which a record enters each release by itself, 0..1, sampled in secret; Gaussian only. Cohorts of
    a fixed size are not such samples."""
    replaced: bool = False  # whether neighbours differ by a replaced record; of sampled releases, see `for_neighbours`

    @property
    def unbounded(self) -> bool:
        """Whether epsilon is infinite: there are releases, without noise."""
        return self.count > 0 and self.rate > 0 and self.epsilon == math.inf

    @property
    def silent(self) -> bool:
        """Whether epsilon is 0: no release, infinite noise, or a sampling rate of 0."""
        return self.count == 0 or self.rate == 0 or self.epsilon == 0

    @property
    def epsilon(self) -> float:
        """Pure epsilon of one release before sampling; for Gaussian noise 0 or infinite at the ends, otherwise NaN."""
        if self.mechanism == "pure":
            return self.parameter
        if self.parameter == 0:
            return math.inf
        if math.isinf(self.parameter):
            return 0.0
        return 1 / self.parameter if self.mechanism == "laplace" else math.nan

    @property
    def squared_mu(self) -> float:
        """Sum of z^-2 over unsampled Gaussian releases; meaningless for others."""
        return squared_mu_of(self.parameter, self.count)

    def __str__(self) -> str:
        rate = "" if self.rate == 1 else f"@{self.rate:g}"
        return f"{self.mechanism}:{self.parameter:g}{rate}x{self.count}"


_WRITTEN = re.compile(r"(?P<mechanism>[a-z]+):(?P<parameter>[^@x:]+)(?:@(?P<rate>[^@x:]+))?(?:x(?P<count>[^@x:]+))?")


def parse_event(text: str) -> MechanismEvent:
    """Parse the text of an event, see the module's header. Raises ValueError that says what is wrong."""
    found = _WRITTEN.fullmatch(text)
    if found is None:
        raise ValueError(f"must be mechanism:multiplier[@rate][xcount], such as gaussian:1.1x10, got {text!r}")
    mechanism = next((known for known in MECHANISMS if known == found["mechanism"]), None)
    if mechanism is None:
        raise ValueError(f"mechanism must be one of {', '.join(MECHANISMS)}, got {found['mechanism']!r}")
    parameter = _number(found["parameter"])
    if not (SMALLEST <= parameter <= LARGEST):
        what = "epsilon" if mechanism == "pure" else "multiplier"
        raise ValueError(f"{what} must be {SMALLEST:g}..{LARGEST:g}, got {found['parameter']!r}")
    rate = 1.0 if found["rate"] is None else _number(found["rate"])
    if not (0 < rate <= 1):
        raise ValueError(f"sampling rate must be greater than 0 and at most 1, got {found['rate']!r}")
    if rate < 1 and mechanism != "gaussian":
        raise ValueError(f"a sampling rate is accounted for with gaussian releases only, got {mechanism}")
    count = 1.0 if found["count"] is None else _number(found["count"])
    if not (1 <= count <= MOST_RELEASES and count.is_integer()):
        raise ValueError(f"number of releases must be a whole number in 1..{MOST_RELEASES}, got {found['count']!r}")
    return MechanismEvent(mechanism, parameter, int(count), rate)


def _number(digits: str) -> float:
    try:
        return float(digits)
    except ValueError:
        raise ValueError(f"{digits!r} is no number") from None


def merge_equal_events(events: Iterable[MechanismEvent]) -> tuple[MechanismEvent, ...]:
    """Return the same releases in a canonical order, with equal ones merged and silent ones removed."""
    counts: Counter[MechanismEvent] = Counter()
    for event in events:
        if not event.silent:
            counts[replace(event, count=0)] += event.count
    return tuple(replace(one, count=counts[one]) for one in sorted(counts))


def for_neighbours(events: Iterable[MechanismEvent], neighbours: Neighbours) -> tuple[MechanismEvent, ...]:
    """Convert multipliers relative to one record's contribution into ones relative to the neighbours' difference: a
    replaced record moves the result twice as far. Sampled releases keep theirs, because their accountants know the
    relation, and a `pure` release is stated for the given relation."""

    def moved(event: MechanismEvent) -> MechanismEvent:
        if neighbours == "add_remove" or event.mechanism == "pure":
            return event
        return replace(event, parameter=event.parameter / 2) if event.rate == 1 else replace(event, replaced=True)

    return tuple(map(moved, events))
