"""`asyncfl ledger`: who knows what of whom after a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from asyncfl.base.errors import Fault, RunError, ScenarioError
from asyncfl.cli.options import Json, RunFolder, Seed, integer, load_run, option
from asyncfl.cli.output import plain_console, print_json, print_table, print_text, text_width

if TYPE_CHECKING:
    from asyncfl.privacy.ledger.adversary_summaries import AdversarySummary, Row
    from asyncfl.results.held_messages import HeldMessages
    from asyncfl.results.storage import Run

WORST = 5
"""Clients that are listed of one adversary."""
LEGEND = (
    "releases: uploads held, and models that tell more of a client, such as those that uploads were trained from; "
    "proven: smallest epsilon that follows from the noise alone; exact: if the sensitivity holds that the noise is "
    "calibrated to; measured: lower bound by audits; covers: releases that the claim is made for."
)


def _names(incomplete: str) -> list[str]:
    from asyncfl.results.adversaries import TRUSTS

    return [name for name in TRUSTS if name.startswith(incomplete)]


def ledger(
    run: RunFolder,
    client: Annotated[int | None, integer("Show the rows of this client, in words too.", "--client")] = None,
    adversary: Annotated[
        str | None,
        option(
            "Show the deciles over clients, and the most exposed clients, of this adversary.", autocompletion=_names
        ),
    ] = None,
    seed: Seed = None,
    what_if: Annotated[
        str | None,
        option(
            "Compute the rows of one adversary under this change, as far as the run decides them: "
            "secure-aggregation, tap.at=sender or tap.at=receiver.",
            metavar="CHANGE",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Print what each adversary knows of the clients of a run: releases, epsilons and claims.

    Reads the ledger of a finished run, nothing is computed again. Give --client for one client, --adversary for one
    adversary, both for one row of each seed. In JSON null is infinite, not measured or not claimed.

    Example: asyncfl ledger results/runs/HASH --adversary server
    """
    from asyncfl.privacy.ledger.adversary_summaries import adversaries_of, client_rows

    loaded = load_run(run, seed)
    rows = client_rows(loaded.tables["ledger"], seed)
    if not rows:
        raise RunError(f"the ledger of {run} has no row of a client: only a run with training has a ledger")
    faults = []
    if client is not None and client not in (clients := {row["client"] for row in rows}):
        faults.append(Fault("--client", f"must be one of the run's, {min(clients)}..{max(clients)}, got {client}"))
    if adversary is not None and adversary not in (known := adversaries_of(rows)):
        reason = "; no clients are curious in this run (privacy.curious)" if adversary == "curious" else ""
        faults.append(Fault("--adversary", f"must be one of {', '.join(known)}, got {adversary!r}{reason}"))
    if what_if is not None and adversary is not None:
        faults.append(Fault("--adversary", "must be left out with --what-if, which concerns one adversary itself"))
    if faults:
        raise ScenarioError(faults)
    if what_if is not None:
        _hypothetical(loaded, rows, client, what_if, json)
        return
    if client is not None:
        _client(loaded, rows, client, adversary, json)
    elif adversary is not None:
        _adversary([row for row in rows if row["adversary"] == adversary], json)
    else:
        _all(loaded, rows, seed, json)


def _all(run: Run, rows: Sequence[Row], seed: int | None, json: bool) -> None:
    """Print all adversaries: the most exposed client of each, its epsilons over the clients, claims about models."""
    from asyncfl.privacy.ledger.adversary_summaries import coalition_notes, conventions, model_rows, summaries

    found, models = summaries(rows), summaries(model_rows(run.tables["ledger"], seed))
    notes = [*conventions(rows), *coalition_notes(rows)]
    if json:
        of = {"seeds": _seeds(rows), "clients": [*map(asdict, found)], "models": [*map(asdict, models)]}
        print_json(of | {"notes": notes})
        return
    several = len(_seeds(rows)) > 1
    print_text(f"Largest epsilons of a client, {_of_seeds(rows)}; client: the most exposed one")
    lines = []
    for one in found:
        # Where nothing is known of any client, none is the most exposed one.
        exposed = (one.seed, one.client) if one.exact != 0 else (None, None)
        lines.append([one.adversary, *exposed[not several :], one.releases, *_epsilons(one), one.covers])
    _print(["adversary", *["seed", "client"][not several :], "releases", *_EPSILONS, "covers"], lines)
    print_text("", f"Over the clients{' of all seeds' if several else ''}: median releases, and exact epsilons")
    _print(
        ["adversary", "clients", "releases", "least", "median", "largest", "infinite", "claim broken"],
        [
            [
                *(one.adversary, one.clients, one.median_releases),
                *map(_rounded, (one.least_exact, one.median_exact, one.exact)),
                *(f"{100 * one.infinite:.0f} %", one.broken),
            ]
            for one in found
        ],
    )
    if models:
        print_text("", "Claims about published models, for the client of which they reveal most")
        rows_of_models = [[one.adversary, one.releases, *_epsilons(one), one.covers] for one in models]
        _print(["adversary", "releases", *_EPSILONS, "covers"], rows_of_models)
    print_text("", LEGEND, *notes, *_flagged(found))


