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
    rows = ledger.to_pylist()
    named = {(row["seed"], row["holder"], row["client"], row["adversary"]): row for row in rows}
    for key, epsilon in epsilons.items():
        named[key][column_of(by)] = epsilon
    for key in disproved:
        if named[key]["status"] == "proven":
            raise ValueError(f"the sensitivity of {key} is proven, but an audit found a counterexample")
        if named[key]["status"] == "heuristic":
            named[key]["status"] = "disproved"
    return _judged(rows, ledger.schema)


def without_measured(ledger: pa.Table, seed: int, by: Audit = "twins") -> pa.Table:
    """Return `ledger` without the results of one kind of audit of `seed`, and without what only twins can disprove."""
    rows = ledger.to_pylist()
    for row in rows:
        if row["seed"] == seed:
            row[column_of(by)] = None
            if by == "twins" and row["status"] == "disproved":
                row["status"] = "heuristic"
    return _judged(rows, ledger.schema)


def column_of(audit: Audit) -> str:
    return f"measured_by_{audit}"


def _judged(rows: list[dict[str, Any]], schema: pa.Schema) -> pa.Table:
    """Return a table of `rows` with `measured` and `claim_holds` updated."""
    for row in rows:
        found = [row[column_of(audit)] for audit in AUDITS]
        row["measured"] = max((one for one in found if one is not None), default=None)
    of = {name: np.array([row[name] for row in rows], dtype=object) for name in schema.names}
    claimed, provable, exact, measured = (
        of[name].astype(np.float64) for name in ("claimed_epsilon", "provable", "exact_epsilon", "measured")
    )
    held = claim_holds(of["status"], claimed, provable, exact, of["flags"], measured)
    for row, holds in zip(rows, held.tolist(), strict=True):
        row["claim_holds"] = holds
    return pa.Table.from_pylist(rows, schema=schema)
