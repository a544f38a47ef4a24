"""One-run audit with canaries: a lower bound on epsilon from the canaries that an adversary recognises.

Source: Steinke, Nasr, Jagielski 2023, "Privacy Auditing with One (1) Training Run".

Canaries change what is trained, so the audit simulates a run of its own: the audited scenario with `data.canaries`,
under its own hash, in `audit/canaries-HASH` of the run's folder. The scores of `canary_scores` are computed from what
each adversary holds. The number of guesses is fixed before any score is known (`privacy.estimators.one_run`). The level
of 5 % is divided among the scores of an adversary, and among the guessing plans of each score, so the largest bound may
be reported: it holds at 95 % confidence for one adversary and one seed.

The audit bounds the largest epsilon among the clients that hold canaries, without saying which client has it. In the
ledger of the audited run it is therefore entered for the client among them with the largest epsilon, and for the
published models, whose row belongs to the worst client.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from asyncfl.audit.attacks_table import audit_folder, columns, write_attacks
from asyncfl.audit.canary_scores import CanaryScorer, held_releases, of_honest_clients
from asyncfl.audit.finished_run import FinishedRun, with_sparse_evaluation
from asyncfl.base.errors import Fault, RunError, ScenarioError
from asyncfl.base.files.atomic import atomic_file, write_text
from asyncfl.base.progress import Stage, ignore_progress, one_by_one
from asyncfl.data.canaries import Canaries
from asyncfl.federation import SeedLedger, SeedRun
from asyncfl.federation.round_recorder import Progress
from asyncfl.federation.storage import Run
from asyncfl.privacy.accounting.gaussian import exact_epsilon
from asyncfl.privacy.estimators.one_run import (
    GuessBound,
    best_lower_bound,
    best_mu_lower_bound,
    epsilon_at,
    largest_detectable_epsilon,
)
from asyncfl.privacy.ledger.audit_columns import Row, with_measured, without_measured
from asyncfl.privacy.ledger.statements import statements
from asyncfl.scenario import Scenario
from asyncfl.simulation import SimulatedRuns, simulate_seed

METHOD = "canaries"
LEVEL = 0.05
NEIGHBOURS = {"sample": "one sample replaced", "client": "one client's updates zeroed"}

FOUND = columns(
    "seed:i method adversary unit neighbours delta:f claimed_epsilon:f exact_epsilon:f measured:f most:f "
    "measured_gaussian:f held:i score canaries:i guesses:i right:i run"
)
"""Columns of the results, one row per seed and adversary.

- `measured`: lower bound on epsilon at 95 % confidence, for any mechanism
- `most`: largest bound that this number of canaries can give
- `measured_gaussian`: bound under the assumption that all noise is Gaussian; null if it is not, or at delta 0
- `claimed_epsilon`, `exact_epsilon`: largest in the ledger of the run with canaries; null if they hold for another
  delta, or for a smaller unit than the canaries
- `held`: number of scores that the adversary can compute
- `score`, `guesses`, `right`: score that gave `measured`, guesses by it, and right guesses
- `run`: hash of the run with canaries
"""


@dataclass(frozen=True)
class CanaryAudit:
    """Results of an audit with canaries."""

    scenario: Scenario
    found: pa.Table
    """Measured epsilons, one row per seed and adversary; the columns are `FOUND`."""
    scores: pa.Table
    """One row per canary: seed, number, client, whether it was included, and its value of each adversary's scores."""


def with_canaries(finished: FinishedRun, canaries: Canaries) -> Scenario:
    """Return the audited scenario with canaries. Raises ScenarioError if they do not fit."""
    scenario = finished.run.scenario
    there = scenario.data.canaries
    if there is not None and there != canaries:
        planted = f"{there.count} {there.unit}s of kind {there.kind}"
        message = f"must be {planted}, which the run contains already; or audit a run without data.canaries"
        raise ScenarioError([Fault("--count", message)])
    try:
        return scenario.override({"data.canaries": canaries.model_dump()})
    except ScenarioError as error:
        own = [Fault(fault.field.replace("data.canaries.", "--"), fault.message) for fault in error.faults]
        raise ScenarioError(own, error.source) from None


