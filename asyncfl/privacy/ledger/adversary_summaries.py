"""A run's ledger by adversary: its most exposed client, and the epsilons over all clients."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from asyncfl.privacy.ledger.statements import NEIGHBOURS

Row = dict[str, Any]

EPSILONS = {"proven": "provable", "exact": "exact_epsilon", "measured": "measured", "claimed": "claimed_epsilon"}
"""Name of an epsilon in a summary -> column of the ledger."""
DECILES = tuple(range(0, 101, 10))
"""Percentages of clients at which a distribution is given: 0 is the smallest epsilon, 100 the largest."""


@dataclass(frozen=True)
class AdversarySummary:
    """The rows of one adversary about clients, or about models, of one or more seeds.

    Each epsilon is the largest of the rows; None: no row has one. An infinite claim claims nothing and is None. Numbers
    that an earlier version of the program did not write are None.
    """

    adversary: str
    trusts: str
    clients: int  # rows: a client counts once in each seed
    seed: int  # seed and number of the most exposed client, see `most_exposed`
    client: int
    releases: int | None  # of the most exposed client
    median_releases: float | None
    proven: float | None
    exact: float | None
    measured: float | None
    claimed: float | None
    covers: int | None  # releases that the largest claim is made for; None: nothing is claimed, or not known
    least_exact: float | None
    median_exact: float | None
    infinite: float  # share of the clients with an infinite exact epsilon, 0..1
    broken: int  # clients whose claim does not hold
    flags: dict[str, int]  # flag -> number of clients with it


def client_rows(ledger: pa.Table, seed: int | None = None) -> list[Row]:
    """Return the rows about clients as mappings, of all seeds or one; values that are not known are None."""
    return _rows(ledger.filter(pc.greater_equal(ledger["client"], 0)), seed)


def model_rows(ledger: pa.Table, seed: int | None = None) -> list[Row]:
    """Return the rows about published models for which an epsilon is claimed, of all seeds or one."""
    return [row for row in _rows(ledger.filter(pc.less(ledger["client"], 0)), seed) if claim_of(row) is not None]


def adversaries_of(rows: Sequence[Row]) -> list[str]:
    """Return the adversaries that have rows, in the order of the ledger."""
    return list(dict.fromkeys(row["adversary"] for row in rows))


def summaries(rows: Sequence[Row]) -> list[AdversarySummary]:
    """Return one summary for each adversary of `rows`."""
    return [_summary(name, [row for row in rows if row["adversary"] == name]) for name in adversaries_of(rows)]


def most_exposed(rows: Sequence[Row], number: int | None = None) -> list[Row]:
    """Return `number` rows (None: all) by exact epsilon, largest first.

    Of equal ones the larger proven epsilon, then the larger measured one, then more releases come first; then the
    order of `rows` remains.
    """

    def exposure(row: Row) -> tuple[float, ...]:
        found = (row["exact_epsilon"], row["provable"], row["measured"], row["releases"])
        return tuple(-1.0 if value is None else float(value) for value in found)

    return sorted(rows, key=exposure, reverse=True)[:number]


def deciles(rows: Sequence[Row], name: str) -> list[float] | None:
    """Return the quantiles at `DECILES` of an epsilon (a key of `EPSILONS`) over rows; None: no row has one.

    Between two clients quantiles are interpolated, as NumPy does; next to an infinite epsilon they are infinite.
    """
    values = sorted(row[EPSILONS[name]] for row in rows if row[EPSILONS[name]] is not None)
    return [_quantile(values, percent / 100) for percent in DECILES] if values else None


def claim_of(row: Row) -> float | None:
    """Return the epsilon that a row's scheme claims; None where it claims none."""
    claimed: float | None = row["claimed_epsilon"]
    return None if claimed is None or math.isinf(claimed) else claimed


