"""Bounds from canaries in the ledger of the audited run.

A one-run audit bounds the largest epsilon among the clients that hold canaries, without saying which client has it. The
bound is therefore entered for the client among them with the largest epsilon in the ledger, and for the published
models, whose row belongs to the worst client. It was measured on the run with canaries, which has the scheme and the
settings of the audited run. It bounds a row only if the row's neighbouring relation includes that of the canaries, and
if it was measured at the row's delta or a larger one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from asyncfl.audit.canaries import CanaryAudit
from asyncfl.federation.storage import Run
from asyncfl.privacy.ledger.audit_columns import Row, with_measured, without_measured
from asyncfl.privacy.ledger.statements import statements


def enter_bounds(run: Run, audit: CanaryAudit) -> int:
    """Enter each bound into the worst ledger row that it covers, and update the privacy statements.

    Changes `run` in memory; nothing is written to disk. Bounds of an earlier canary audit of the same seeds are
    replaced.

    Returns:
        The number of ledger rows that this audit bounded.
    """
    ledger: pa.Table = run.tables["ledger"]
    for seed in dict.fromkeys(audit.found["seed"].to_pylist()):
        ledger = without_measured(ledger, seed, "canaries")
    bounds = dict(_bounds(ledger, audit))
    run.tables |= {"ledger": with_measured(ledger, bounds, by="canaries")}
    run.summary["privacy"] = statements(run.tables["ledger"])
    return len(bounds)


def _bounds(ledger: pa.Table, audit: CanaryAudit) -> Iterator[tuple[Row, float]]:
    """Yield the ledger row that each measured epsilon bounds, and this epsilon."""
    rows: list[dict[str, Any]] = ledger.to_pylist()
    owners = set(zip(audit.scores["seed"].to_pylist(), audit.scores["client"].to_pylist(), strict=True))
    for found in audit.found.to_pylist():
        if not found["held"] or not found["most"]:
            continue  # nothing could be measured: no bound, rather than a bound of 0
        for holder in ("client", "model"):
            own = [
                row
                for row in rows
                if (row["seed"], row["adversary"], row["holder"]) == (found["seed"], found["adversary"], holder)
                and (holder == "model" or (row["seed"], row["client"]) in owners)
                and _covers(row, found)
            ]
            if own:
                worst = max(own, key=lambda row: (row["provable"], row["exact_epsilon"], -row["client"]))
                yield (worst["seed"], holder, worst["client"], worst["adversary"]), found["measured"]


def _covers(row: dict[str, Any], bound: dict[str, Any]) -> bool:
    """Return whether a bound from canaries is valid for a row of the ledger.

    It must have been measured at the row's delta or a larger one, and the row's neighbouring relation must include that
    of the canaries.

    Args:
        row: Row of the ledger.
        bound: Row of the canary audit, with the columns `asyncfl.audit.canaries.FOUND`.
    """
    if bound["delta"] < row["delta"]:
        return False
    if bound["unit"] == "client":
        return bool(row["unit"] != "sample")
    return bool(row["neighbours"] != "zero_out")
