"""One-run audit with canaries: a lower bound on epsilon from the canaries that an adversary recognises.

Source: Steinke, Nasr, Jagielski 2023, "Privacy Auditing with One (1) Training Run".

Canaries change what is trained, so the audit simulates a run of its own: the audited scenario with `data.canaries`,
under its own hash, in `audit/canaries-HASH` of the run's folder. The number of guesses is fixed before any score is
known (`privacy.estimators.one_run`). The level of 5 % is divided among the scores of an adversary, and among the
guessing plans of each score, so the largest bound may be reported: it holds at 95 % confidence for one adversary and
one seed.

The audit bounds the largest epsilon among the clients that hold canaries, without saying which client has it. In the
ledger of the audited run it is therefore entered for the client among them with the largest epsilon, and for the
published models, whose row belongs to the worst client.

Either a canary sample or the sample that it replaces was trained on. A model speaks for the canary if its loss of the
canary, relative to its loss of the replaced sample, is lower than the initial model's. The score of an update is its
inner product with the difference of the two gradients at the model that the client was sent; for Gaussian noise of one
size it orders canaries by likelihood ratio. A canary that counts as zero where it is left out replaces nothing: its own
loss and gradient speak. A canary client replaces nothing, since its update counts as zero if it is
left out. The scores need no knowledge of the noise, the clipping or the number of local steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from asyncfl.base.arrays import Vector
from asyncfl.base.errors import Fault, RunError, ScenarioError
from asyncfl.base.files.atomic import atomic_file, write_text
from asyncfl.base.instrument import Instrument, Instruments, one_by_one
from asyncfl.client import Batch
from asyncfl.data import FederatedData
from asyncfl.data.canaries import Canaries, PlantedCanaries
from asyncfl.extras.audit.finished_run import (
    FinishedRun,
    audit_folder,
    schema,
    with_sparse_evaluation,
    write_attacks,
)
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
from asyncfl.protocol.messages import Publish
from asyncfl.protocol.tasks import Tasks
from asyncfl.results.adversaries import AdversaryHoldings, holdings
from asyncfl.results.seed_ledger import SeedLedger
from asyncfl.results.storage import Run
from asyncfl.scenario import Scenario
from asyncfl.simulation import SimulatedRuns, simulate_seed
from asyncfl.simulation.action_executor import Traffic
from asyncfl.simulation.prepare import Federation
from asyncfl.simulation.seed_run import SeedRun

Floats = NDArray[np.float64]

LEVEL = 0.05
MOST_VERSIONS = 100
"""Largest number of published models to score, evenly spaced over the run, so that scoring costs less than training."""

RELATIONS = {
    ("sample", "replaced"): "one sample replaced",
    ("sample", "zeroed"): "one sample counts as zero",
    ("client", "replaced"): "one client's updates zeroed",
}
"""Unit of the canaries, what they are where they are excluded -> neighbours that the bound is about."""

FOUND = schema(
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
    scenario: Scenario
    found: pa.Table  # measured epsilons, one row per seed and adversary; the columns are `FOUND`
    scores: pa.Table
    """One row per canary: seed, number, client, whether it was included, and its value of each adversary's scores."""


def held_releases(run: SeedRun) -> dict[str, AdversaryHoldings]:
    """Return the uploads and published models that each adversary holds in a seed: name of the adversary -> releases.

    Adversaries: eavesdropper, server, both, public_last (the last published model), public (all published models). The
    ledger grants an adversary more: a model that it missed also counts once it holds a later one. A measured epsilon is
    a lower bound either way.
    """
    published = {row["version"]: row["time_s"] for row in run.rounds}
    last = dict([max(published.items())])
    public = {"public_last": AdversaryHoldings({}, last), "public": AdversaryHoldings({}, published)}
    return holdings(Tasks.of(run.tasks), published) | public


