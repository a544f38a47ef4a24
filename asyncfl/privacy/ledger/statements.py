"""A run's ledger in sentences, one for each adversary, as a privacy statement has them.

Whom it is about and what is to be hidden, delta and epsilon, what that rests on, and whom it trusts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

RESTS_ON = {
    "proven": "proven",
    "heuristic": "by a sensitivity that is argued for, not proven",
    "disproved": "by a sensitivity that an audit of this run disproved",
    "invalid": "by the true sensitivity, not the one that the noise is for",
    "none": "nothing is stated",
}
NEIGHBOURS = {
    ("sample", "replace"): "one sample replaced",
    ("client", "replace"): "all data of one client replaced",
    ("client", "zero_out"): "the updates of one client counted as zero",
}


def statements(ledger: pa.Table) -> list[str]:
    """One sentence for each adversary: the client, of all seeds, that it knows most of."""
    rows = [row for row in ledger.to_pylist() if row["holder"] == "client"]
    return [_sentence(who, [row for row in rows if row["adversary"] == who]) for who in _in_order(rows)]


def _in_order(rows: Sequence[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(row["adversary"] for row in rows))


def _sentence(who: str, rows: Sequence[dict[str, Any]]) -> str:
    worst = max(rows, key=lambda row: row["exact_epsilon"])
    trusts = f"trusting {worst['trusts']}" if worst["trusts"] else "trusting nobody"
    if worst["exact_epsilon"] == 0:
        return f"{who}: learns nothing of any client ({trusts})"
    whom = f"of client {worst['client']}"
    if math.isinf(worst["exact_epsilon"]):
        return f"{who}: what it holds {whom} hides nothing, epsilon is infinite ({trusts})"
    hidden = NEIGHBOURS.get((worst["unit"], worst["neighbours"]), f"{worst['unit']}: {worst['neighbours']}")
    others = [] if math.isinf(worst["claimed_epsilon"]) else [f"claimed {worst['claimed_epsilon']:.4g}"]
    if worst["status"] != "proven" or worst["provable"] != worst["exact_epsilon"]:
        provable = "nothing" if math.isinf(worst["provable"]) else f"{worst['provable']:.4g}"
        others.append(f"provable {provable}")
    measured = [row["measured"] for row in rows if row["measured"] is not None]
    if measured:
        others.append(f"measured at least {max(measured):.4g}")
    beside = f" ({', '.join(others)})" if others else ""
    return (
        f"{who}: epsilon {worst['exact_epsilon']:.4g}{beside} at delta {worst['delta']:g} for {hidden}, {whom}, "
        f"{RESTS_ON[worst['status']]}; {trusts}"
    )
