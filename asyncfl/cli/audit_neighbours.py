"""`asyncfl audit neighbours`: lower bounds on epsilon from tasks trained again on neighbouring data sets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import ValidationError

from asyncfl.base.description import faults_of
from asyncfl.base.errors import Fault, ScenarioError
from asyncfl.cli.options import Json, Quiet, RunFolder, Seed
from asyncfl.cli.output import print_json, print_table, print_text
from asyncfl.cli.progress import ProgressBar
from asyncfl.evaluation import OF_CLIENTS, OF_SAMPLES, TwinAudit

if TYPE_CHECKING:
    import pandas as pd

    from asyncfl.federation.storage import Run

UNITS = {"sample": OF_SAMPLES, "client": OF_CLIENTS, "all": (*OF_SAMPLES, *OF_CLIENTS)}
"""Word of `--neighbours` -> the kinds of neighbouring data sets that it stands for."""


def neighbours(
    run: RunFolder,
    clients: Annotated[
        str, typer.Option(help="Number of clients to audit, or the clients themselves: 0,3,7 (client 3 alone: 3,).")
    ] = "5",
    neighbours: Annotated[
        str,
        typer.Option(
            help=f"Kinds of neighbouring data sets, with commas: {', '.join(UNITS['all'])}; or sample, client or all, "
            "which stand for all kinds with another sample, with another client, or both."
        ),
    ] = "all",
    twins: Annotated[
        int, typer.Option(help="Neighbouring data sets to try for each client.", min=1, max=1_000_000)
    ] = 200,
    seed: Seed = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Bound epsilon from below by training clients' tasks again on neighbouring data sets.

    A neighbouring data set (a twin) differs from the client's data in one sample, or in all of them. The further its
    update lies from the client's own, relative to the noise, the easier an adversary tells them apart. Writes
    audit.parquet, the ledger's measured epsilons, and an example for each assumed sensitivity that is exceeded.

    Example: asyncfl audit neighbours results/runs/HASH --clients 5 --twins 200
    """
    from asyncfl.audit.finished_run import FinishedRun
    from asyncfl.audit.neighbours import audit_neighbours, describe_replaced, save_run

    audit = read_options(clients, neighbours, twins)
    finished = FinishedRun.load(run)
    seeds = finished.seeds(seed)
    replaced = describe_replaced(finished.run, seeds)
    with ProgressBar(finished.run.scenario.model_copy(update={"seeds": seeds}), quiet or json) as bar:
        audited = audit_neighbours(finished, audit, seeds, bar, bar.stage)
    save_run(finished, audited)
    print_measured(run, audited, replaced, seeds, json)


def read_options(clients: str, neighbours: str, twins: int) -> TwinAudit:
    """Build and return the audit that the texts of the options describe.

    Args:
        clients: Text of `--clients`: a number of clients, or the clients with commas.
        neighbours: Text of `--neighbours`: kinds of neighbouring data sets, or keys of `UNITS`, with commas.
        twins: Neighbouring data sets to try for each client.

    Raises:
        ScenarioError: Names each option that is wrong.
    """
    words = [word for word in neighbours.replace(" ", "").split(",") if word]
    kinds = [kind for word in words for kind in UNITS.get(word, (word,))]
    numbers = [word for word in clients.replace(" ", "").split(",") if word]
    bad = [word for word in numbers if not word.isdecimal()]
    if bad or not numbers:
        raise ScenarioError([Fault("--clients", f"must be a number, or numbers with commas (0,3,7), got {clients!r}")])
    wanted: Any = [int(word) for word in numbers] if "," in clients else int(numbers[0])
    description = {"clients": wanted, "neighbours": list(dict.fromkeys(kinds)), "twins": twins}
    try:
        return TwinAudit.model_validate(description)
    except ValidationError as error:
        faults = faults_of(error, TwinAudit, description)
        named = {fault.field.split(".")[0]: fault.message for fault in reversed(faults)}
        raise ScenarioError([Fault(f"--{field}", message) for field, message in named.items()]) from None


def print_measured(folder: Path, audited: Run, replaced: Sequence[str], seeds: Sequence[int], json: bool) -> None:
    """Print the measured rows of the ledger for `seeds`.

    `replaced`: sentences about results of an earlier audit that were replaced.
    """
    ledger = audited.ledger
    measured = ledger[ledger["seed"].isin(seeds) & ledger["measured"].notna()]
    if json:
        rows = [dict(zip(SHOWN, _row(row), strict=True)) for _, row in measured.iterrows()]
        print_json({"run": str(folder), "replaced": list(replaced), "rows": rows})
        return
    print_table(list(SHOWN.values()), [_row(row) for _, row in measured.iterrows()], keys=4)
    for note in audited.summary["notes"]:
        if note.startswith("audit: "):
            print_text(note)
    for sentence in replaced:
        print_text(sentence)
    print_text("measured: a lower bound on epsilon, given the models that the clients' tasks started from")
    rows_are = "1 row of the ledger is" if len(measured) == 1 else f"{len(measured)} rows of the ledger are"
    print_text(f"{folder}: audit.parquet is written, {rows_are} measured")


SHOWN = {
    "seed": "seed",
    "holder": "holder",
    "client": "client",
    "adversary": "adversary",
    "status": "sensitivity",
    "claimed_epsilon": "claimed epsilon",
    "provable": "provable",
    "measured": "measured",
    "delta": "delta",
}
"""Column of the ledger -> its heading in the printed table."""


def _row(row: pd.Series[Any]) -> list[Any]:
    values = [row[name] for name in SHOWN]
    return [value.item() if hasattr(value, "item") else value for value in values]