def conventions(rows: Sequence[Row]) -> list[str]:
    """Return sentences: delta, and the data in which neighbouring data sets differ, of all epsilons in `rows`."""
    found: dict[str, list[str]] = {}
    for row in rows:
        if row["status"] == "none" or row["delta"] is None:
            continue
        key = row["unit"], row["neighbours"]
        differ = NEIGHBOURS.get(key, ": ".join(map(str, key)))
        found.setdefault(f"delta {row['delta']:g} for {differ}", []).append(row["adversary"])
    if len(found) == 1:
        return [f"Epsilons are at {next(iter(found))}."]
    return [f"Epsilons of {', '.join(dict.fromkeys(names))} are at {text}." for text, names in found.items()]


def coalition_notes(rows: Sequence[Row]) -> list[str]:
    """Return a sentence that says why the coalition's epsilon is below that of the public, where it is."""
    curious, public = (
        {(row["seed"], row["client"]): row for row in rows if row["adversary"] == name}
        for name in ("curious", "public")
    )
    if not curious or not public:
        return []
    below = [key for key, row in curious.items() if key in public and _exact(row) < _exact(public[key]) * (1 - 1e-9)]
    if below:
        return [
            f"curious is below public for {len(below)} of {len(curious)} clients: a coalition holds the models that "
            "its members were sent, public holds all versions."
        ]
    worst = most_exposed([*public.values()], 1)[0]
    if max(map(_exact, curious.values())) < _exact(worst) * (1 - 1e-9):
        return [
            f"curious is below public: the client of which public knows most, {worst['client']}, is a member of the "
            "coalition, and members have no row."
        ]
    return []


def _rows(ledger: pa.Table, seed: int | None) -> list[Row]:
    if seed is not None:
        ledger = ledger.filter(pc.equal(ledger["seed"], seed))
    rows: list[Row] = ledger.to_pylist()
    for row in rows:
        for name, value in row.items():
            # A column that an earlier version did not write is NaN.
            if isinstance(value, float) and math.isnan(value):
                row[name] = None
    return rows


def _summary(name: str, rows: Sequence[Row]) -> AdversarySummary:
    worst = most_exposed(rows, 1)[0]
    exact = [row["exact_epsilon"] for row in rows if row["exact_epsilon"] is not None]
    claims = [row for row in rows if claim_of(row) is not None]
    largest = max(claims, key=lambda row: row["claimed_epsilon"], default=None)
    epsilons = {
        key: max((row[column] for row in rows if row[column] is not None), default=None)
        for key, column in EPSILONS.items()
    }
    return AdversarySummary(
        adversary=name,
        trusts=worst["trusts"],
        clients=len(rows),
        seed=worst["seed"],
        client=worst["client"],
        releases=worst["releases"],
        median_releases=_median([row["releases"] for row in rows]),
        **epsilons | {"claimed": None if largest is None else largest["claimed_epsilon"]},
        covers=None if largest is None else largest["assumed_releases"],
        least_exact=min(exact, default=None),
        median_exact=_median(exact),
        infinite=sum(map(math.isinf, exact)) / len(rows),
        broken=sum(row["claim_holds"] is False for row in rows),
        flags=dict(Counter(flag for row in rows for flag in flags_of_row(row))),
    )


def flags_of_row(row: Row) -> list[str]:
    """Return the flags of a row, see `asyncfl.privacy.flags`."""
    return list(filter(None, (row["flags"] or "").split("; ")))


def _exact(row: Row) -> float:
    return 0.0 if row["exact_epsilon"] is None else float(row["exact_epsilon"])


def _median(values: Sequence[float | None]) -> float | None:
    known = sorted(value for value in values if value is not None)
    return float(_quantile(known, 0.5)) if known else None


def _quantile(values: Sequence[float], share: float) -> float:
    """Return the linearly interpolated quantile of sorted values, which may be infinite."""
    place = share * (len(values) - 1)
    low, high = values[math.floor(place)], values[math.ceil(place)]
    return low if low == high else low + (place - math.floor(place)) * (high - low)
