"""Verdicts: what the checks found, put together per claim."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields

import pandas as pd

from asyncfl.analysis.checks import Answer, Finding, findings, place_of
from asyncfl.analysis.grid import Grid, MissingError
from asyncfl.analysis.statistics import DECISIVE_SEEDS
from asyncfl.experiment import Claim, Experiment


@dataclass(frozen=True)
class Verdict:
    """One row of the table of claims."""

    experiment: str
    source: str
    claim: str
    check: str
    """Name of the check and what it was applied to."""
    verdict: Answer
    provisional: bool
    """Fewer than five seeds."""
    measured: str
    reason: str
    expected: str
    why: str
    seeds: int
    scale: str


def judge(experiment: Experiment, scale: str, runs: Grid | None, bounds: dict[str, Grid]) -> list[Verdict]:
    """The verdict on each claim of an experiment, in the order of the file.

    `runs`: the measured grid, None where the experiment has no scenario. `bounds`: grids of its bounds by name.
    """
    return [
        _verdict(claim, experiment, scale, bounds[claim.bound] if claim.bound else runs) for claim in experiment.claims
    ]


def _verdict(claim: Claim, experiment: Experiment, scale: str, grid: Grid | None) -> Verdict:
    assert grid is not None
    about = f"{claim.check}: {claim.value}"
    about += " (logarithm)" if claim.log else ""
    along = getattr(claim, "along", None)
    if along:
        about += f" along {along}"
    found: list[Finding] = []
    try:
        found = findings(claim, grid)
        answer, measured, reason = _together(found)
    except MissingError as missing:
        answer, measured, reason = "not decided", "–", str(missing)
    if claim.absolute and grid.sources - {"real"}:
        answer, reason = "not decided", "stand-in data"
    seeds = min((finding.seeds for finding in found), default=0)
    return Verdict(
        experiment=experiment.name,
        source=str(experiment.source),
        claim=claim.says,
        check=about,
        verdict=answer,
        provisional=not grid.exact and seeds < DECISIVE_SEEDS,
        measured=measured,
        reason=reason,
        expected=claim.expected,
        why=" ".join(claim.why.split()),
        seeds=seeds,
        scale="formula" if grid.exact else scale,
    )


def _together(found: list[Finding]) -> tuple[Answer, str, str]:
    """The claim holds where every finding holds, does not where one does not; that one gives the reason."""
    by_answer = {
        answer: [f for f in found if f.answer == answer] for answer in ("does not hold", "not decided", "holds")
    }
    deciding = next(group for group in by_answer.values() if group)
    answer = deciding[0].answer
    measured = " | ".join(f"{place_of(f)}: {f.measured}" if f.at else f.measured for f in found)
    reason = f"{place_of(deciding[0])}: {deciding[0].reason}" if deciding[0].at else deciding[0].reason
    if len(found) > 1:
        reason = f"{len(by_answer['holds'])} of {len(found)} hold; {reason}"
    return answer, measured, reason


def frame(verdicts: list[Verdict]) -> pd.DataFrame:
    """Verdicts as a table, one row each."""
    return pd.DataFrame([asdict(v) for v in verdicts], columns=[f.name for f in fields(Verdict)])
