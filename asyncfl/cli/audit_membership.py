"""How `asyncfl audit --membership` asks and prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from asyncfl.cli.output import console, print_table, print_text
from asyncfl.cli.progress import ProgressBar

if TYPE_CHECKING:
    from asyncfl.audit.again import FinishedRun

COLUMNS = ("seed", "adversary", "attack", "found, %", "95 % interval, %", "members", "non-members", "area")


def audit_memberships(
    finished: FinishedRun, seeds: tuple[int, ...], adversary: str, worlds: int, bar: ProgressBar
) -> list[dict[str, Any]]:
    """What is found, one mapping per seed and attack, once table and figures are written to the run's folder."""
    from asyncfl.audit.membership import audit_membership
    from asyncfl.audit.membership_files import save

    audit = audit_membership(finished, seeds, adversary, shadow_worlds=worlds, progress=bar, stage=bar.stage)
    for path in save(finished, audit):
        console.print(str(path))
    rows: list[dict[str, Any]] = audit.found.to_pylist()
    return rows


def print_found(rows: list[dict[str, Any]]) -> None:
    """The table of what was found, and what its numbers are."""
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
            ]
            for row in rows
        ],
    )
    print_text(
        "Found: share of the members that an attack finds where it takes at most 1 % of the non-members for members; "
        "guessing finds 1 %. Area: under the curve of all thresholds, 0.5 for guessing."
    )
