"""A run's ledger in sentences: one privacy statement for each adversary."""

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
    """Return one sentence for each adversary, about its worst client over all seeds (largest proven, then measured,
    then exact epsilon); empty if nothing is claimed."""
    every = [_judged(row) for row in ledger.to_pylist() if row["status"] != "none"]
    clients = [row for row in every if row["holder"] == "client"]
    if clients and all(
        math.isinf(row["claimed_epsilon"]) and (row["exact_epsilon"] == 0 or row["bare"]) for row in every
    ):
        return ["no noise hides what clients send: epsilon is infinite"]
    several = len({row["seed"] for row in clients}) > 1
    found = []
    for who in dict.fromkeys(row["adversary"] for row in clients):
        held = [row for row in every if row["adversary"] == who]
        models = [row for row in held if row["holder"] == "model"]
        found.append("; ".join(_parts(who, [row for row in held if row["holder"] == "client"], models, several)))
    return found


def _judged(row: Row) -> Row:
    """Return the row with `bare`, whether something was released without noise; `finite`, the exact epsilon, or 0 if it
    is infinite for lack of a bound; `measured` as a number; and `known`, the largest epsilon that can refute a
    claim."""
    bare = NO_NOISE in row["flags"].split("; ")
    finite = row["exact_epsilon"] if math.isfinite(row["exact_epsilon"]) or bare else 0.0
    measured = row["measured"] or 0.0
    return {**row, "bare": bare, "finite": finite, "measured": measured, "known": max(finite, measured)}


def _parts(who: str, rows: Sequence[Row], models: Sequence[Row], several: bool) -> Iterator[str]:
    """Yield the parts between semicolons: epsilon, a failing claim about models, flags, and trusted parties."""
    worst = max(rows, key=lambda row: _alike(row, "provable", "bare", "measured", "exact_epsilon"))
    flags = list(dict.fromkeys(flag for row in rows for flag in row["flags"].split("; ") if flag))
    if max(worst["provable"], worst["measured"], worst["exact_epsilon"]) == 0:
        # Only flags of releases that epsilons do not include can remain.
        flags = [flag for flag in flags if flag in UNCOVERED]
        yield f"{who}: " + ("holds no update of any client" if flags else "learns nothing about any client")
    else:
        yield f"{who}: {_of_clients(worst, rows, several)}"
    claims = [row for row in models if not math.isinf(row["claimed_epsilon"]) and row["claim_holds"] is not True]
    if claims:
        model = max(claims, key=lambda row: (row["claim_holds"] is False, row["known"]))
        holds = "does not hold: epsilon is " + _number(model["known"])
        if model["claim_holds"] is None:
            holds = "is not proven"
        yield f"the {model['claimed_epsilon']:.4g} claimed for published models {holds}"
    # The status shows the first two of these, an infinite epsilon the third.
    if flags := [flag for flag in flags if flag not in (HEURISTIC, INVALID, NO_NOISE)]:
        yield f"flagged: {', '.join(flags)}"
    yield f"trusted: {worst['trusts'] or 'none'}"


def _of_clients(worst: Row, rows: Sequence[Row], several: bool) -> str:
    def of(row: Row) -> str:
        return f"client {row['client']}" + (f" in seed {row['seed']}" if several else "")

    def whose(row: Row) -> str:
        return "" if row is worst else f" for {of(row)}"

    exact, provable, measured = worst["exact_epsilon"], worst["provable"], worst["measured"]
    hidden = NEIGHBOURS.get((worst["unit"], worst["neighbours"]), f"{worst['unit']}: {worst['neighbours']}")
    beside = []
    if not math.isinf(worst["claimed_epsilon"]):
        broken = any(row["claim_holds"] is False for row in rows)
        claimed = f"{worst['claimed_epsilon']:.4g}"
        beside.append(f"the claimed {claimed} does not hold" if broken else f"claimed {claimed}")
    status = max((row["status"] for row in rows), key=list(RESTS_ON).index)
    if not math.isinf(exact) and (status != "proven" or provable != exact):
        largest = max([worst, *rows], key=lambda row: _alike(row, "finite"))
        beside.append(f"{_number(largest['exact_epsilon'])}{whose(largest)} {RESTS_ON[status]}")
    furthest = max([worst, *rows], key=lambda row: _alike(row, "measured"))
    if furthest["measured"] > 0 and not (worst["bare"] and furthest is worst):
        source = " and ".join(audit for audit in AUDITS if furthest[column_of(audit)] == furthest["measured"])
        beside.append(f"measured by {source} at least {_number(furthest['measured'])}{whose(furthest)}")
    if worst["bare"] or math.isinf(measured):
        opening = "epsilon is infinite, without any protection,"
    elif math.isinf(exact):
        opening = "no bound on epsilon is known"
    elif math.isinf(provable):
        opening = "no epsilon is proven"
    elif (largest_known := max(measured, exact)) > provable * (1 + 1e-9):
        opening = f"epsilon at least {largest_known:.4g}, although {provable:.4g} counts as proven,"
    else:
        opening = f"epsilon {provable:.4g}, proven,"
    about = f"at delta {worst['delta']:g} for {hidden}, of {of(worst)}"
    return f"{opening} {about}" + (f" ({', '.join(beside)})" if beside else "")


def _alike(row: Row, *columns: str) -> tuple[float, ...]:
    """Round to five digits, one more than is printed: smaller differences may be float32 rounding errors."""
    return tuple(float(f"{row[column]:.5g}") for column in columns)


def _number(epsilon: float) -> str:
    return "infinite" if math.isinf(epsilon) else f"{epsilon:.4g}"