def audit_canaries(
    finished: FinishedRun,
    canaries: Canaries,
    seeds: tuple[int, ...],
    delta: float | None = None,
    progress: Progress | None = None,
    stage: Stage = ignore_progress,
) -> CanaryAudit:
    """Simulate the run with canaries, and bound epsilon by the canaries that each adversary recognises.

    `delta`: delta of the lower bounds, 0 <= delta < 1; None: the delta of the scheme's claim, 0 without a claim.

    Raises ScenarioError if the canaries do not fit into the data, RunError if the run with canaries diverges.
    """
    scenario, prior = with_canaries(finished, canaries), SimulatedRuns()
    rows: list[dict[str, Any]] = []
    scores: list[pa.Table] = []
    for seed in seeds:
        watch = CanaryScorer()
        if finished.run.scenario.data.canaries is None:
            with finished.compute_settings(seed):
                run = simulate_seed(with_sparse_evaluation(scenario), seed, progress, prior, around=watch.around)
                scored = _scored(run, watch, finished.folder)
        else:
            run = finished.resimulate(seed, watch.around, progress, prior)
            scored = _scored(run, watch, finished.folder)
        rows += list(_rows(run, scored, canaries, scenario.digest(), delta, stage))
        scores.append(_scores(run, watch, scored))
    found = pa.Table.from_pylist(rows, schema=pa.schema(list(FOUND.items())))
    return CanaryAudit(scenario, found, pa.concat_tables(scores, promote_options="default"))


Scored = dict[str, tuple[dict[str, NDArray[np.float64]], NDArray[np.bool_]]]
"""Adversary -> (score -> (m,) values of the canaries of honest clients, (m,) whether each was included)."""


def _scored(run: SeedRun, watch: CanaryScorer, folder: Path) -> Scored:
    """Return the scores that each adversary can compute. Raises RunError if the run with canaries diverged."""
    if run.diverged or watch.planted is None:
        raise RunError(
            f"{folder}: with canaries seed {run.seed} diverges ({run.stopped}), so nothing can be measured; plant "
            "fewer, or audit another seed with --seed"
        )
    held, planted = held_releases(run), watch.planted
    return {who: of_honest_clients(watch.scores(own), planted, run.attackers) for who, own in held.items()}


def _rows(
    run: SeedRun, scored: Scored, canaries: Canaries, digest: str, delta: float | None, stage: Stage
) -> Iterator[dict[str, Any]]:
    ledger = SeedLedger(run, stage).ledger.to_pandas()
    gaussian = bool((ledger["distribution"] == "gaussian").all())
    what = f"adversaries judged in seed {run.seed}"
    for who, (scores, included) in one_by_one(list(scored.items()), stage, what):
        claim = _claim_of(ledger, who, canaries.unit, delta)
        tried = scores if len(included) else {}
        level = LEVEL / max(len(tried), 1)
        shown = {name: best_lower_bound(values, included, claim.delta, level) for name, values in tried.items()}
        best = max(shown.values(), key=lambda one: one.epsilon, default=GuessBound(0.0, 0, 0))
        known = gaussian and claim.delta > 0
        mus = [best_mu_lower_bound(values, included, level) for values in tried.values()] if known else []
        yield {
            "seed": run.seed,
            "method": METHOD,
            "adversary": who,
            "unit": canaries.unit,
            "neighbours": NEIGHBOURS[canaries.unit],
            "delta": claim.delta,
            "claimed_epsilon": claim.claimed,
            "exact_epsilon": claim.exact,
            "measured": best.epsilon,
            "most": largest_detectable_epsilon(len(included), claim.delta, level) if tried else 0.0,
            "measured_gaussian": epsilon_at(max(mus, default=0.0), claim.delta) if known else None,
            "held": len(tried),
            "score": next((name for name, one in shown.items() if one is best and one.guesses), None),
            "canaries": len(included),
            "guesses": best.guesses,
            "right": best.right,
            "run": digest,
        }


class _Claim(NamedTuple):
    claimed: float | None
    """Largest claimed epsilon; None: it holds for another delta, or for a smaller unit than the canaries."""
    exact: float | None
    delta: float


