"""From tables to verdicts, and the verdicts of all experiments that are on disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from asyncfl.experiments.bounds import of
from asyncfl.experiments.claims import Claim
from asyncfl.experiments.claims.base import PointVerdict
from asyncfl.experiments.evidence.decision import ONE_LOOK, Answer, Decided, Decision, Looks, all_of
from asyncfl.experiments.evidence.p_values import clean_runs_needed, fewest_signs, seeds_needed, visible
from asyncfl.experiments.evidence.samples import q_values
from asyncfl.experiments.grid import Grid, MissingError, NotRunError, bound_grid
from asyncfl.experiments.run_tables import read_csv, write_csv
from asyncfl.experiments.spec import SCALES, Experiment, Scale
from asyncfl.experiments.wording import Score, score_of

Verdict = Answer | Literal["not run"]
"""`not run`: the claim is about a part of the experiment that this scale leaves out; it has no part in any score."""


@dataclass(frozen=True)
class ClaimVerdict:
    """One row of the table of claims. Numbers are those of the comparison that decides, or that is missing."""

    experiment: str
    source: str
    claim: str
    check: str
    """Name of the check and what it was applied to."""
    verdict: Verdict
    kind: str
    """`statistical`, `count` or `deterministic`; empty where nothing could be compared."""
    effect: float
    """What was measured: a difference, a value; a share of runs, of counts; a logarithm, where `check` says so."""
    low: float
    """Lower end of its interval, at the level of the look: 95 % where there is only one."""
    high: float
    threshold: float
    """Effect at which the claim is neither true nor false; of counts the share of runs that may break it."""
    direction: float
    """1 where the claim says that the effect lies above the threshold, -1 below it."""
    sd: float
    """Between seeds, of the effect."""
    visible: float
    """Smallest distance from the threshold that these seeds would have shown in four cases of five."""
    p: float
    """p-value of the verdict, over all comparisons and looks; undecided, of what is likelier. NaN without chance."""
    leaning: str
    """Undecided: the answer that the numbers lean to; empty where to none."""
    undecided: str
    """Undecided: why."""
    seeds_needed: float
    """Undecided: seeds that would show an effect like the measured one in four cases of five; NaN: not to be had."""
    comparisons: int
    margin: float
    """Margin or tolerance that the claim grants; NaN where it grants none."""
    margin_why: str
    measured: str
    reason: str
    expected: str
    why: str
    seeds: int
    """Seeds that the comparison used."""
    scale: str


def make_verdicts(experiment: Experiment, scale: Scale, folder: Path) -> Score:
    """The score of the experiment; judges its claims from the tables in `folder` and writes claims.csv."""
    tables = {name: read_csv(folder / f"{name}.csv") for name in ("rounds", "ends", "cells", "bounds")}
    runs = None
    if experiment.scenario is not None:
        cells = tables["cells"]
        sources = frozenset(
            str(source) if original or source == "embedded" else "remade"
            for source, original in zip(cells["source"], cells["original"], strict=True)
        )
        runs = Grid(experiment.grid(scale), tables["rounds"], tables["ends"], sources=sources)
    bounds = {name: bound_grid(spec.grid(), of(tables["bounds"], name)) for name, spec in experiment.bounds.items()}
    verdicts = judge(experiment, scale, runs, bounds, experiment.seeds.looks(scale))
    table = frame(verdicts)
    write_csv(table, folder / "claims.csv")
    return score_of(table)


def judge(
    experiment: Experiment, scale: str, runs: Grid | None, bounds: dict[str, Grid], looks: Looks = ONE_LOOK
) -> list[ClaimVerdict]:
    """Judge each claim of an experiment, in the order of the file.

    `runs`: the measured grid, None where the experiment has no scenario. `bounds`: grids of its bounds by name.
    """
    verdicts = []
    for claim in experiment.claims:
        grid = bounds[claim.bound] if claim.bound else runs
        assert grid is not None
        decision: Decision | None = None
        answer: Verdict
        measured, undecided = "–", ""
        try:
            found = claim.judge(grid, looks)
            decision = all_of([point.decision for point in found])
            answer, measured, reason = _together(found, decision)
            undecided = "" if answer != "not decided" else why_undecided(decision.by)
        except NotRunError as missing:
            answer, reason = "not run", str(missing)
        except MissingError as missing:
            answer, reason, undecided = "not decided", str(missing), "missing"
        if answer != "not run" and claim.absolute and grid.sources - {"real"}:
            reason = "stand-in data" if "embedded" in grid.sources else "remade data"
            answer, undecided, decision = "not decided", reason, None
        of = "formula" if grid.exact else scale
        verdicts.append(_row(claim, experiment, of, decision, answer, measured, reason, undecided))
    return verdicts


def not_run(experiment: Experiment) -> list[ClaimVerdict]:
    """The claims of an experiment that quick scale runs on request only, and that has no results."""
    reason = f"quick scale runs it on request: snakemake --cores 2 --config only={experiment.name}"
    return [_row(claim, experiment, "quick", None, "not run", "–", reason, "") for claim in experiment.claims]


def _row(
    claim: Claim,
    experiment: Experiment,
    scale: str,
    decision: Decision | None,
    answer: Verdict,
    measured: str,
    reason: str,
    undecided: str,
) -> ClaimVerdict:
    return ClaimVerdict(
        experiment=experiment.name,
        source=str(experiment.source),
        claim=claim.says,
        check=claim.title,
        verdict=answer,
        **_numbers(decision, answer),
        undecided=undecided,
        margin=claim.margin_asked or np.nan,
        margin_why=experiment.margin_why(claim),
        measured=measured,
        reason=reason,
        expected=claim.expected,
        why=" ".join(claim.why.split()),
        seeds=0 if decision is None else decision.by.reading.seeds,
        scale=scale,
    )


def _numbers(decision: Decision | None, answer: Verdict) -> dict[str, Any]:
    """The columns that follow from the deciding comparison."""
    if decision is None:
        empty = dict.fromkeys(("effect", "low", "high", "threshold", "direction"), np.nan)
        empty |= dict.fromkeys(("sd", "visible", "p", "seeds_needed"), np.nan)
        return {"kind": "", **empty, "leaning": "", "comparisons": 0}
    by = decision.by
    comparison, reading = by.comparison, by.reading
    low, high = sorted(comparison.shown(side) for side in (reading.low, reading.high))
    is_open = answer == "not decided"
    return {
        "kind": comparison.kind,
        "effect": comparison.shown(reading.effect),
        "low": low,
        "high": high,
        "threshold": comparison.tolerated if comparison.kind == "count" else comparison.threshold,
        "direction": -1.0 if comparison.kind == "count" else comparison.sign,
        "sd": reading.sd,
        "visible": visible(reading.sd, reading.seeds, by.alpha) if reading.test == "student" else np.nan,
        "p": np.nan if comparison.kind == "deterministic" else decision.p,
        "leaning": leaning(by) if is_open else "",
        "seeds_needed": _needed(by) if is_open else np.nan,
        "comparisons": decision.comparisons,
    }


def leaning(by: Decided) -> str:
    """The answer that an undecided comparison leans to; empty where it is within a standard error of neither."""
    t, least = by.reading.t, 1.0 if by.reading.test == "student" else 1e-9
    return "holds" if t >= least else "does not hold" if t <= -least else ""


def why_undecided(by: Decided) -> str:
    """`no variance known`, `given up`, `bounded by its margin` or `underpowered`."""
    reading, room = by.reading, by.comparison.room
    if reading.test == "none":
        return "no variance known"
    if by.is_futile:
        return "given up"
    if room is not None and reading.test == "student" and visible(reading.sd, reading.seeds, by.alpha) > room:
        return "bounded by its margin"
    return "underpowered"


def _needed(by: Decided) -> float:
    """Seeds that an answer would take; NaN where more seeds are no way to one."""
    reading = by.reading
    if reading.test == "student":
        number = seeds_needed(reading.effect, reading.sd, by.alpha)
        return np.nan if number is None else max(number, reading.seeds + 1)
    if reading.test == "runs":
        return clean_runs_needed(by.comparison.tolerated, by.alpha) if reading.effect == 0 else np.nan
    fewest = fewest_signs(by.alpha)
    return fewest if reading.seeds < fewest else np.nan


def _together(found: list[PointVerdict], decision: Decision) -> tuple[Answer, str, str]:
    """The answer, all that was measured, and the reason at the point that decides."""
    deciding = next(point for point in found if point.decision.by is decision.by)
    measured = " | ".join(f"{point.place}: {point.measured}" if point.at else point.measured for point in found)
    reason = f"{deciding.place}: {deciding.reason}" if deciding.at else deciding.reason
    if len(found) > 1:
        reason = f"{sum(point.answer == 'holds' for point in found)} of {len(found)} hold; {reason}"
    return decision.answer, measured, reason


def frame(verdicts: list[ClaimVerdict]) -> pd.DataFrame:
    """Verdicts as a table, one row each."""
    return pd.DataFrame([asdict(v) for v in verdicts], columns=[f.name for f in fields(ClaimVerdict)])


@dataclass(frozen=True)
class Finished:
    """An experiment's outputs at the best scale there is."""

    experiment: Experiment
    scale: Scale
    folder: Path


