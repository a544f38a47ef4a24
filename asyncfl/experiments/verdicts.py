"""From tables to verdicts, and the verdicts of all experiments that are on disk."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import pandas as pd

from asyncfl.experiments.bounds import rows_of_bound
from asyncfl.experiments.cell_settings import CellSettings
from asyncfl.experiments.claims import Claim
from asyncfl.experiments.claims.base import PointVerdict
from asyncfl.experiments.csv_files import is_table, plain, read_csv, write_csv
from asyncfl.experiments.departures import texts, value_at
from asyncfl.experiments.evidence.decision import ALPHA, ONE_LOOK, Answer, Decision, Looks, all_of
from asyncfl.experiments.evidence.open_comparison import leaning, needed, why_undecided
from asyncfl.experiments.evidence.p_values import Reading, q_values, with_region
from asyncfl.experiments.evidence.power import visible
from asyncfl.experiments.grid import (
    Grid,
    MissingError,
    NotRunError,
    UnpublishedError,
    Where,
    bound_grid,
    describe,
    points,
    several,
)
from asyncfl.experiments.scores import REMADE, STAND_IN
from asyncfl.experiments.spec import SCALES, Author, Experiment, Scale
from asyncfl.scenario import Scenario

Verdict = Answer | Literal["depends", "not run"]
"""`depends`: it holds at some values of a setting on which the paper is silent, and fails or makes no difference at
others; `not run`: the claim
is about a part of the experiment that this scale leaves out."""


@dataclass(frozen=True)
class ClaimVerdict:
    """One row of the table of claims. Numbers are those of the comparison that decides, or that is missing."""

    experiment: str
    source: str
    claim: str
    check: str
    """Name of the check and what it was applied to."""
    verdict: Verdict
    of: Author = "ours"
    """Author of the claim: `paper`, `others` or `ours`; no score adds them up."""
    paper: str = ""
    """Short name of the paper that prints it; of our own claims that of the experiment's source."""
    sentence: str = ""
    """Sentence of the paper that it checks."""
    silent: str = ""
    """Settings of the compared cells on which the paper is silent."""
    against: str = ""
    """Settings of the compared cells that the paper prints otherwise; empty: it is judged as printed."""
    depends_on: str = ""
    """Settings on which the paper is silent, and which turn the verdict."""
    kind: str = ""
    """`statistical`, `count` or `deterministic`; empty where nothing could be compared."""
    effect: float = np.nan
    """Measured difference or value; a share of runs, of counts; a logarithm, where `check` says so."""
    low: float = np.nan
    """Lower end of its interval, at the level of the look: 95 % where there is only one."""
    high: float = np.nan
    threshold: float = np.nan
    """Effect at which the claim is neither true nor false; of counts the share of runs that may break it."""
    direction: float = np.nan
    """1 where the claim says that the effect lies above the threshold, -1 below it."""
    sd: float = np.nan
    """Standard deviation of the effect between seeds."""
    visible: float = np.nan
    """Smallest distance from the threshold that these seeds would have shown in four cases of five."""
    p: float = np.nan
    """p-value of the verdict, over all comparisons and looks; undecided, of what is likelier. NaN without chance."""
    leaning: str = ""
    """Undecided: the answer that the numbers lean to; empty where to none."""
    undecided: str = ""
    """Undecided: why."""
    spent: bool = False
    """Undecided: whether all seeds that were planned are used. Another look would make errors likelier than 2.5 %."""
    seeds_needed: float = np.nan
    """Undecided: seeds that would show an effect like the measured one in four cases of five; NaN: not to be had."""
    comparisons: int = 0
    margin: float = np.nan
    """Margin or tolerance that the claim grants; NaN where it grants none."""
    margin_why: str = ""
    smallest: float = np.nan
    """Smallest difference of the value that matters, as the experiment declares; NaN: none."""
    smallest_why: str = ""
    measured: str = "–"
    reason: str = ""
    expected: str = ""
    why: str = ""
    seeds: int = 0
    """Seeds that the comparison used."""
    scale: str = ""
    asked: str = ""
    """Digest of what the claim asks: its value, cells, numbers and options, without its words."""


