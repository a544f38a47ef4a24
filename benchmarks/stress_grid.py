"""Thousands of small federations with a detector, one after another, to be gone on with: what `asyncfl stress` adds up.

    python benchmarks/stress_grid.py evidence --out grid.jsonl --repeats 2 --seeds 5   # 1040 federations, half an hour
    python benchmarks/stress_grid.py evidence --out grid.jsonl --root --seeds 5        # in the same or another file

Each federation is a line of the file as soon as it is done; those that stand there already are not done again, and a
last line that was cut off is. Then the table is printed, and the cells that are behind the plain mean.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from asyncfl.defences.defence_spec import Defence
from asyncfl.testing.stress import MOST_LOST, StressCase, StressReport, cell_name, stress, stress_grid
from asyncfl.testing.trials import Trial, TrialResult


def done(path: Path, detector: str) -> Iterator[StressCase]:
    """The federations of `detector` in the file."""
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            case: dict[str, Any] = json.loads(line)
        except json.JSONDecodeError:
            continue
        if case["detector"] == detector:
            result, numbers = case["result"], (case[name] for name in ("mean", "clean", "better", "worse"))
            yield StressCase(TrialResult(**{**result, "trial": Trial(**result["trial"])}), *numbers)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("detector", help='kind of it, or as JSON: {"kind": ...}')
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=1, help="federations of each cell, one after another")
    parser.add_argument("--first", type=int, default=0, help="number of the first repeat; each has its own seeds")
    parser.add_argument("--fallback", type=json.loads, help='rule where the detector abstains, as JSON: {"kind": ...}')
    parser.add_argument("--root", action="store_true", help="the server holds 100 samples of its own")
    asked = parser.parse_args()
    name, named = asked.detector, {"detector": {"kind": asked.detector}, "fallback": asked.fallback}
    if asked.detector.startswith("{"):
        named["detector"] = json.loads(asked.detector)
    if asked.fallback is not None:
        name += f" {json.dumps(asked.fallback)}"
    defence = Defence.model_validate(named)
    detector, fallback = defence.detector, defence.fallback
    assert detector is not None
    trials = stress_grid(asked.repeats, root=asked.root or detector.needs_root, first=asked.first, seeds=asked.seeds)
    known = {case.result.trial for case in done(asked.out, name)}
    with asked.out.open("a") as file:
        if asked.out.stat().st_size and not asked.out.read_text().endswith("\n"):
            file.write("\n")
        for trial in trials:
            if trial not in known:
                (case,) = stress(detector, trials=[trial], fallback=fallback).cases
                file.write(json.dumps({"detector": name, **asdict(case)}) + "\n")
                file.flush()
    wanted = set(trials)
    report = StressReport(tuple(case for case in done(asked.out, name) if case.result.trial in wanted))
    for row in report.rows:
        print(
            f"{row.name:13} honest banned {row.honest_banned:4} of {row.honest:6}, "
            f"attackers {row.attackers_banned:5} of {row.attackers:6}; "
            f"flagged {100 * row.honest_flagged:6.2f} % of honest updates, "
            f"{100 * row.attacks_flagged:5.1f} % of attacks, unjudged {100 * row.unjudged:5.1f} %; "
            f"{100 * row.gained:+6.2f} points beyond the mean, at worst {100 * row.worst:+6.2f}, "
            f"{100 * row.lost:5.2f} short of no attack"
        )
    for cell in sorted(report.cells, key=lambda cell: cell.gained):
        if cell.gained < -MOST_LOST:
            print(
                f"cell {100 * cell.gained:+.2f} points ({100 * cell.low:+.2f} to {100 * cell.high:+.2f}, "
                f"{cell.federations} seeds): {cell_name(cell.trial)}"
            )
    print(*report.summary, *report.violations, sep="\n")


if __name__ == "__main__":
    main()