def best_scale(results: str | Path, name: str) -> Scale | None:
    """Return the highest scale at which an experiment's verdicts are on disk; None: it has not been run."""
    done = [scale for scale in SCALES if (Path(results) / scale / name / "claims.csv").is_file()]
    return done[-1] if done else None


def finished(results: str | Path, experiments: Mapping[str, Experiment]) -> list[Finished]:
    """List what is there to report, in the order of the experiments."""
    scales = {name: best_scale(results, name) for name in experiments}
    return [Finished(experiments[name], scale, Path(results) / scale / name) for name, scale in scales.items() if scale]


def waiting(done: Sequence[Finished], experiments: Mapping[str, Experiment]) -> dict[str, Experiment]:
    """The experiments without results that quick scale runs on request only."""
    names = {item.experiment.name for item in done}
    return {name: experiment for name, experiment in experiments.items() if experiment.on_request and name not in names}


def all_claims(done: Sequence[Finished], experiments: Mapping[str, Experiment]) -> pd.DataFrame:
    """Return the verdicts of all experiments, one row each; `q` is the q-value of `p` among all of them.

    Claims of experiments that wait for a request are `not run`.
    """
    left_out = [verdict for experiment in waiting(done, experiments).values() for verdict in not_run(experiment)]
    tables = [*(read_csv(item.folder / "claims.csv") for item in done), frame(left_out)]
    frames = [table for table in tables if len(table)]
    if not frames:
        return pd.DataFrame(columns=["experiment", "verdict"])
    claims = pd.concat(frames, ignore_index=True)
    claims.insert(list(claims).index("p") + 1, "q", q_values(claims["p"]))
    return claims


def left_out(done: Sequence[Finished], experiments: Mapping[str, Experiment]) -> list[str]:
    """Sentences that name the experiments without results, and the command that runs them."""
    on_request = waiting(done, experiments)
    missing = [name for name in experiments if name not in {item.experiment.name for item in done} | on_request.keys()]
    command = f"snakemake --cores 2 --config only={','.join(on_request)}"
    told = [f"Not run yet: {', '.join(missing)}."] if missing else []
    return told + ([f"Run on request at quick scale, and at full scale: {command}"] if on_request else [])
