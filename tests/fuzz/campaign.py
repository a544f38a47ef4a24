"""Many mutants in a row, and what was found, each defect once."""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.fuzz.judging import Finding, bounded_memory, judge
from tests.fuzz.subjects import Subject


@dataclass
class Report:
    """What became of all mutants."""

    outcomes: Counter[str] = field(default_factory=Counter)
    findings: dict[tuple[str, str], str] = field(default_factory=dict)
    """(what, where) -> seed, change and text of the first mutant that showed it."""

    def __str__(self) -> str:
        told = [f"{what}\n    at {where}\n    {first}" for (what, where), first in self.findings.items()]
        return "\n".join([", ".join(f"{number} {name}" for name, number in self.outcomes.items()), *told])


def campaign(
    subject: Subject, mutations: int, seed: int, folder: Path, told: Callable[[str], None] | None = None
) -> Report:
    """What becomes of `mutations` mutants of a subject; mutant i is drawn from (seed, i) alone."""
    report = Report()
    with bounded_memory():
        for number in range(mutations):
            case = subject(random.Random(f"{seed}/{number}"), folder)
            outcome = judge(case.call)
            if outcome == "accepted" and case.nonsense:
                outcome = Finding("nonsense was accepted", case.change)
            if isinstance(outcome, Finding):
                report.outcomes["found"] += 1
                place = (outcome.what[:60], outcome.where)
                if place not in report.findings:
                    report.findings[place] = f"{seed}/{number}: {case.change[:300]}\n    {case.text[:1500]!r}"
                    if told is not None:
                        told(f"{outcome.what}\n    at {outcome.where}\n    {report.findings[place]}")
            else:
                report.outcomes[outcome] += 1
    return report
