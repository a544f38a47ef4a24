"""`asyncfl audit membership`: membership inference against the uploads and models of a run."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from asyncfl.cli.audit_reconstruct import Holder
from asyncfl.cli.options import Json, Quiet, RunFolder, Seed
from asyncfl.cli.output import console, print_json, print_table, print_text
from asyncfl.cli.progress import ProgressBar

COLUMNS = (
    "seed",
    "adversary",
    "attack",
    "found, %",
    "95 % interval, %",
    "members",
    "non-members",
    "area",
    "its interval",
)


def membership(
    run: RunFolder,
    adversary: Annotated[
        Holder, typer.Option(help="Adversary that attacks. The server holds all uploads.")
    ] = Holder.EAVESDROPPER,
    worlds: Annotated[
        int, typer.Option(help="Shadow worlds to train for each attacked upload.", min=8, max=100_000)
    ] = 64,
    seed: Seed = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Infer which samples were trained on, by loss and by likelihood ratio.

    Writes rates of true positives, and a figure of the ROC curve for each seed, below audit/membership. It bounds no
    epsilon.

    Example: asyncfl audit membership results/runs/HASH --adversary server
    """
    from asyncfl.audit.finished_run import FinishedRun
    from asyncfl.audit.membership import audit_membership
    from asyncfl.audit.membership_files import save

    finished = FinishedRun.load(run)
    seeds = finished.seeds(seed)
    with ProgressBar(finished.run.scenario.model_copy(update={"seeds": seeds}), quiet or json) as bar:
        audit = audit_membership(finished, seeds, adversary.value, shadow_worlds=worlds, progress=bar, stage=bar.stage)
        files = save(finished, audit)
    rows: list[dict[str, Any]] = audit.found.to_pylist()
    if json:
        print_json({"run": str(run), "rows": rows, "files": [str(file) for file in files]})
        return
    for file in files:
        console.print(str(file))
    print_rates(rows)
    if finished.note:
        print_text(finished.note)


def print_rates(rows: list[dict[str, Any]]) -> None:
    """Print a table of true positive rates, and the meaning of its columns.

    rows: rows of the audit's table, with the columns `asyncfl.audit.membership.FOUND`.
    """
    print_table(
        COLUMNS,
        [
            [
                row["seed"],
                row["adversary"],
                row["attack"],
                f"{100 * row['true_positive_rate']:.2f}",
                f"{100 * row['rate_low']:.2f} to {100 * row['rate_high']:.2f}",
                row["members"],
                row["others"],
                f"{row['area']:.3f}",
                f"{row['area_low']:.3f} to {row['area_high']:.3f}",
            ]
            for row in rows
        ],
        keys=3,
    )
    print_text(
        "Found: share of the members that the attack finds when it takes at most 1 % of the non-members for members; "
        "guessing finds 1 %. Area: area under the ROC curve; guessing has 0.5. The intervals are for samples drawn "
        "independently, at 95 %; below 437 non-members no share above 0 can be shown."
    )
