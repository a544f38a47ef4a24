"""One-run audit with canaries: how much an attacker who counts them proves about epsilon, from below.

Canaries change what is trained, so the audit simulates a run of its own: the audited scenario with `data.canaries`,
under its own hash, in `audit/canaries-HASH` of the run's folder. Of each adversary the scores of `recognition` are
computed from what it holds; how many of them are guessed is planned before any score is known
(`privacy.estimators.guesses`). The level of 5 % is shared between the scores of an adversary, and within each between
the plans, so that the best of them may be told: each bound holds at 95 % confidence, for one adversary and one seed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from asyncfl.audit.attacks_table import audit_folder, write_attacks
from asyncfl.audit.canary_scores import CanaryScorer, of_honest_clients
from asyncfl.audit.finished_run import FinishedRun, with_sparse_evaluation
from asyncfl.audit.held_releases import held_releases
from asyncfl.data.canaries import Canaries
from asyncfl.errors import Fault, RunError, ScenarioError
from asyncfl.federation import SeedLedger, SeedRun
from asyncfl.federation.round_recorder import Progress
from asyncfl.files.atomic import atomic_file, write_text
from asyncfl.learning.compute_settings import computing_with
from asyncfl.privacy.accounting.gaussian import exact_epsilon
from asyncfl.privacy.estimators.one_run import GuessBound, best_lower_bound, largest_detectable_epsilon
from asyncfl.privacy.estimators.one_run_gaussian import best_mu_lower_bound, epsilon_at
from asyncfl.run_files import conditions_of
from asyncfl.scenario import Scenario
from asyncfl.simulation import SimulatedRuns, simulate_seed
from asyncfl.stages import Stage, nobody_waits, one_by_one

METHOD = "canaries"
LEVEL = 0.05
NEIGHBOURS = {"sample": "one sample replaced", "client": "one client's updates zeroed"}

OPTIONS = {
    "data.canaries.count": "--count",
    "data.canaries.unit": "--unit",
    "data.canaries.kind": "--kind",
}
"""Field -> how it is given on the command line."""

FOUND = {
    "seed": pa.int64(),
    "method": pa.string(),
    "adversary": pa.string(),
    "unit": pa.string(),
    "neighbours": pa.string(),
    "delta": pa.float64(),
    "claimed_epsilon": pa.float64(),
    "exact_epsilon": pa.float64(),
    "measured": pa.float64(),
    "most": pa.float64(),
    "measured_gaussian": pa.float64(),
    "held": pa.int64(),
    "score": pa.string(),
    "canaries": pa.int64(),
    "guesses": pa.int64(),
    "right": pa.int64(),
    "run": pa.string(),
}
"""Columns of what is found, one row per seed and adversary. `measured`: lower bound on epsilon at 95 %, whatever the
mechanism is; `most`: the largest that so many canaries could show; `measured_gaussian`: the bound if all noise is
Gaussian (null where it is not, or without a delta); `claimed_epsilon` and `exact_epsilon`: the largest in the ledger of
the run with canaries (null where they are for another delta, or for a smaller unit than the canaries); `held`: scores
that the adversary can compute; `score`, `guesses`, `right`: where `measured` comes from; `run`: hash of the run with
canaries."""


@dataclass(frozen=True)
class CanaryAudit:
    """What an audit with canaries found."""

    scenario: Scenario
    """The run with canaries."""
    found: pa.Table
    """See `FOUND`."""
    scores: pa.Table
    """Seed, canary, its client, whether it was in, and for each adversary and score what the canary got."""


def planted(finished: FinishedRun, canaries: Canaries) -> Scenario:
    """The audited scenario with canaries. Raises ScenarioError where they have no room."""
    scenario = finished.run.scenario
    if scenario.data.canaries is not None and scenario.data.canaries != canaries:
        there = scenario.data.canaries
        raise ScenarioError(
            [
                Fault(
                    "--count",
                    f"must be {there.count} {there.unit}s, kind {there.kind}: the run has these planted already; or "
                    "audit a run without data.canaries",
                )
            ]
        )
    try:
        return scenario.override({"data.canaries": canaries.model_dump()})
    except ScenarioError as error:
        own = [Fault(OPTIONS.get(fault.field, fault.field), fault.message) for fault in error.faults]
        raise ScenarioError(own, error.source) from None


def audit_canaries(
    finished: FinishedRun,
    canaries: Canaries,
    seeds: tuple[int, ...],
    delta: float | None = None,
    progress: Progress | None = None,
    stage: Stage = nobody_waits,
) -> CanaryAudit:
    """Simulate the run with canaries, and count which of them each adversary recognises.

    `delta`: what the lower bounds are for, 0..1, exclusive of 1; None: the delta of what the scheme claims, 0 where it
    claims nothing.

    Raises ScenarioError where the canaries have no room, RunError where the run with them diverges.
    """
    scenario, prior = planted(finished, canaries), SimulatedRuns()
    rows: list[dict[str, Any]] = []
    scores: list[pa.Table] = []
    for seed in seeds:
        watch = CanaryScorer()
        if finished.run.scenario.data.canaries is None:
            with computing_with(*conditions_of(finished.folder, seed)):
                run = simulate_seed(with_sparse_evaluation(scenario), seed, progress, prior, around=watch.around)
                judged = _judged(run, watch, finished.folder)
        else:
            run = finished.resimulate(seed, watch.around, progress, prior)
            judged = _judged(run, watch, finished.folder)
        rows += list(_rows(run, judged, canaries, scenario.digest(), delta, stage))
        scores.append(_scores(run, watch, judged))
    found = pa.Table.from_pylist(rows, schema=pa.schema(list(FOUND.items())))
    return CanaryAudit(scenario, found, pa.concat_tables(scores, promote_options="default"))


Judged = dict[str, tuple[dict[str, NDArray[np.float64]], NDArray[np.bool_]]]
"""Adversary -> score -> (m,) value of each canary of an honest client, and (m,) the coins."""


def _judged(run: SeedRun, watch: CanaryScorer, folder: Path) -> Judged:
    if run.diverged or watch.planted is None:
        raise RunError(
            f"{folder}: with canaries seed {run.seed} diverges ({run.stopped}), so nothing can be measured; plant "
            "fewer, or audit another seed with --seed"
        )
    members = run.attackers
    return {
        who: of_honest_clients(watch.scores(own), watch.planted, members) for who, own in held_releases(run).items()
    }


def _rows(
    run: SeedRun, judged: Judged, canaries: Canaries, digest: str, delta: float | None, stage: Stage
) -> Iterator[dict[str, Any]]:
    """A row for each adversary; one that holds nothing shows nothing."""
    ledger = SeedLedger(run, stage).ledger.to_pandas()
    gaussian = bool((ledger["distribution"] == "gaussian").all())
    what = f"adversaries judged in seed {run.seed}"
    for who, (scores, included) in one_by_one(list(judged.items()), stage, what):
        stated = _stated(ledger, who, canaries.unit, delta)
        tried = scores if len(included) else {}
        level = LEVEL / max(len(tried), 1)
        shown = {name: best_lower_bound(values, included, stated.delta, level) for name, values in tried.items()}
        best = max(shown.values(), key=lambda one: one.epsilon, default=GuessBound(0.0, 0, 0))
        known = gaussian and stated.delta > 0
        mus = [best_mu_lower_bound(values, included, level) for values in tried.values()] if known else []
        yield {
            "seed": run.seed,
            "method": METHOD,
            "adversary": who,
            "unit": canaries.unit,
            "neighbours": NEIGHBOURS[canaries.unit],
            "delta": stated.delta,
            "claimed_epsilon": stated.claimed,
            "exact_epsilon": stated.exact,
            "measured": best.epsilon,
            "most": largest_detectable_epsilon(len(included), stated.delta, level) if tried else 0.0,
            "measured_gaussian": epsilon_at(max(mus, default=0.0), stated.delta) if known else None,
            "held": len(tried),
            "score": next((name for name, one in shown.items() if one is best and one.guesses), None),
            "canaries": len(included),
            "guesses": best.guesses,
            "right": best.right,
            "run": digest,
        }


@dataclass(frozen=True)
class _Stated:
    """What the ledger of the run with canaries says of one adversary."""

    claimed: float | None
    """Largest claim of a row; None where it is for another delta, or for a smaller unit than the canaries."""
    exact: float | None
    delta: float


def _stated(ledger: pd.DataFrame, who: str, unit: str, delta: float | None) -> _Stated:
    """The largest epsilons of what `who` holds; `delta` None: the claim's."""
    rows = ledger[ledger["adversary"] == who]
    claims = rows[np.isfinite(rows["claimed_epsilon"])]
    own = float(claims["delta"].max()) if len(claims) else 0.0
    if unit == "client" and len(claims) and not (claims["unit"] == "client").any():
        return _Stated(None, None, own if delta is None else delta)
    rows = rows[rows["releases"] > 0] if (rows["releases"] > 0).any() else rows
    if delta is None or delta == own or not np.isfinite(rows["squared_mu"]).all():
        other = delta not in (None, own) and len(claims) > 0
        claimed = float(claims["claimed_epsilon"].max()) if len(claims) else np.inf
        return _Stated(None if other else claimed, float(rows["exact_epsilon"].max()), own if delta is None else delta)
    gaussian = (rows["distribution"] == "gaussian").all() and delta > 0
    return _Stated(None, float(exact_epsilon(rows["squared_mu"].max(), delta)) if gaussian else None, delta)


def _scores(run: SeedRun, watch: CanaryScorer, judged: Judged) -> pa.Table:
    """The coins, and what each canary of an honest client got."""
    everything = watch.planted
    if everything is None:
        raise ValueError("nothing was planted")
    honest = np.flatnonzero(~np.isin(everything.owners, run.attackers))
    columns: dict[str, Any] = {
        "seed": np.full(len(honest), run.seed, dtype=np.int64),
        "canary": honest,
        "client": everything.owners[honest],
        "included": everything.included[honest],
    }
    for who, (scores, _) in judged.items():
        columns |= {f"{who}: {name}": values for name, values in scores.items()}
    return pa.table(columns)


def save(finished: FinishedRun, audit: CanaryAudit) -> Path:
    """Write what was found to `audit/attacks.parquet`, scenario and scores of the run with canaries to a folder there.

    Returns that folder. Raises OutputError.
    """
    folder = audit_folder(finished.folder, f"{METHOD}-{audit.scenario.digest()}")
    write_text(audit.scenario.to_yaml(), folder / "scenario.yaml")
    with atomic_file(folder / "scores.parquet") as path, path.open("wb") as file:
        pq.write_table(audit.scores, file, compression="zstd")
    write_attacks(finished.folder, audit.found)
    return folder
