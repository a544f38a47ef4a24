"""The workflow's step from tables to verdicts.

The verdict on a claim is put together from those at the points that it leaves open.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from pathlib import Path

import pandas as pd

from asyncfl.analysis.bounds import of
from asyncfl.analysis.claims import Answer, Claim, PointVerdict
from asyncfl.analysis.grid import Grid, MissingError, bound_grid
from asyncfl.analysis.statistics import DECISIVE_SEEDS
from asyncfl.analysis.tables import read_csv, write_csv
from asyncfl.experiment import Experiment, Scale


@dataclass(frozen=True)
class ClaimVerdict:
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


def make_verdicts(experiment: Experiment, scale: Scale, folder: Path) -> None:
    """Judges every claim of the experiment from the tables in `folder` and writes claims.csv."""
    tables = {name: read_csv(folder / f"{name}.csv") for name in ("rounds", "ends", "cells", "bounds")}
    runs = None
    if experiment.scenario is not None:
        cells = tables["cells"]
        sources = frozenset(
            str(source) if original else "stand-in"
            for source, original in zip(cells["source"], cells["original"], strict=True)
        )
        runs = Grid(experiment.grid(scale), tables["rounds"], tables["ends"], sources=sources)
    bounds = {name: bound_grid(spec.grid(), of(tables["bounds"], name)) for name, spec in experiment.bounds.items()}
    write_csv(frame(judge(experiment, scale, runs, bounds)), folder / "claims.csv")


def judge(experiment: Experiment, scale: str, runs: Grid | None, bounds: dict[str, Grid]) -> list[ClaimVerdict]:
    """The verdict on each claim of an experiment, in the order of the file.

    `runs`: the measured grid, None where the experiment has no scenario. `bounds`: grids of its bounds by name.
    """
    return [
        _verdict(claim, experiment, scale, bounds[claim.bound] if claim.bound else runs) for claim in experiment.claims
    ]


def _verdict(claim: Claim, experiment: Experiment, scale: str, grid: Grid | None) -> ClaimVerdict:
    assert grid is not None
    found: list[PointVerdict] = []
    try:
        found = claim.judge(grid)
        answer, measured, reason = _together(found)
    except MissingError as missing:
        answer, measured, reason = "not decided", "–", str(missing)
    if claim.absolute and grid.sources - {"real"}:
        answer, reason = "not decided", "stand-in data"
    seeds = min((point.seeds for point in found), default=0)
    return ClaimVerdict(
        experiment=experiment.name,
        source=str(experiment.source),
        claim=claim.says,
        check=claim.title,
        verdict=answer,
        provisional=not grid.exact and seeds < DECISIVE_SEEDS,
        measured=measured,
        reason=reason,
        expected=claim.expected,
        why=" ".join(claim.why.split()),
        seeds=seeds,
        scale="formula" if grid.exact else scale,
    )


def _together(found: list[PointVerdict]) -> tuple[Answer, str, str]:
    """The claim holds where it holds at every point, does not where one does not; that one gives the reason."""
    by_answer = {
        answer: [f for f in found if f.answer == answer] for answer in ("does not hold", "not decided", "holds")
    }
    deciding = next(group for group in by_answer.values() if group)
    answer = deciding[0].answer
    measured = " | ".join(f"{f.place}: {f.measured}" if f.at else f.measured for f in found)
    reason = f"{deciding[0].place}: {deciding[0].reason}" if deciding[0].at else deciding[0].reason
    if len(found) > 1:
        reason = f"{len(by_answer['holds'])} of {len(found)} hold; {reason}"
    return answer, measured, reason


def frame(verdicts: list[ClaimVerdict]) -> pd.DataFrame:
    """Verdicts as a table, one row each."""
    return pd.DataFrame([asdict(v) for v in verdicts], columns=[f.name for f in fields(ClaimVerdict)])
