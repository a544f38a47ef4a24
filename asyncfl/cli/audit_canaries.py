"""How `asyncfl audit --canaries` asks and prints."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from asyncfl.cli.output import number, print_table, print_text
from asyncfl.cli.progress import ProgressBar

if TYPE_CHECKING:
    from asyncfl.audit.again import FinishedRun
    from asyncfl.data.canaries import Canaries

COLUMNS = ("seed", "adversary", "measured", "could show", "if Gaussian", "claimed", "exact", "right guesses")


def audit_with_canaries(
    finished: FinishedRun, seeds: tuple[int, ...], canaries: Canaries, delta: float | None, bar: ProgressBar
) -> list[dict[str, Any]]:
    """What is found, one mapping per seed and adversary, once it is written to the run's folder and ledger."""
    from asyncfl.audit.canaries import audit_canaries, save
    from asyncfl.audit.canary_bounds import write_bounds
    from asyncfl.audit.twins import write

    audit = audit_canaries(finished, canaries, seeds, delta, bar, bar.stage)
    folder = save(finished, audit)
    bounded = write_bounds(finished.run, audit)
    write(finished, finished.run)
    print_text(f"{audit.scenario.data.canaries.said if audit.scenario.data.canaries else ''}: {folder}")
    rows_are = "1 row of the ledger is" if bounded == 1 else f"{bounded} rows of the ledger are"
    print_text(f"{rows_are} measured by them")
    rows: list[dict[str, Any]] = audit.found.to_pylist()
    return rows


def print_found(rows: list[dict[str, Any]]) -> None:
    """The table of what was found, and in sentences what its reader must know."""
    print_table(COLUMNS, [_cells(row) for row in rows])
    for sentence in dict.fromkeys(_sentences(rows)):
        print_text(sentence)


def _cells(row: dict[str, Any]) -> list[Any]:
    right = f"{row['right']} of {row['guesses']}, {row['score']}" if row["guesses"] else "—"
    epsilons = [row[name] for name in ("measured", "most", "measured_gaussian", "claimed_epsilon", "exact_epsilon")]
    return [row["seed"], row["adversary"], *(_epsilon(value) for value in epsilons), right]


def _epsilon(value: float | None) -> str:
    if value is None or math.isnan(value):
        return number(None)
    return "infinite" if math.isinf(value) else f"{value:.3g}"


def _too_few(canaries: int, delta: float) -> str:
    """Why so many canaries can show nothing at that delta, whoever looks on, and what to ask for instead."""
    from asyncfl.audit.canaries import LEVEL
    from asyncfl.privacy.estimators.one_run import largest_detectable_epsilon

    number = f"{canaries} canary" if canaries == 1 else f"{canaries} canaries"
    if largest_detectable_epsilon(canaries, 0.0, LEVEL) == 0:
        return f"{number} can show nothing, at whatever delta: plant more"
    return f"{number} can show nothing at delta {delta:g}: ask at a smaller delta with --canary-delta, or plant fewer"


def _sentences(rows: list[dict[str, Any]]) -> Iterator[str]:
    for delta in dict.fromkeys(row["delta"] for row in rows):
        neighbours = next(row["neighbours"] for row in rows if row["delta"] == delta)
        yield (
            f"All are epsilons at delta {delta:g} (neighbours: {neighbours}). Measured: at least so much, at 95 % "
            "confidence for each row; how many canaries are guessed was fixed beforehand, and the level is shared."
        )
    for row in rows:
        who = f"{row['adversary']}, seed {row['seed']}"
        if not row["canaries"]:
            yield f"{who}: all canaries are of clients that attack; nothing can be measured"
        elif not row["held"]:
            yield f"{who}: it holds nothing that could be measured"
        elif row["most"] == 0:
            yield _too_few(row["canaries"], row["delta"])
        claimed = row["claimed_epsilon"]
        if claimed is not None and math.isinf(claimed) and row["held"]:
            yield f"{who}: nothing is claimed, the claim is infinite: no noise hides what this adversary holds"
        elif claimed is not None and row["measured"] > claimed:
            yield f"{who}: the claim of {claimed:.3g} is disproved, it is at least {row['measured']:.3g}"
