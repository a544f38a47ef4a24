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

_ROUNDING = 1 + 1e-9

Row = dict[str, Any]


def statements(ledger: pa.Table) -> list[str]:
    """Return one sentence for each adversary, about its worst client over all seeds (largest proven, then measured,
    then exact epsilon); empty if nothing is claimed."""
    every = [row for row in ledger.to_pylist() if row["status"] != "none"]
    clients = [row for row in every if row["holder"] == "client"]
    if clients and all(
        math.isinf(row["claimed_epsilon"]) and (row["exact_epsilon"] == 0 or _bare(row)) for row in every
    ):
        return ["no noise hides what clients send: epsilon is infinite"]
    models = [row for row in every if row["holder"] == "model"]
    adversaries = dict.fromkeys(row["adversary"] for row in clients)
    several = len({row["seed"] for row in clients}) > 1
    return ["; ".join(_parts(who, _held_by(who, clients), _held_by(who, models), several)) for who in adversaries]


def _held_by(who: str, rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row["adversary"] == who]


def _parts(who: str, rows: Sequence[Row], models: Sequence[Row], several: bool) -> Iterator[str]:
    """Yield the parts between semicolons: epsilon, a failing claim about models, flags, and trusted parties."""
    worst = max(rows, key=_badness)
    flags = list(dict.fromkeys(flag for row in rows for flag in row["flags"].split("; ") if flag))
    if _epsilon(worst) == 0:
        # Only flags of releases that epsilons do not include can remain.
        flags = [flag for flag in flags if flag in UNCOVERED]
        yield f"{who}: " + ("holds no update of any client" if flags else "learns nothing about any client")
    else:
        yield f"{who}: {_of_clients(worst, rows, several)}"
    yield from _of_models(models)
    # The status shows the first two of these, an infinite epsilon the third.
    if flags := [flag for flag in flags if flag not in (HEURISTIC, INVALID, NO_NOISE)]:
        yield f"flagged: {', '.join(flags)}"
    yield f"trusted: {worst['trusts'] or 'none'}"


def _of_clients(worst: Row, rows: Sequence[Row], several: bool) -> str:
    exact, provable, epsilon = worst["exact_epsilon"], worst["provable"], _epsilon(worst)
    hidden = NEIGHBOURS.get((worst["unit"], worst["neighbours"]), f"{worst['unit']}: {worst['neighbours']}")
    about = f"at delta {worst['delta']:g} for {hidden}, of {_client(worst, several)}"
    beside = []
    if not math.isinf(worst["claimed_epsilon"]):
        broken = any(row["claim_holds"] is False for row in rows)
        claimed = f"{worst['claimed_epsilon']:.4g}"
        beside.append(f"the claimed {claimed} does not hold" if broken else f"claimed {claimed}")
    status = max((row["status"] for row in rows), key=list(RESTS_ON).index)
    largest = max([worst, *rows], key=lambda row: _alike(_exact(row)))
    if not math.isinf(exact) and (status != "proven" or provable != exact):
        whose = "" if largest is worst else f" for {_client(largest, several)}"
        beside.append(f"{_number(largest['exact_epsilon'])}{whose} {RESTS_ON[status]}")
    furthest = max([worst, *rows], key=lambda row: _alike(_measured(row)))
    if _measured(furthest) > 0 and not (_bare(worst) and furthest is worst):
        whose = "" if furthest is worst else f" for {_client(furthest, several)}"
        beside.append(f"measured by {_source(furthest)} at least {_number(_measured(furthest))}{whose}")
    if _bare(worst) or math.isinf(_measured(worst)):
        opening = "epsilon is infinite, without any protection,"
    elif math.isinf(exact):
        opening = "no bound on epsilon is known"
    elif math.isinf(provable):
        opening = "no epsilon is proven"
    elif epsilon > provable * _ROUNDING:
        opening = f"epsilon at least {epsilon:.4g}, although {provable:.4g} counts as proven,"
    else:
        opening = f"epsilon {provable:.4g}, proven,"
    return f"{opening} {about}" + (f" ({', '.join(beside)})" if beside else "")


def _of_models(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a sentence about a claim for published models that fails or is not proven."""
    claims = [row for row in rows if not math.isinf(row["claimed_epsilon"]) and row["claim_holds"] is not True]
    if not claims:
        return
    worst = max(claims, key=lambda row: (row["claim_holds"] is False, _known(row)))
    claimed = worst["claimed_epsilon"]
    if worst["claim_holds"] is None:
        yield f"the {claimed:.4g} claimed for published models is not proven"
    else:
        yield f"the {claimed:.4g} claimed for published models does not hold: epsilon is {_number(_known(worst))}"


def _badness(row: Row) -> tuple[float, ...]:
    """Return the sort key of a client's row; the largest is the worst."""
    return _alike(row["provable"]), _bare(row), _alike(_measured(row)), _alike(row["exact_epsilon"])


def _alike(epsilon: float) -> float:
    """Round to five digits, one more than is printed: smaller differences may be float32 rounding errors."""
    return float(f"{epsilon:.5g}")


def _epsilon(row: Row) -> float:
    """Return the largest of the proven, the measured and the scheme's own epsilon."""
    return float(max(row["provable"], _measured(row), row["exact_epsilon"]))


def _known(row: Row) -> float:
    """Return the largest epsilon that can refute a claim; an epsilon that is infinite for lack of a bound cannot."""
    return max(_exact(row), _measured(row))


def _exact(row: Row) -> float:
    """Return the exact epsilon; 0 if it is infinite because no bound is known."""
    exact = float(row["exact_epsilon"])
    return exact if math.isfinite(exact) or _bare(row) else 0.0


def _bare(row: Row) -> bool:
    return NO_NOISE in row["flags"].split("; ")


def _measured(row: Row) -> float:
    return float(row["measured"] or 0.0)


def _source(row: Row) -> str:
    """Return the audits that measured the epsilon of a row."""
    return " and ".join(audit for audit in AUDITS if row[column_of(audit)] == row["measured"])


def _client(row: Row, several: bool) -> str:
    return f"client {row['client']}" + (f" in seed {row['seed']}" if several else "")


def _number(epsilon: float) -> str:
    return "infinite" if math.isinf(epsilon) else f"{epsilon:.4g}"