def _adversary(rows: Sequence[Row], json: bool) -> None:
    """Print the deciles over clients of one adversary's epsilons, and its most exposed clients."""
    from asyncfl.privacy.ledger.adversary_summaries import (
        DECILES,
        coalition_notes,
        conventions,
        deciles,
        most_exposed,
        summaries,
    )

    (summary,) = summaries(rows)
    worst, notes = most_exposed(rows, WORST), [*conventions(rows), *coalition_notes(rows)]
    of_clients = {name: found for name in ("exact", "proven") if (found := deciles(rows, name)) is not None}
    if json:
        print_json({"summary": asdict(summary), "deciles": of_clients, "worst": worst, "notes": notes})
        return
    print_text(f"{summary.adversary}: epsilons of {summary.clients} clients, {_of_seeds(rows)}")
    lines = zip(DECILES, *of_clients.values(), strict=True)
    _print(["% of clients", *of_clients], [[percent, *map(_rounded, values)] for percent, *values in lines])
    print_text("", f"The {len(worst)} most exposed clients")
    _print_rows(worst, "client")
    print_text("", LEGEND, *notes, *_flagged([summary]), f"trusted: {summary.trusts or 'none'}")


def _client(run: Run, every: Sequence[Row], client: int, adversary: str | None, json: bool) -> None:
    """Print the rows of one client, the messages that adversaries hold of it, and its flags in words.

    `every`: rows of all clients.
    """
    from asyncfl.privacy.flags import FLAGS
    from asyncfl.privacy.ledger.adversary_summaries import adversaries_of, conventions, flags_of_row

    rows = [row for row in every if row["client"] == client and adversary in (None, row["adversary"])]
    own = {(row["seed"], row["adversary"]) for row in every if row["client"] == client}
    with_coalition = dict.fromkeys(row["seed"] for row in every if row["adversary"] == "curious")
    member = [seed for seed in with_coalition if (seed, "curious") not in own]
    if not rows:
        is_member = f"client {client} is a member of the coalition, which has no rows of its members"
        raise ScenarioError([Fault("--client", f"must be no curious client with --adversary curious: {is_member}")])
    held = {seed: _held(run, seed, client) for seed in _seeds(rows)}
    spoiled = {flag: [row for row in rows if flag in flags_of_row(row)] for row in rows for flag in flags_of_row(row)}
    if json:
        messages = [held[row["seed"]].get(row["adversary"]) for row in rows]
        found = [row | {"messages": one and one._asdict()} for row, one in zip(rows, messages, strict=True)]
        explained = {flag: FLAGS.get(flag) for flag in spoiled}
        print_json({"client": client, "rows": found, "flags": explained, "in_coalition": member})
        return
    print_text(f"What each adversary knows of client {client}, {_of_seeds(rows)}")
    _print_rows(rows, "adversary")
    print_text("")
    for row in rows:
        who = row["adversary"] + (f", seed {row['seed']}" if len(held) > 1 else "")
        own_messages = held[row["seed"]].get(row["adversary"])
        holds = _HOLDS.get(row["adversary"], "its releases") if own_messages is None else own_messages.in_words()
        print_text(f"{who}: holds {holds}; {_claim(row)}; trusted: {row['trusts'] or 'none'}")
    if member and adversary is None:
        seeds = f" in seed {', '.join(map(str, member))}" if len(held) > 1 else ""
        print_text(f"curious: client {client} is a member of the coalition{seeds}, which has no rows of its members")
    print_text("", LEGEND, *conventions(rows))
    for flag, flagged in spoiled.items():
        where = "" if len(flagged) == len(rows) else f" ({', '.join(adversaries_of(flagged))})"
        print_text(f"flag {flag}{where}: {FLAGS.get(flag, 'set by the scheme')}")


