"""What `asyncfl audit RUN` does with twins: options in, numbers out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from asyncfl.cli.output import print_json, print_table, print_text
from asyncfl.cli.progress import ProgressBar
from asyncfl.description import faults_of
from asyncfl.errors import Fault, ScenarioError
from asyncfl.evaluation import OF_CLIENTS, OF_SAMPLES, TwinAudit

if TYPE_CHECKING:
    import pandas as pd

    from asyncfl.audit.again import FinishedRun
    from asyncfl.storage import Run

UNITS = {"sample": OF_SAMPLES, "client": OF_CLIENTS, "all": (*OF_SAMPLES, *OF_CLIENTS)}
"""Names of several kinds of twins."""


def described(clients: str, neighbours: str, twins: int) -> TwinAudit:
    """The audit that options ask for. Raises ScenarioError."""
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


def measure_with_twins(
    finished: FinishedRun, seeds: Sequence[int], bar: ProgressBar, audit: TwinAudit
) -> tuple[Run, list[str]]:
    """The run with what was found in `seeds`, which is written beside it, and what of an earlier audit it replaces."""
    from asyncfl.audit.twins import audit_twins, earlier, write

    replaced = earlier(finished.run, seeds)
    audited = audit_twins(finished, audit, seeds, bar, bar.stage)
    write(finished, audited)
    return audited, replaced


def tell_measured(folder: Path, audited: Run, replaced: Sequence[str], seeds: Sequence[int], json: bool) -> None:
    """Print what was measured in `seeds`, and what was replaced."""
    ledger = audited.ledger
    measured = ledger[ledger["seed"].isin(seeds) & ledger["measured"].notna()]
    if json:
        rows = [dict(zip(SHOWN, _row(row), strict=True)) for _, row in measured.iterrows()]
        print_json({"run": str(folder), "replaced": list(replaced), "rows": rows})
        return
    print_table(list(SHOWN.values()), [_row(row) for _, row in measured.iterrows()])
    for note in audited.summary["notes"]:
        if note.startswith("audit: "):
            print_text(note)
    for sentence in replaced:
        print_text(sentence)
    print_text("measured: epsilon is at least so much, given the models that the clients' tasks began from")
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
"""Column of the ledger that is shown -> its heading."""


def _row(row: pd.Series[Any]) -> list[Any]:
    values = [row[name] for name in SHOWN]
    return [value.item() if hasattr(value, "item") else value for value in values]