def make_verdicts(experiment: Experiment, scale: Scale, folder: Path, looks: Looks | None = None) -> pd.DataFrame:
    """Judge the claims of an experiment from the tables in `folder`, write claims.csv and return its table.

    looks: those by which the tables' seeds were planned; None: those of the experiment.
    """
    table = verdicts_from(experiment, scale, folder, looks)
    write_csv(table, folder / "claims.csv")
    return table


def verdicts_from(experiment: Experiment, scale: Scale, folder: Path, looks: Looks | None = None) -> pd.DataFrame:
    """Judge the claims of an experiment from the tables in `folder`, on all seeds that these have.

    A claim on values over the rounds, where these are not published, has the verdict of claims.csv, as long as it asks
    the same.
    """
    ends, cells, of_bounds = (read_csv(folder / f"{name}.csv") for name in ("ends", "cells", "bounds"))
    runs = None
    if experiment.scenario is not None:
        original = cells["original"].astype(bool) | (cells["source"] == "embedded")
        sources = frozenset(cells["source"].where(original, "remade").astype(str))
        of_rounds = next((file for name in ROUNDS if is_table(file := folder / f"{name}.csv")), None)
        rounds = with_new_axes(experiment, read_csv(of_rounds)) if of_rounds else None
        runs = Grid(experiment.grid(scale), rounds, with_new_axes(experiment, ends), sources=sources)
    bounds = {name: bound_grid(spec.grid(), rows_of_bound(of_bounds, name)) for name, spec in experiment.bounds.items()}
    before = _before(folder / "claims.csv")
    return frame(judge(experiment, scale, runs, bounds, looks or experiment.seeds.looks(scale), before))


ROUNDS = ("rounds", "rounds_in_part")
"""Tables of values over the rounds: of all runs, or, where that is too large to be published, of some cells what claims
read."""


def with_new_axes(experiment: Experiment, table: pd.DataFrame) -> pd.DataFrame:
    """Add axes that the experiment was given since a table was made. Its rows are at the values of the scenario, and
    at no named variant (NaN): which that would be is not known. No claim of an experiment with such an axis is run."""
    new = [axis for axis in (*experiment.axes, *experiment.variants) if axis not in table]
    if not new or not len(table):
        return table
    scenario = Scenario.read(experiment.scenario).model_dump()
    values = {axis: np.nan if axis in experiment.variants else plain(value_at(scenario, axis)) for axis in new}
    return table.assign(**{axis: [value] * len(table) for axis, value in values.items()})


