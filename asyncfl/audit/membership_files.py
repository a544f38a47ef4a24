"""Files of membership inference: rows of `audit/attacks.parquet`, and a figure for each seed."""

from __future__ import annotations

from pathlib import Path

from asyncfl.audit.attacks_table import audit_folder, write_attacks
from asyncfl.audit.finished_run import FinishedRun
from asyncfl.audit.membership import LIKELIHOOD, MembershipAudit
from asyncfl.audit.roc_figure import draw_curves


def save(finished: FinishedRun, audit: MembershipAudit) -> list[Path]:
    """Write the table of attacks and a figure for each seed; return the paths of the figures. Raises OutputError."""
    folder = audit_folder(finished.folder, "membership")
    scenario, drawn = finished.run.scenario, []
    who = {row["seed"]: row["adversary"] for row in audit.found.to_pylist() if row["attack"] == LIKELIHOOD}
    for seed, scores in audit.scores.items():
        caption = (
            f"Run {finished.run.summary['hash']}, seed {seed}, privacy {scenario.privacy.kind}. Uploads that the "
            f"{who[seed]} holds. Points: true positive rates at a false positive rate of 1 %, with exact 95 % "
            "intervals, drawn side by side. Rates below 0.001 are drawn at 0.001."
        )
        caption += f" {finished.note}" if finished.note else ""
        title = "Membership inference"
        drawn += draw_curves(scores, title, caption, folder / f"roc-seed-{seed}")
    write_attacks(finished.folder, audit.found)
    return drawn