class CanaryRecords:
    """Samples that represent canaries, with signed weights: a low loss speaks for or against a canary."""

    def __init__(self, data: FederatedData, planted: PlantedCanaries, canaries: NDArray[np.int64]) -> None:
        """`canaries`: (k,) their numbers."""
        self.canaries = canaries
        if planted.unit == "sample" and not len(planted.replaced_labels):
            self.images, self.labels = planted.images[canaries], planted.labels[canaries]
            self._of, self._weights = np.arange(len(canaries)), np.ones(len(canaries))
            return
        if planted.unit == "sample":
            parts = [(planted.images, planted.labels), (planted.replaced_images, planted.replaced_labels)]
            held = [(images[canaries], labels[canaries]) for images, labels in parts]
            self._of = np.tile(np.arange(len(canaries)), 2)
            self._weights = np.repeat([1.0, -1.0], len(canaries))
        else:
            held = [data.client(client) for client in planted.owners[canaries].tolist()]
            sizes = np.array([len(labels) for _, labels in held])
            self._of, self._weights = np.repeat(np.arange(len(canaries)), sizes), np.repeat(1.0 / sizes, sizes)
        self.images = np.concatenate([images for images, _ in held])
        self.labels = np.concatenate([labels for _, labels in held])

    def summed(self, values: Floats) -> Floats:
        """Sum the values of all samples for each canary (k,): a canary's, minus those of the sample it replaces."""
        total: Floats = np.bincount(self._of, self._weights * values, len(self.canaries)).astype(np.float64)
        return total


class CanaryScorer(Instrument):
    """Instrument of a seed with canaries that scores uploads and models."""

    planted: PlantedCanaries

    def begin_seed(self, federation: Federation) -> None:
        """Score the initial model of a federation, whose data must have canaries."""
        data, planted = federation.data, federation.data.canaries
        if planted is None:
            raise ValueError("the data have no canaries")
        self.planted, self._learner = planted, federation.learner
        self._all = CanaryRecords(data, planted, np.arange(len(planted.owners)))
        self._of_client = {
            client: CanaryRecords(data, planted, np.flatnonzero(planted.owners == client))
            for client in np.unique(planted.owners).tolist()
        }
        # Task -> client; for each of its canaries the score of the update, and the fall of its loss to the upload.
        self._uploads: dict[int, tuple[int, Floats, Floats]] = {}
        self._models: dict[int, Floats] = {}  # version -> fall of each canary's loss from version 0
        self._pending: tuple[int, Vector] | None = None
        self._every = max(1, federation.plan.protocol.rounds // MOST_VERSIONS)
        self._first = self._preference(federation.plan.initial, self._all)
        self._mixed = federation.path.scheme.mixing_node is not None

    def collected(self, batch: Batch) -> None:
        """Score the uploads of clients that hold canaries. Malformed and non-finite uploads are skipped."""
        if self._mixed:
            return  # a mixed update belongs to no single client
        for assignment, model, sound in zip(batch.assignments, batch.models, batch.sound, strict=True):
            records, update = self._of_client.get(assignment.client), model - assignment.base
            if records is not None and sound and np.isfinite(update).all():
                slopes = self._learner.slopes(assignment.base, update, records.images, records.labels)
                liked = self._preference(model, records) - self._first[records.canaries]
                self._uploads[assignment.task] = assignment.client, -records.summed(slopes), liked

    def published(self, time_s: float, publish: Publish, traffic: Traffic) -> None:
        """Score a published model; in a long run only evenly spaced versions and the last."""
        if not publish.version:
            return  # scores are differences from the initial model
        self._pending = publish.version, publish.model.copy()
        if publish.version % self._every == 0:
            self._score_pending()

    def scores(self, held: AdversaryHoldings) -> dict[str, Floats]:
        """Compute the scores that an adversary can compute from what it holds: name -> (m,) values.

        The higher, the more likely the canary was included; NaN: no usable upload of the canary's client is held.
        `updates`: sum over the updates of the canary's client; `uploads`: mean over the models that the client
        uploaded; `last model`: the last scored model held; `models`: mean over the scored models held, if more than
        one. A name is missing where the adversary holds nothing of its kind.
        """
        self._score_pending()
        found: dict[str, Floats] = {}
        if tasks := sorted(held.uploads.keys() & self._uploads.keys()):
            total, number = np.zeros((2, len(self._first))), np.zeros(len(self._first))
            for client, towards, liked in (self._uploads[task] for task in tasks):
                own = self._of_client[client].canaries
                total[:, own] += towards, liked
                number[own] += 1
            total[:, number == 0] = np.nan
            found["updates"], found["uploads"] = total[0], total[1] / np.maximum(number, 1)
        models = [self._models[version] for version in sorted(held.models) if version in self._models]
        if models:
            found["last model"] = models[-1]
        if len(models) > 1:
            found["models"] = np.mean(models, axis=0)
        return {name: np.where(np.isfinite(values), values, np.nan) for name, values in found.items()}

    def _score_pending(self) -> None:
        if self._pending is not None:
            version, model = self._pending
            self._models[version], self._pending = self._preference(model, self._all) - self._first, None

    def _preference(self, model: Vector, records: CanaryRecords) -> Floats:
        """Compute (k,) the loss of the replaced sample minus that of the canary."""
        if not np.isfinite(model).all():
            return np.full(len(records.canaries), np.nan)
        return -records.summed(self._learner.losses(model, records.images, records.labels))


def canaries_for(
    scenario: Scenario, count: int, unit: Literal["sample", "client"], kind: Literal["mislabelled", "noise"]
) -> Canaries:
    """Return canaries whose neighbours are those of the scenario's guarantee: samples of Poisson batches count as zero
    where they are excluded; all others are replaced."""
    zeroed = unit == "sample" and scenario.training.batches == "poisson"
    return Canaries(count=count, unit=unit, kind=kind, excluded="zeroed" if zeroed else "replaced")


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
    instruments: Iterable[Instrument] = (),
) -> CanaryAudit:
    """Simulate the run with canaries, and bound epsilon by the canaries that each adversary recognises.

    `delta`: delta of the lower bounds, 0 <= delta < 1; None: the delta of the scheme's claim, 0 without a claim.

    Raises ScenarioError if the canaries do not fit into the data, RunError if the run with canaries diverges.
    """
    scenario, prior, instrument = with_canaries(finished, canaries), SimulatedRuns(), Instruments(instruments)
    found, tables = [], []
    for seed in seeds:
        scorer = CanaryScorer()
        with finished.compute_settings(seed):
            if finished.run.scenario.data.canaries is None:
                run = simulate_seed(with_sparse_evaluation(scenario), seed, [instrument, scorer], prior)
            else:
                run = finished.resimulate(seed, [instrument, scorer], prior)
            if run.diverged:
                raise RunError(
                    f"{finished.folder}: with canaries seed {seed} diverges ({run.stopped}), so nothing can be "
                    "measured; plant fewer, or audit another seed with --seed"
                )
            # Attackers' canaries are left out, since no scheme protects an attacker's data.
            honest = np.flatnonzero(~np.isin(scorer.planted.owners, run.attackers))
            scores = {
                who: {name: values[honest] for name, values in scorer.scores(held).items()}
                for who, held in held_releases(run).items()
            }
        included = scorer.planted.included[honest]
        rows = _rows(run, scores, included, canaries, delta, instrument)
        found += [row | {"method": "canaries", "run": scenario.digest()} for row in rows]
        owners = scorer.planted.owners[honest]
        columns = {"seed": np.full(len(honest), seed), "canary": honest, "client": owners, "included": included}
        columns |= {f"{who}: {name}": values for who, own in scores.items() for name, values in own.items()}
        tables.append(pa.table(columns))
    return CanaryAudit(
        scenario, pa.Table.from_pylist(found, schema=FOUND), pa.concat_tables(tables, promote_options="default")
    )