def _hypothetical(run: Run, every: Sequence[Row], client: int | None, change: str, json: bool) -> None:
    """Print the rows of one adversary as they are and as they would be, of all clients or of one."""
    from asyncfl.privacy.ledger.adversary_summaries import conventions, summaries
    from asyncfl.results.what_if import hypothesis

    answer = hypothesis(run, every, change)
    now = [row for row in every if row["adversary"] == answer.adversary and client in (None, row["client"])]
    then = [row for row in answer.rows if client in (None, row["client"])]
    if json:
        of = {"what_if": change, "adversary": answer.adversary, "hypothetical": True, "assumption": answer.assumption}
        print_json(of | {"run": now, "what_if_rows": then})
        return
    whom = "the clients" if client is None else f"client {client}"
    print_text(f"Hypothetical: {answer.adversary} and {whom}, {change}, {_of_seeds(now)}")
    columns = ["", "clients", "releases", "proven", "least exact", "median", "largest"]
    lines = [
        [
            *(label, one.clients, one.median_releases),
            *map(_rounded, (one.proven, one.least_exact, one.median_exact, one.exact)),
        ]
        for label, rows in (("in the run", now), ("hypothetical", then))
        for one in summaries(rows)
    ]
    _print(columns, lines)
    print_text("", f"Hypothetical, not what happened: {answer.assumption}.")
    print_text(
        "releases: median over clients; proven: the largest, — where the rows do not tell it.", *conventions(now)
    )


_EPSILONS = ("proven", "exact", "measured", "claimed")
_HOLDS = {
    "curious": "what its members were sent, overheard and made themselves",
    "public_last": "the last model",
    "public": "all models",
}
"""Adversary -> its holdings, where they are the same for all clients."""


def _claim(row: Row) -> str:
    """Return what a row's claim covers and whether it holds."""
    from asyncfl.privacy.ledger.adversary_summaries import claim_of

    claimed, covers = claim_of(row), row["assumed_releases"]
    if claimed is None:
        return "nothing is claimed"
    releases = "" if covers is None else f" for {covers} release{'' if covers == 1 else 's'}"
    text = f"the {claimed:.4g} claimed{releases}"
    return (
        f"{text} " + {True: "holds", False: "does not hold", None: "is neither proven nor broken"}[row["claim_holds"]]
    )


def _held(run: Run, seed: int, client: int) -> dict[str, HeldMessages]:
    """Return the messages of a client that adversaries hold, by the tasks of a seed."""
    from asyncfl.protocol.tasks import Tasks
    from asyncfl.results.held_messages import held_messages

    rounds = run.tables["rounds"].select(["seed", "version", "time_s"]).to_pylist()
    published = {row["version"]: row["time_s"] for row in rounds if row["seed"] == seed}
    tasks = Tasks.of(run.tables["tasks"]).select(seed=seed)
    return held_messages(tasks, published, client, run.scenario.world.uplink.mtu_bytes)


def _seeds(rows: Sequence[Row]) -> list[int]:
    return list(dict.fromkeys(row["seed"] for row in rows))


def _of_seeds(rows: Sequence[Row]) -> str:
    seeds = _seeds(rows)
    return f"seed{'' if len(seeds) == 1 else 's'} {', '.join(map(str, seeds))}"


def _flagged(found: Sequence[AdversarySummary]) -> list[str]:
    """Return a sentence for each flag: at how many clients, against which adversaries."""
    flags = dict.fromkeys(flag for one in found for flag in one.flags)
    lines = []
    for flag in flags:
        by_share: dict[str, list[str]] = {}
        for one in found:
            if flag in one.flags:
                by_share.setdefault(f"{one.flags[flag]} of {one.clients}", []).append(one.adversary)
        where = "; ".join(f"{share} clients of {', '.join(names)}" for share, names in by_share.items())
        lines.append(f"flag {flag}: {where}")
    return lines


def _epsilons(one: AdversarySummary) -> list[float | None]:
    return [_rounded(getattr(one, name)) for name in _EPSILONS]


def _print_rows(rows: Sequence[Row], first: str) -> None:
    """Print rows of the ledger, each with its client or adversary (`first`), its seed where there are several."""
    from asyncfl.privacy.ledger.adversary_summaries import claim_of

    several = len(_seeds(rows)) > 1
    lines = [
        [
            *([row["seed"]] if several else []),
            *(row[first], row["releases"]),
            *map(_rounded, (row["provable"], row["exact_epsilon"], row["measured"], claim_of(row))),
            *(None if claim_of(row) is None else row["assumed_releases"], row["claim_holds"]),
        ]
        for row in rows
    ]
    _print([*(["seed"] if several else []), first, "releases", *_EPSILONS, "covers", "holds"], lines)


def _print(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print a table that keeps to the width of a text, also where the output is no terminal."""
    print_table(columns, rows, to=plain_console(width=text_width()))


def _rounded(epsilon: float | None) -> float | None:
    """Return an epsilon with the four digits of a privacy statement."""
    return None if epsilon is None else float(f"{epsilon:.4g}")
