"""Epsilon of a list of releases by all accountants."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from asyncfl.privacy.accounting.basic import basic_and_advanced
from asyncfl.privacy.accounting.events import MechanismEvent, Neighbours
from asyncfl.privacy.accounting.exact import smallest_epsilon
from asyncfl.privacy.accounting.renyi import renyi_epsilon

Accountant = Literal["basic", "advanced", "rdp", "exact"]
ACCOUNTANTS: tuple[Accountant, ...] = ("basic", "advanced", "rdp", "exact")


@dataclass(frozen=True, slots=True)
class Epsilons:
    """Epsilon of the same releases at the same delta by each accountant; infinite if a release has no noise."""

    basic: float
    """Sum of the epsilons of single releases."""
    advanced: float
    """Advanced composition of single releases."""
    rdp: float | None
    """Renyi accounting; None if it has no bound."""
    exact: float
    """Smallest valid epsilon: exact for Gaussian releases, by privacy loss distributions for others."""


def epsilons_of(events: Iterable[MechanismEvent], delta: float, neighbours: Neighbours = "add_remove") -> Epsilons:
    """Compute the epsilon of all `events` together by each accountant.

    Multipliers are relative to the contribution of one record, see `events.for_neighbours`; `delta` 0..1, exclusive.
    """
    listed = tuple(events)
    basic, advanced = basic_and_advanced(listed, delta, neighbours)
    rdp = renyi_epsilon(listed, delta, neighbours)
    return Epsilons(basic, advanced, rdp, smallest_epsilon(listed, delta, neighbours))


def epsilon_by(
    accountant: Accountant, events: Iterable[MechanismEvent], delta: float, neighbours: Neighbours = "add_remove"
) -> float | None:
    """Compute the epsilon of all `events` together by one accountant; None if it has no bound."""
    if accountant in ("basic", "advanced"):
        return basic_and_advanced(events, delta, neighbours)[accountant == "advanced"]
    if accountant == "rdp":
        return renyi_epsilon(events, delta, neighbours)
    return smallest_epsilon(events, delta, neighbours)


def notes(sampled: bool, neighbours: Neighbours = "add_remove") -> list[str]:
    """Return sentences on the conditions of these epsilons, and on missing bounds; none unless a release is
    `sampled`."""
    if not sampled:
        return []
    found = [
        "a sampling rate counts only where each record enters a release by itself with that probability, in secret; "
        "cohorts of a fixed size, and draws that the adversary sees, are not amplified"
    ]
    if neighbours == "replace":
        found.append("Renyi accounting has no bound for a replaced record in a Poisson sample")
    return found