def _claim_of(ledger: pd.DataFrame, who: str, unit: str, delta: float | None) -> _Claim:
    """Return the largest epsilons of the adversary `who` in the ledger of the run with canaries, see `_Claim`."""
    rows = ledger[ledger["adversary"] == who]
    claims = rows[np.isfinite(rows["claimed_epsilon"])]
    own = float(claims["delta"].max()) if len(claims) else 0.0
    if unit == "client" and len(claims) and not (claims["unit"] == "client").any():
        return _Claim(None, None, own if delta is None else delta)
    rows = rows[rows["releases"] > 0] if (rows["releases"] > 0).any() else rows
    if delta is None or delta == own or not np.isfinite(rows["squared_mu"]).all():
        other = delta not in (None, own) and len(claims) > 0
        claimed = float(claims["claimed_epsilon"].max()) if len(claims) else np.inf
        return _Claim(None if other else claimed, float(rows["exact_epsilon"].max()), own if delta is None else delta)
    gaussian = (rows["distribution"] == "gaussian").all() and delta > 0
    return _Claim(None, float(exact_epsilon(rows["squared_mu"].max(), delta)) if gaussian else None, delta)


def _scores(run: SeedRun, watch: CanaryScorer, scored: Scored) -> pa.Table:
    everything = watch.planted
    if everything is None:
        raise ValueError("the run has no canaries")
    honest = np.flatnonzero(~np.isin(everything.owners, run.attackers))
    columns: dict[str, Any] = {
        "seed": np.full(len(honest), run.seed, dtype=np.int64),
        "canary": honest,
        "client": everything.owners[honest],
        "included": everything.included[honest],
    }
    for who, (scores, _) in scored.items():
        columns |= {f"{who}: {name}": values for name, values in scores.items()}
    return pa.table(columns)


def save(finished: FinishedRun, audit: CanaryAudit) -> Path:
    """Write the results to `audit/attacks.parquet`, scenario and scores to `audit/canaries-HASH`; return this folder.

    Raises OutputError.
    """
    folder = audit_folder(finished.folder, f"{METHOD}-{audit.scenario.digest()}")
    write_text(audit.scenario.to_yaml(), folder / "scenario.yaml")
    with atomic_file(folder / "scores.parquet") as path, path.open("wb") as file:
        pq.write_table(audit.scores, file, compression="zstd")
    write_attacks(finished.folder, audit.found)
    return folder


def enter_bounds(run: Run, audit: CanaryAudit) -> int:
    """Enter each bound into the worst ledger row that it covers; return the number of rows.

    Changes `run` and its privacy statements in memory; bounds of an earlier canary audit of the seeds are replaced.
    """
    ledger: pa.Table = run.tables["ledger"]
    for seed in dict.fromkeys(audit.found["seed"].to_pylist()):
        ledger = without_measured(ledger, seed, "canaries")
    bounds = dict(_bounds(ledger, audit))
    run.tables |= {"ledger": with_measured(ledger, bounds, by="canaries")}
    run.summary["privacy"] = statements(run.tables["ledger"])
    return len(bounds)


def _bounds(ledger: pa.Table, audit: CanaryAudit) -> Iterator[tuple[Row, float]]:
    rows: list[dict[str, Any]] = ledger.to_pylist()
    owners = set(zip(audit.scores["seed"].to_pylist(), audit.scores["client"].to_pylist(), strict=True))
    for found in audit.found.to_pylist():
        if not found["held"] or not found["most"]:
            continue  # nothing could be measured: no bound, rather than a bound of 0
        for holder in ("client", "model"):
            own = [
                row
                for row in rows
                if (row["seed"], row["adversary"], row["holder"]) == (found["seed"], found["adversary"], holder)
                and (holder == "model" or (row["seed"], row["client"]) in owners)
                and _covers(row, found)
            ]
            if own:
                worst = max(own, key=lambda row: (row["provable"], row["exact_epsilon"], -row["client"]))
                yield (worst["seed"], holder, worst["client"], worst["adversary"]), found["measured"]


def _covers(row: dict[str, Any], bound: dict[str, Any]) -> bool:
    """Return whether a bound holds for a row of the ledger.

    It must have been measured at the row's delta or a larger one, and the row's neighbouring relation must include that
    of the canaries.
    """
    includes = row["unit"] != "sample" if bound["unit"] == "client" else row["neighbours"] != "zero_out"
    return bool(bound["delta"] >= row["delta"] and includes)
