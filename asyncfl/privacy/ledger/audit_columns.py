"""Audit results in a ledger: one column per audit, their maximum (`measured`), and the consequences for the claim."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from asyncfl.privacy.ledger.rows import claim_holds

Row = tuple[int, str, int, str]
"""Seed, holder (`client` or `model`), client number (-1: the models), adversary."""
Audit = Literal["twins", "canaries"]
AUDITS: tuple[Audit, ...] = ("twins", "canaries")


def with_measured(
    ledger: pa.Table, epsilons: Mapping[Row, float], disproved: frozenset[Row] = frozenset(), by: Audit = "twins"
) -> pa.Table:
    """Return `ledger` with the lower bounds on epsilon from an audit and with `claim_holds` updated.

    `epsilons`: row -> lower bound, >= 0. `disproved`: rows whose assumed sensitivity the audit refuted by an example.
    Raises KeyError for an unknown row, and ValueError for a proven row in `disproved`.
    """
    columns: dict[str, list[Any]] = {name: ledger[name].to_pylist() for name in ledger.column_names}
    keys = zip(columns["seed"], columns["holder"], columns["client"], columns["adversary"], strict=True)
    places: dict[Row, int] = {key: place for place, key in enumerate(keys)}
    for row, epsilon in epsilons.items():
        columns[column_of(by)][places[row]] = epsilon
    for row in disproved:
        place = places[row]
        if columns["status"][place] == "proven":
            raise ValueError(f"the sensitivity of {row} is proven, but an audit found a counterexample")
        if columns["status"][place] == "heuristic":
            columns["status"][place] = "disproved"
    return _written(ledger, columns)


def without_measured(ledger: pa.Table, seed: int, by: Audit = "twins") -> pa.Table:
    """Return `ledger` without the results of one kind of audit of `seed`, and without what only twins can disprove."""
    columns: dict[str, list[Any]] = {name: ledger[name].to_pylist() for name in ledger.column_names}
    for place, own in enumerate(columns["seed"]):
        if own != seed:
            continue
        columns[column_of(by)][place] = None
        if by == "twins" and columns["status"][place] == "disproved":
            columns["status"][place] = "heuristic"
    return _written(ledger, columns)


def column_of(audit: Audit) -> str:
    return f"measured_by_{audit}"


def _written(ledger: pa.Table, columns: Mapping[str, list[Any]]) -> pa.Table:
    """Return a table of `columns` with `measured` and `claim_holds` updated."""

    def numbers(name: str) -> np.ndarray[Any, np.dtype[np.float64]]:
        return np.array([np.nan if value is None else value for value in columns[name]], dtype=np.float64)

    found = np.fmax.reduce([numbers(column_of(audit)) for audit in AUDITS])
    status, flags = (np.array(columns[name], dtype=object) for name in ("status", "flags"))
    claimed, provable, exact = map(numbers, ("claimed_epsilon", "provable", "exact_epsilon"))
    columns = {
        **columns,
        "measured": [None if np.isnan(value) else value for value in found.tolist()],
        "claim_holds": claim_holds(status, claimed, provable, exact, flags, found).tolist(),
    }
    return pa.table({name: pa.array(values, ledger.schema.field(name).type) for name, values in columns.items()})
