"""`asyncfl audit canaries`: a lower bound on epsilon from canaries that an adversary recognises."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import typer

from asyncfl.cli.options import Json, Quiet, RunFolder, Seed
from asyncfl.cli.output import format_number, print_json, print_table, print_text
from asyncfl.cli.progress import ProgressBar

COLUMNS = ("seed", "adversary", "measured", "could show", "if Gaussian", "claimed", "exact", "right guesses")


def canaries(
    run: RunFolder,
    count: Annotated[int, typer.Option(help="Canaries to plant.", min=1, max=10_000_000)] = 1000,
    unit: Annotated[
        Literal["sample", "client"],
        typer.Option(help="Unit that is included or left out by a fair coin: one sample, or one client's updates."),
    ] = "sample",
    kind: Annotated[
        Literal["mislabelled", "noise"], typer.Option(help="Data of a canary: a sample with a wrong label, or noise.")
    ] = "mislabelled",
    delta: Annotated[
        float | None,
        typer.Option(help="Delta of the measured epsilon. Default: the delta of the scheme's claim.", min=0, max=0.5),
    ] = None,
    seed: Seed = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Bound epsilon from below by counting the planted canaries that an adversary recognises.

    Canaries change what is trained, so the audit simulates a run of its own: the scenario with canaries. The bound
    holds at 95 % confidence and needs no knowledge of the noise (Steinke, Nasr and Jagielski 2023). Writes
    audit/attacks.parquet and the ledger's measured epsilons.

    Example: asyncfl audit canaries results/runs/HASH --count 1000
    """
    from asyncfl.audit.canaries import audit_canaries, save
    from asyncfl.audit.canary_bounds import enter_bounds
    from asyncfl.audit.finished_run import FinishedRun
    from asyncfl.audit.neighbours import save_run
    from asyncfl.data.canaries import Canaries

    finished = FinishedRun.load(run)
    seeds = finished.seeds(seed)
    planted = Canaries(count=count, unit=unit, kind=kind)
    with ProgressBar(finished.run.scenario.model_copy(update={"seeds": seeds}), quiet or json) as bar:
        audit = audit_canaries(finished, planted, seeds, delta, bar, bar.stage)
        folder = save(finished, audit)
        bounded = enter_bounds(finished.run, audit)
        save_run(finished, finished.run)
    rows: list[dict[str, Any]] = audit.found.to_pylist()
    if json:
        print_json({"run": str(run), "canaries": str(folder), "ledger_rows": bounded, "rows": rows})
        return
    print_text(f"{planted.description}: {folder}")
    print_text(f"rows of the ledger with a bound from them: {bounded}")
    print_bounds(rows)
    if finished.note:
        print_text(finished.note)


def print_bounds(rows: list[dict[str, Any]]) -> None:
    """Print a table of the measured epsilons, and sentences that explain them.

    rows: rows of the audit's table, with the columns `asyncfl.audit.canaries.FOUND`.
    """
    print_table(COLUMNS, [_cells(row) for row in rows], keys=2)
    for sentence in dict.fromkeys(_sentences(rows)):
        print_text(sentence)


def _cells(row: dict[str, Any]) -> list[Any]:
    """Return the cells of a row of the printed table, whose headings are `COLUMNS`."""
    right = f"{row['right']} of {row['guesses']}, {row['score']}" if row["guesses"] else "—"
    epsilons = [row[name] for name in ("measured", "most", "measured_gaussian", "claimed_epsilon", "exact_epsilon")]
    return [row["seed"], row["adversary"], *(_epsilon(value) for value in epsilons), right]


def _epsilon(value: float | None) -> str:
    if value is None or math.isnan(value):
        return format_number(None)
    return "infinite" if math.isinf(value) else f"{value:.3g}"


def _too_few(canaries: int, delta: float) -> str:
    """Return a sentence: why `canaries` canaries bound nothing at `delta`, and what to do."""
    from asyncfl.audit.canaries import LEVEL
    from asyncfl.privacy.estimators.one_run import largest_detectable_epsilon

    number = f"{canaries} canary" if canaries == 1 else f"{canaries} canaries"
    if largest_detectable_epsilon(canaries, 0.0, LEVEL) == 0:
        return f"{number} can show nothing at any delta: plant more with --count"
    return f"{number} can show nothing at delta {delta:g}: choose a smaller --delta, or plant fewer with --count"


def _sentences(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Yield sentences that explain the columns of the table, and rows without a bound."""
    for delta in dict.fromkeys(row["delta"] for row in rows):
        neighbours = next(row["neighbours"] for row in rows if row["delta"] == delta)
        yield (
            f"Each number is an epsilon at delta {delta:g} (neighbours: {neighbours}). Measured: a lower bound at 95 % "
            "confidence for each row. Could show: the largest bound that so many canaries can give."
        )
    for row in rows:
        who = f"{row['adversary']}, seed {row['seed']}"
        if not row["canaries"]:
            yield f"{who}: all canaries belong to attacking clients, so nothing can be measured"
        elif not row["held"]:
            yield f"{who}: holds no upload or model to recognise canaries by"
        elif row["most"] == 0:
            yield _too_few(row["canaries"], row["delta"])
        claimed = row["claimed_epsilon"]
        if claimed is not None and math.isinf(claimed) and row["held"]:
            yield f"{who}: the claimed epsilon is infinite, since no noise hides what this adversary holds"
        elif claimed is not None and row["measured"] > claimed:
            yield f"{who}: the claimed epsilon {claimed:.3g} is disproved; it is at least {row['measured']:.3g}"