def _before(claims: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """Return (claim, check) -> the columns that were measured, of the verdicts of a file."""
    rows = read_csv(claims).to_dict("records") if claims.is_file() else []
    kept = (*MEASURED, "asked")
    return {(row["claim"], row["check"]): {name: row[name] for name in kept if name in row} for row in rows}


LISTED = 6
"""Settings up to which all are listed."""
MOST_MEASURED = 12
"""Most points whose measured values are listed in a verdict."""
MEASURED = (
    *("verdict", "kind", "effect", "low", "high", "threshold", "direction", "sd", "visible", "p", "leaning"),
    *("undecided", "spent", "seeds_needed", "comparisons", "measured", "reason", "seeds"),
)
"""Columns that follow from runs."""


def judge(
    experiment: Experiment,
    scale: str,
    runs: Grid | None,
    bounds: dict[str, Grid],
    looks: Looks = ONE_LOOK,
    before: Mapping[tuple[str, str], dict[str, Any]] = MappingProxyType({}),
) -> list[ClaimVerdict]:
    """Judge each claim of an experiment, in the order of the file.

    `runs`: the measured grid, None where the experiment has no scenario. `bounds`: grids of its bounds by name.
    `before`: (claim, check) -> columns of `MEASURED`, for claims whose values over the rounds are not published.
    """
    settings = CellSettings(experiment)
    verdicts = []
    for claim in experiment.claims:
        grid = bounds[claim.bound] if claim.bound else runs
        assert grid is not None
        found: dict[str, Any]
        try:
            found = _judged(claim, grid, looks, settings.silent_axes(claim))
        except NotRunError as missing:
            found = {"verdict": "not run", "reason": str(missing)}
        except UnpublishedError as missing:
            found = dict(before.get((claim.says, claim.title), {}))
            # Verdicts of before 0.2.0 do not say what was asked.
            if not found or found.pop("asked", "") not in ("", asked(claim)):
                found = {"verdict": "not decided", "reason": str(missing), "undecided": "missing"}
            found = _alike_as_published(found, claim, looks)
            if "spent" not in found:
                most = looks.at[-1] if looks.at else 0
                is_made = found.get("seeds", 0) >= most or found.get("undecided") == "given up"
                found["spent"] = found["verdict"] == "not decided" and found.get("undecided") != "missing" and is_made
        except MissingError as missing:
            found = {"verdict": "not decided", "reason": str(missing), "undecided": "missing"}
        if found["verdict"] != "not run" and claim.absolute and grid.sources - {"real"}:
            why = STAND_IN if "embedded" in grid.sources else REMADE
            measured = found.get("measured", "–")
            found = {"verdict": "not decided", "reason": why, "undecided": why, "measured": measured}
        verdicts.append(_row(claim, settings, scale="formula" if grid.exact else scale, **found))
    return verdicts


def _alike_as_published(found: dict[str, Any], claim: Claim, looks: Looks) -> dict[str, Any]:
    """Return a published verdict, `alike` where one comparison was open whose mean and standard deviation show that.

    found: columns of `MEASURED` of a claim whose values are not published.
    """
    is_open = found["verdict"] == "not decided" and found.get("kind") == "statistical" and found["comparisons"] == 1
    if not is_open or claim.smallest is None or not np.isfinite(found["sd"]):
        return found
    effect = found["direction"] * (found["effect"] - found["threshold"])
    reading = Reading("student", int(found["seeds"]), 1.0, 1.0, effect, np.nan, np.nan, found["sd"])
    reading = with_region(reading, np.empty(0), claim.smallest.difference)
    p = max(reading.p_above, reading.p_below) * ALPHA / looks.level(int(found["seeds"]))
    return {**found, "verdict": "alike", "p": p, "undecided": "", "leaning": ""} if p <= ALPHA else found


def judge_each_silent_value(
    claim: Claim, grid: Grid, looks: Looks, silent: Iterable[str]
) -> tuple[list[tuple[Where, list[PointVerdict]]], list[Where]]:
    """Judge a claim at each combination of values of the axes `silent`, on which its paper is silent; return also the
    combinations of this scale that are not run.

    Raises NotRunError where none is run, and MissingError.
    """
    tried, left = [], []
    reason: NotRunError | None = None
    for at in points({axis: several(claim.where.get(axis, grid.axes[axis])) for axis in silent}):
        try:
            tried.append((at, claim.model_copy(update={"where": {**claim.where, **at}}).judge(grid, looks)))
        except NotRunError as missing:
            reason = missing
            if all(value in grid.axes[axis] for axis, value in at.items()):
                left.append(at)
    if not tried:
        assert reason is not None
        raise reason
    return tried, left


def _judged(claim: Claim, grid: Grid, looks: Looks, silent: Mapping[str, str]) -> dict[str, Any]:
    """Judge a claim at each value of the axes on which its paper is silent; return the columns of the verdict.

    silent: axis -> its name in words. Raises as `judge_each_silent_value`.
    """
    tried, left = judge_each_silent_value(claim, grid, looks, silent)
    at_each = [(at, all_of([point.decision for point in of])) for at, of in tried]
    every = [point for _, of in tried for point in of]
    answers = {decision.answer for _, decision in at_each}
    if "holds" in answers and answers & {"does not hold", "alike"}:
        turning = [axis for axis in silent if _turns(axis, [(at, decision.answer) for at, decision in at_each])]
        names = ", ".join(silent[axis] for axis in turning or silent)
        held = [describe(at) for at, decision in at_each if decision.answer == "holds"]
        shown = " | ".join(held) if len(held) <= LISTED else f"{len(held)} of {len(at_each)} settings"
        return {
            **_numbers(every, all_of([point.decision for point in every])),
            "verdict": "depends",
            "depends_on": names,
            "reason": f"it depends on {names}: it holds at {shown}",
        }
    if left and "not decided" not in answers:
        # What is ours is varied before anything is said of a paper.
        numbers = _numbers(every, all_of([point.decision for point in every]))
        missing = "; ".join(map(describe, left[:LISTED]))
        verb = {"holds": "it holds", "alike": "it makes no difference"}.get(numbers["verdict"], "it does not hold")
        known = f"{verb} at {'; '.join(describe(at) for at, _ in tried[:LISTED])}"
        return {
            **{name: numbers[name] for name in ("kind", "effect", "low", "high", "threshold", "direction", "sd")},
            **{name: numbers[name] for name in ("visible", "comparisons", "measured", "seeds")},
            "verdict": "not decided",
            "undecided": "missing",
            "reason": f"{known}; not run at {missing}",
        }
    if "not decided" in answers:
        open_points = [
            point for at, of in tried for point in of if all_of([p.decision for p in of]).answer == "not decided"
        ]
        return _numbers(every, all_of([point.decision for point in open_points]))
    return _numbers(every, all_of([point.decision for point in every]))


def _turns(axis: str, answers: Sequence[tuple[Mapping[str, Any], Answer]]) -> bool:
    """Return whether a claim holds at one of two points that differ in this axis alone, and is decided otherwise at the
    other."""
    rest = [({name: value for name, value in at.items() if name != axis}, answer) for at, answer in answers]
    return any(
        at == other and one == "holds" and two in ("does not hold", "alike") for at, one in rest for other, two in rest
    )


def _row(claim: Claim, settings: CellSettings, **found: Any) -> ClaimVerdict:
    experiment = settings.experiment
    silent, against = texts(settings.of_claim(claim))
    return ClaimVerdict(
        experiment=experiment.name,
        source=str(experiment.source_of(claim)),
        claim=claim.says,
        check=claim.title,
        of=experiment.author(claim),
        paper=experiment.source_of(claim).paper,
        sentence=experiment.sentence_of(claim),
        silent=silent,
        against=against,
        margin=claim.margin_asked or np.nan,
        margin_why=experiment.margin_why(claim),
        smallest=np.nan if claim.smallest is None else claim.smallest.difference,
        smallest_why="" if claim.smallest is None else claim.smallest.why,
        expected=claim.expected,
        why=" ".join(claim.why.split()),
        asked=asked(claim),
        **found,
    )


def asked(claim: Claim) -> str:
    """Return a digest of what a claim asks: of all its fields but its words and sources."""
    fields_asked = claim.model_dump(mode="json", exclude=WORDS, exclude_defaults=True)
    return hashlib.sha256(json.dumps(fields_asked, sort_keys=True).encode()).hexdigest()[:12]


WORDS = {"says", "printed", "sentence", "paper", "margin_why", "expected", "why"}
"""Fields of a claim that no verdict follows from."""


def _numbers(points: list[PointVerdict], decision: Decision) -> dict[str, Any]:
    """Return the columns that follow from the deciding comparison, and the words about all points."""
    by, is_open = decision.by, decision.answer == "not decided"
    comparison, reading = by.comparison, by.reading
    low, high = sorted(comparison.shown(side) for side in (reading.low, reading.high))
    count = comparison.kind == "count"
    places = [f"{describe(point.at)}: " if point.at else "" for point in points]
    reason = next(at + point.reason for at, point in zip(places, points, strict=True) if point.decision.by is by)
    if len(points) > 1:
        reason = f"{sum(point.answer == 'holds' for point in points)} of {len(points)} hold; {reason}"
    if by.is_added:
        reason += f"; seeds beyond the plan, judged at the {by.alpha:.1%} in each direction that its looks have left"
    return {
        "verdict": decision.answer,
        "kind": comparison.kind,
        "effect": comparison.shown(reading.effect),
        "low": low,
        "high": high,
        "threshold": comparison.tolerated if count else comparison.threshold,
        "direction": -1.0 if count else comparison.sign,
        "sd": reading.sd,
        "visible": visible(reading.sd, reading.seeds, by.alpha) if reading.test == "student" else np.nan,
        "p": np.nan if comparison.kind == "deterministic" else decision.p,
        "leaning": leaning(by) if is_open else "",
        "undecided": why_undecided(by) if is_open else "",
        # one seed shows no difference, and has used nothing up
        "spent": is_open and reading.test != "none" and not decision.wanting,
        "seeds_needed": needed(by) if is_open else np.nan,
        "comparisons": decision.comparisons,
        "measured": _listed([at + point.measured for at, point in zip(places, points, strict=True)]),
        "reason": reason,
        "seeds": reading.seeds,
    }


def _listed(measured: Sequence[str]) -> str:
    """Return what was measured at each point; of many the first, and how many there are."""
    if len(measured) <= MOST_MEASURED:
        return " | ".join(measured)
    return " | ".join([*measured[:MOST_MEASURED], f"and {len(measured) - MOST_MEASURED} more, in the tables"])


def frame(verdicts: list[ClaimVerdict]) -> pd.DataFrame:
    return pd.DataFrame([asdict(v) for v in verdicts], columns=[f.name for f in fields(ClaimVerdict)])


@dataclass(frozen=True)
class FinishedExperiment:
    """An experiment's outputs at the best scale on disk."""

    experiment: Experiment
    scale: Scale
    folder: Path


def best_scale(results: str | Path, name: str) -> Scale | None:
    """Return the highest scale at which an experiment's verdicts are on disk; None: it has not been run."""
    done = [scale for scale in SCALES if (Path(results) / scale / name / "claims.csv").is_file()]
    return done[-1] if done else None


def finished(results: str | Path, experiments: Mapping[str, Experiment]) -> list[FinishedExperiment]:
    """List the experiments with results, in their order."""
    scales = {name: best_scale(results, name) for name in experiments}
    return [
        FinishedExperiment(experiments[name], scale, Path(results) / scale / name)
        for name, scale in scales.items()
        if scale
    ]


def _missing(done: Sequence[FinishedExperiment], experiments: Mapping[str, Experiment], on_request: bool) -> list[str]:
    names = {item.experiment.name for item in done}
    return [name for name, one in experiments.items() if one.on_request == on_request and name not in names]


def all_claims(
    done: Sequence[FinishedExperiment],
    experiments: Mapping[str, Experiment],
    not_run: Mapping[str, str] | None = None,
    without_data: Mapping[str, str] | None = None,
) -> pd.DataFrame:
    """Return the verdicts of all experiments, one row each; `q` is the q-value of `p` among all of the same author.

    Claims of experiments without results are `not run`: of those that `not_run` names, with the reason that it gives,
    or else of those that quick scale runs on request only, and of those that `without_data` names, with its reason.
    """
    scale = "quick" if not_run is None else "full"
    if not_run is None:
        command = "quick scale runs it on request: snakemake --cores 2 --config only="
        not_run = {name: f"{command}{name}" for name in _missing(done, experiments, on_request=True)}
        not_run |= without_data or {}
    there = {item.experiment.name for item in done}
    waiting = [
        _row(claim, settings, scale=scale, verdict="not run", reason=reason)
        for name, reason in not_run.items()
        if name not in there
        for settings in [CellSettings(experiments[name])]
        for claim in experiments[name].claims
    ]
    tables = [*(_read_claims(item.folder / "claims.csv") for item in done), frame(waiting)]
    tables = [table for table in tables if len(table)]
    if not tables:
        return frame([])
    claims = pd.concat(tables, ignore_index=True)
    claims.insert(list(claims).index("p") + 1, "q", claims.groupby("of")["p"].transform(q_values))
    return claims


def _read_claims(path: Path) -> pd.DataFrame:
    """Read a table of claims; columns of text that an earlier one lacks are empty."""
    table = read_csv(path)
    return table.assign(
        **{name: "" for name in ("sentence", "silent", "against", "depends_on", "smallest_why") if name not in table}
    )


def left_out(
    done: Sequence[FinishedExperiment],
    experiments: Mapping[str, Experiment],
    not_run: Mapping[str, str] | None = None,
    without_data: Mapping[str, str] | None = None,
) -> list[str]:
    """Return sentences that name the experiments without results, and why, or else the command that runs them."""
    there = {item.experiment.name for item in done}
    if not_run is not None:
        return [f"Not run: {name}: {why}." for name, why in not_run.items() if name not in there]
    known = without_data or {}
    told = [f"Not run: {name}: {why}." for name, why in known.items() if name not in there]
    missing, on_request = (
        [name for name in _missing(done, experiments, asked) if name not in known] for asked in (False, True)
    )
    told += [f"Not run yet: {', '.join(missing)}."] if missing else []
    command = f"snakemake --cores 2 --config only={','.join(on_request)}"
    return told + ([f"Run on request at quick scale, and at full scale: {command}"] if on_request else [])
