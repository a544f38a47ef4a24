"""Covering arrays: few settings out of many, in which every combination of any few factors occurs.

A covering array of strength t has a row for each combination of the levels of any t factors; a product has one for each
combination of all of them. Rows are found greedily (Cohen, Dalal, Fredman, Patton 1997): each begins with the first
combination that is missing and is completed by the levels that cover most of the others, without chance.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, product
from typing import Annotated, Any

from pydantic import Field

from asyncfl.base.component import Described

Parts = dict[tuple[tuple[int, int], ...], None]
"""(factor, level) of some factors, ascending; in the order of the search."""


class CoveredFactors(Described):
    """An axis whose values are settings of several factors: not all of them, but all of any few together."""

    factors: Annotated[dict[str, dict[str, dict[str, Any]]], Field(min_length=2)]
    """Factor -> level -> dotted fields that change together. A setting is called by its levels: `IID, 40 %, sync`."""
    strength: Annotated[int, Field(ge=1, le=4)] = 2
    """Factors of which each combination of levels occurs in some setting; as many as there are: all combinations."""

    def settings(self) -> dict[str, dict[str, Any]]:
        """Return the name of each setting -> dotted fields that it changes, the same every time."""
        levels = [list(of.items()) for of in self.factors.values()]
        found = {}
        for row in covering_array([len(of) for of in levels], min(self.strength, len(levels))):
            chosen = [of[level] for of, level in zip(levels, row, strict=True)]
            name = ", ".join(label for label, _ in chosen)
            found[name] = {field: value for _, changes in chosen for field, value in changes.items()}
        return found

    def doubled(self) -> Iterator[tuple[str, str, str]]:
        """Yield (field, factor, other factor) of each field that two factors change, so that one would undo the
        other."""
        fields = {name: {field for of in levels.values() for field in of} for name, levels in self.factors.items()}
        for one, other in combinations(fields, 2):
            yield from ((field, one, other) for field in sorted(fields[one] & fields[other]))


def covering_array(levels: Sequence[int], strength: int) -> list[tuple[int, ...]]:
    """Return rows of levels in which each combination of the levels of any `strength` factors occurs.

    `levels`: number of levels of each factor, >= 1. Raises ValueError for a strength that is not 1..factors.
    """
    if not 1 <= strength <= len(levels):
        raise ValueError(f"strength must be 1..{len(levels)}, the factors, got {strength}")
    missing: Parts = {}
    for factors in combinations(range(len(levels)), strength):
        for chosen in product(*(range(levels[factor]) for factor in factors)):
            missing[tuple(zip(factors, chosen, strict=True))] = None
    used = [[0] * number for number in levels]
    rows: list[tuple[int, ...]] = []
    while missing:
        row = dict(next(iter(missing)))
        for factor in range(len(levels)):
            if factor not in row:
                gains = [_gain({**row, factor: level}, factor, strength, missing) for level in range(levels[factor])]
                # Of equally good levels the one that was used least, then the first.
                row[factor] = min(range(levels[factor]), key=lambda level: (-gains[level], used[factor][level]))
        for part in combinations(sorted(row.items()), strength):
            missing.pop(part, None)
        for factor, level in row.items():
            used[factor][level] += 1
        rows.append(tuple(level for _, level in sorted(row.items())))
    return rows


def _gain(row: dict[int, int], factor: int, strength: int, missing: Parts) -> int:
    """Return the number of missing combinations with `factor` in a row that may be incomplete."""
    others = [item for item in sorted(row.items()) if item[0] != factor]
    new = (factor, row[factor])
    return sum(tuple(sorted((*part, new))) in missing for part in combinations(others, strength - 1))
