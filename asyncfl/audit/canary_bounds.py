"""What canaries found, in the ledger of the audited run.

What a one-run audit shows is a bound on the largest epsilon of those whose canaries it counts, and does not say whose
that is. So it stands with the client, of those, of whom the ledger knows worst, and with the published models, whose
row is of the client that fares worst. It holds for the run with canaries, which has the scheme and the settings of the
audited one: so it does for neighbours that the row's neighbours include, at the row's delta or a larger one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from asyncfl.audit.canaries import CanaryAudit
from asyncfl.privacy.ledger.audit_columns import Row, with_measured, without_measured
from asyncfl.privacy.ledger.statements import statements
from asyncfl.storage import Run


def write_bounds(run: Run, audit: CanaryAudit) -> int:
    """Put the bounds into the run's ledger, in place of those of an earlier audit with canaries of the same seeds, and
    what follows into its statements; nothing is written to disk. Returns how many rows are measured by canaries."""
    ledger: pa.Table = run.tables["ledger"]
    for seed in dict.fromkeys(audit.found["seed"].to_pylist()):
        ledger = without_measured(ledger, seed, "canaries")
    bounds = dict(_bounds(ledger, audit))
    run.tables |= {"ledger": with_measured(ledger, bounds, by="canaries")}
    run.summary["privacy"] = statements(run.tables["ledger"])
    return len(bounds)


def _bounds(ledger: pa.Table, audit: CanaryAudit) -> Iterator[tuple[Row, float]]:
    rows: list[dict[str, Any]] = ledger.to_pylist()
    owners = set(zip(audit.scores["seed"].to_pylist(), audit.scores["client"].to_pylist(), strict=True))
    for found in audit.found.to_pylist():
        if not found["held"] or not found["most"]:
            continue  # nothing could be measured, which is no bound of 0
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


def _covers(row: dict[str, Any], found: dict[str, Any]) -> bool:
    """Whether what canaries differ in is a neighbour in the sense of a row, at a delta that bounds the row's."""
    if found["delta"] < row["delta"]:
        return False
    if found["unit"] == "client":
        return bool(row["unit"] != "sample")
    return bool(row["neighbours"] != "zero_out")