def _rows(
    run: SeedRun,
    scores: dict[str, dict[str, Floats]],
    included: NDArray[np.bool_],
    canaries: Canaries,
    wanted: float | None,
    instrument: Instrument,
) -> Iterator[dict[str, Any]]:
    ledger = SeedLedger(run, instrument).ledger.to_pandas()
    gaussian = bool((ledger["distribution"] == "gaussian").all())
    for who, own in one_by_one(list(scores.items()), instrument, f"adversaries judged in seed {run.seed}"):
        claimed, exact, delta = _claim_of(ledger, who, canaries, wanted)
        tried = own if len(included) else {}
        level = LEVEL / max(len(tried), 1)
        shown = {name: best_lower_bound(values, included, delta, level) for name, values in tried.items()}
        best = max(shown.values(), key=lambda one: one.epsilon, default=GuessBound(0.0, 0, 0))
        known = gaussian and delta > 0
        mus = [best_mu_lower_bound(values, included, level) for values in tried.values()] if known else []
        yield {
            "seed": run.seed,
            "adversary": who,
            "unit": canaries.unit,
            "neighbours": RELATIONS[canaries.unit, canaries.excluded],
            "delta": delta,
            "claimed_epsilon": claimed,
            "exact_epsilon": exact,
            "measured": best.epsilon,
            "most": largest_detectable_epsilon(len(included), delta, level) if tried else 0.0,
            "measured_gaussian": epsilon_at(max(mus, default=0.0), delta) if known else None,
            "held": len(tried),
            "score": next((name for name, one in shown.items() if one is best and one.guesses), None),
            "canaries": len(included),
            **{name: value for name, value in asdict(best).items() if name != "epsilon"},
        }


