"""A run's ledger in sentences: one privacy statement for each adversary, about all of its clients."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from asyncfl.privacy.flags import HEURISTIC, INVALID, NO_NOISE, UNCOVERED
from asyncfl.privacy.ledger.audit_columns import AUDITS, column_of

RESTS_ON = {
    "proven": "from the noised releases alone",
    "heuristic": "with a sensitivity that is plausible but not proven",
    "disproved": "with a sensitivity that an audit of this run disproved",
    "invalid": "with the true sensitivity, not the one that the noise is calibrated to",
    "none": "without a stated sensitivity",
}
"""Status of a row -> what its exact epsilon rests on if it is not proven, from the best to the worst."""
NEIGHBOURS = {
    ("sample", "replace"): "one sample replaced",
    ("client", "replace"): "all data of one client replaced",
    ("client", "zero_out"): "the updates of one client counted as zero",
}

Row = dict[str, Any]


def statements(ledger: pa.Table) -> list[str]:
    """Return one sentence for each adversary, with the largest epsilons of its clients over all seeds; empty if nothing
    is claimed."""
    every = [row | {"measured": row["measured"] or 0.0} for row in ledger.to_pylist() if row["status"] != "none"]
    clients = [row for row in every if row["holder"] == "client"]
    if clients and all(
        math.isinf(row["claimed_epsilon"]) and (row["exact_epsilon"] == 0 or _bare(row)) for row in every
    ):
        return ["no noise hides what clients send: epsilon is infinite"]
    found = []
    for who in dict.fromkeys(row["adversary"] for row in clients):
        held = [row for row in every if row["adversary"] == who]
        models = [row for row in held if row["holder"] == "model"]
        found.append("; ".join(_parts(who, [row for row in held if row["holder"] == "client"], models)))
    return found


def _bare(row: Row) -> bool:
    """Return whether something was released without noise."""
    return NO_NOISE in row["flags"].split("; ")


def _known(row: Row) -> float:
    """Return the largest epsilon that can refute a claim: an infinite one only if it is not for lack of a bound."""
    exact: float = row["exact_epsilon"]
    return max(exact if math.isfinite(exact) or _bare(row) else 0.0, float(row["measured"]))


def _parts(who: str, rows: Sequence[Row], models: Sequence[Row]) -> Iterator[str]:
    """Yield the parts between semicolons: epsilon, a failing claim about models, flags, and trusted parties."""
    flags = list(dict.fromkeys(flag for row in rows for flag in row["flags"].split("; ") if flag))
    learns = any(max(row["provable"], row["measured"], row["exact_epsilon"]) > 0 for row in rows)
    if learns:
        yield f"{who}: {_of_clients(rows)}"
    else:
        # Only flags of releases that epsilons do not include can remain.
        flags = [flag for flag in flags if flag in UNCOVERED]
        yield f"{who}: " + ("holds no update of any client" if flags else "learns nothing about any client")
    # What is claimed for models is not said of who is sent bare uploads, such as a trusted server, or learns nothing.
    is_about_models = learns and not any(map(_bare, rows))
    claims = [row for row in models if not math.isinf(row["claimed_epsilon"]) and row["claim_holds"] is not True]
    if claims and is_about_models:
        model = max(claims, key=lambda row: (row["claim_holds"] is False, _known(row)))
        holds = "does not hold: epsilon is " + _number(_known(model))
        if model["claim_holds"] is None:
            # The budget may be so large that a smaller epsilon is proven, which the claim does not follow from.
            follows = model["provable"] <= model["claimed_epsilon"]
            holds = "has no proof of its own" if follows else "is not proven"
        yield f"the {model['claimed_epsilon']:.4g} claimed for published models {holds}"
    # The status shows the first two of these, an infinite epsilon the third.
    if flags := [flag for flag in flags if flag not in (HEURISTIC, INVALID, NO_NOISE)]:
        yield f"flagged: {', '.join(flags)}"
    yield f"trusted: {rows[0]['trusts'] or 'none'}"


def _of_clients(rows: Sequence[Row]) -> str:
    names = ("claimed_epsilon", "provable", "exact_epsilon", "measured")
    claimed, provable, exact, measured = (max(row[name] for row in rows) for name in names)
    status = max((row["status"] for row in rows), key=list(RESTS_ON).index)
    beside = []
    if not math.isinf(claimed):
        beside.append(_claim(rows, claimed))
    if not math.isinf(exact) and (status != "proven" or provable != exact):
        beside.append(f"{_number(exact)} {RESTS_ON[status]}")
    if any(map(_bare, rows)) or math.isinf(measured):
        opening = "epsilon is infinite, without any protection,"
    else:
        if measured > 0:
            by = [audit for audit in AUDITS if any(row[column_of(audit)] == measured for row in rows)]
            beside.append(f"measured by {' and '.join(by)} at least {measured:.4g}")
        if math.isinf(exact):
            opening = "no bound on epsilon is known"
        elif math.isinf(provable):
            opening = "no epsilon is proven"
        elif (largest_known := max(measured, exact)) > provable * (1 + 1e-9):
            opening = f"epsilon at least {largest_known:.4g}, although {provable:.4g} counts as proven,"
        else:
            opening = f"epsilon {provable:.4g}, proven,"
    first = rows[0]
    hidden = NEIGHBOURS.get((first["unit"], first["neighbours"]), f"{first['unit']}: {first['neighbours']}")
    about = f"at delta {first['delta']:g} for {hidden}"
    return f"{opening} {about}" + (f" ({', '.join(beside)})" if beside else "")


def _claim(rows: Sequence[Row], claimed: float) -> str:
    """Return what is claimed, and for what: a claim about one upload says nothing of several."""
    most = max(rows, key=lambda row: row.get("naive_epsilon") or 0.0)
    uploads = most.get("releases") or 0
    if most.get("assumed_releases") == 1 and uploads > 1:
        return f"claimed {claimed:.4g} per upload; {uploads} uploads: {_number(most['naive_epsilon'])} by adding up"
    broken = any(row["claim_holds"] is False for row in rows)
    return f"the claimed {claimed:.4g} does not hold" if broken else f"claimed {claimed:.4g}"


def _number(epsilon: float) -> str:
    return "infinite" if math.isinf(epsilon) else f"{epsilon:.4g}"
