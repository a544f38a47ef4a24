"""What an audit found, written into a ledger: the column `measured`, and what follows for status and claim."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from asyncfl.privacy.ledger.tables import claim_holds

Row = tuple[int, str, int, str]
"""Seed, holder (`client` or `model`), number of the client (-1: the models), adversary."""


def with_measured(ledger: pa.Table, epsilons: Mapping[Row, float], disproved: frozenset[Row] = frozenset()) -> pa.Table:
    """`ledger` with the epsilons that an audit proved from below, and `claim_holds` anew; other rows as they were.

    `epsilons`: row -> lower bound, >= 0. `disproved`: rows whose assumed sensitivity the audit broke by an example; a
    heuristic status becomes `disproved`. Raises KeyError for a row that the ledger has not, ValueError for a proven row
    among the `disproved`: then the proof, or its code, is wrong.
    """
    columns: dict[str, list[Any]] = {name: ledger[name].to_pylist() for name in ledger.column_names}
    keys = zip(columns["seed"], columns["holder"], columns["client"], columns["adversary"], strict=True)
    places: dict[Row, int] = {key: place for place, key in enumerate(keys)}
    for row, epsilon in epsilons.items():
        columns["measured"][places[row]] = epsilon
    for row in disproved:
        place = places[row]
        if columns["status"][place] == "proven":
            raise ValueError(f"the sensitivity of {row} is proven, and an audit broke it")
        if columns["status"][place] == "heuristic":
            columns["status"][place] = "disproved"

    return _written(ledger, columns)


def without_measured(ledger: pa.Table, seed: int) -> pa.Table:
    """`ledger` as the run left it in `seed`, before any audit: nothing is measured or disproved there."""
    columns: dict[str, list[Any]] = {name: ledger[name].to_pylist() for name in ledger.column_names}
    for place in (place for place, own in enumerate(columns["seed"]) if own == seed):
        columns["measured"][place] = None
        if columns["status"][place] == "disproved":
            columns["status"][place] = "heuristic"
    return _written(ledger, columns)


def _written(ledger: pa.Table, columns: Mapping[str, list[Any]]) -> pa.Table:
    """A table of `columns`, with `claim_holds` anew."""

    def numbers(name: str) -> np.ndarray[Any, np.dtype[np.float64]]:
        return np.array([np.nan if value is None else value for value in columns[name]], dtype=np.float64)

    status = np.array(columns["status"], dtype=object)
    holds = claim_holds(
        status, numbers("claimed_epsilon"), numbers("provable"), numbers("exact_epsilon"), numbers("measured")
    ).tolist()
    columns = {**columns, "claim_holds": holds}
    return pa.table({name: pa.array(values, ledger.schema.field(name).type) for name, values in columns.items()})