def _claim_of(
    ledger: pd.DataFrame, who: str, canaries: Canaries, delta: float | None
) -> tuple[float | None, float | None, float]:
    """Return the largest claimed and exact epsilon of the adversary `who` in the ledger, and their delta.

    None: an epsilon holds for another delta, for a smaller unit than the canaries, or for other neighbours.
    """
    unit = canaries.unit
    rows = ledger[ledger["adversary"] == who]
    claims = rows[np.isfinite(rows["claimed_epsilon"])]
    own = float(claims["delta"].max()) if len(claims) else 0.0
    delta = own if delta is None else delta
    if unit == "client" and len(claims) and not (claims["unit"] == "client").any():
        return None, None, delta
    if unit == "sample" and len(claims) and not claims["neighbours"].map(_is_of(canaries.excluded)).any():
        return None, None, delta
    rows = rows[rows["releases"] > 0] if (rows["releases"] > 0).any() else rows
    exact: float | None = float(rows["exact_epsilon"].max())
    if delta != own and np.isfinite(rows["squared_mu"]).all():
        gaussian = (rows["distribution"] == "gaussian").all() and delta > 0
        return None, float(exact_epsilon(rows["squared_mu"].max(), delta)) if gaussian else None, delta
    if not len(claims):
        return np.inf, exact, delta
    return float(claims["claimed_epsilon"].max()) if delta == own else None, exact, delta


def _is_of(excluded: str) -> Callable[[str], bool]:
    """Return whether neighbours are those of canary samples that are `replaced` or `zeroed` where they are excluded."""
    return lambda neighbours: (neighbours == "zero_out") == (excluded == "zeroed")


def save(finished: FinishedRun, audit: CanaryAudit) -> Path:
    """Write the results to `audit/attacks.parquet`, scenario and scores to `audit/canaries-HASH`; return this folder.

    Raises OutputError.
    """
    folder = audit_folder(finished.folder, f"canaries-{audit.scenario.digest()}")
    write_text(audit.scenario.to_yaml(), folder / "scenario.yaml")
    with atomic_file(folder / "scores.parquet") as path:
        pq.write_table(audit.scores, path, compression="zstd")
    write_attacks(finished.folder, audit.found)
    return folder


def enter_bounds(run: Run, audit: CanaryAudit) -> int:
    """Enter each bound into the worst ledger row that it covers; return the number of rows.

    Changes `run` and its privacy statements in memory; bounds of an earlier canary audit of the seeds are replaced.
    """
    ledger: pa.Table = run.tables["ledger"]
    for seed in dict.fromkeys(audit.found["seed"].to_pylist()):
        ledger = without_measured(ledger, seed, "canaries")
    rows: list[dict[str, Any]] = ledger.to_pylist()
    owners = set(zip(audit.scores["seed"].to_pylist(), audit.scores["client"].to_pylist(), strict=True))
    bounds: dict[Row, float] = {}
    for found in audit.found.to_pylist():
        # Where nothing could be measured there is no bound, rather than a bound of 0.
        for holder in ("client", "model") if found["held"] and found["most"] else ():
            key = (found["seed"], found["adversary"], holder)
            own = [row for row in rows if (row["seed"], row["adversary"], row["holder"]) == key]
            own = [row for row in own if holder == "model" or (row["seed"], row["client"]) in owners]
            if own := [row for row in own if _covers(row, found)]:
                worst = max(own, key=lambda row: (row["provable"], row["exact_epsilon"], -row["client"]))
                bounds[found["seed"], holder, worst["client"], found["adversary"]] = found["measured"]
    run.tables |= {"ledger": with_measured(ledger, bounds, by="canaries")}
    run.summary["privacy"] = statements(run.tables["ledger"])
    return len(bounds)


def _covers(row: dict[str, Any], bound: dict[str, Any]) -> bool:
    """Return whether a bound holds for a row of the ledger.

    It must have been measured at the row's delta or a larger one, and the row's neighbouring relation must include that
    of the canaries.
    """
    if bound["unit"] == "client":
        includes = row["unit"] != "sample"
    else:
        excluded = "zeroed" if bound["neighbours"] == RELATIONS["sample", "zeroed"] else "replaced"
        # A client counts as zero with all of its samples.
        includes = _is_of(excluded)(row["neighbours"]) and (excluded == "replaced" or row["unit"] == "sample")
    return bool(bound["delta"] >= row["delta"] and includes)
