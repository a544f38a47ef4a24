"""Membership inference: the share of training samples that an attacker finds at a false positive rate of 1 %.

| attack | score of a sample | source |
|---|---|---|
| `loss of the last model` | minus its loss under the last published model | Yeom et al. 2018 |
| `loss of uploads` | minus its loss under the last upload of each audited client | the same |
| `likelihood ratio of uploads` | ratio of two likelihoods of its confidence | LiRA, Carlini et al. 2022, online |

The likelihoods of the third attack come from shadow worlds, in which the sample is included or not, with one variance
for all samples of a client. Confidence is ln(p / (1 - p)), p the probability of the sample's label.

Members are samples of honest clients, non-members are test samples; for attacks on uploads they have the labels and the
domain of the client. All members of a client were trained on together, so the attacks bound no epsilon: `measured` is
null. Canaries give a bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from asyncfl.audit.finished_run import FinishedRun
from asyncfl.audit.published_models import with_model_callback
from asyncfl.audit.shadow_worlds import draw_worlds, shadow_pool, train_shadow
from asyncfl.base.errors import Fault, RunError, ScenarioError
from asyncfl.base.messages import Vector
from asyncfl.base.progress import Stage, ignore_progress
from asyncfl.client import Assignment, Batch, TaskObserver
from asyncfl.federation import Federation
from asyncfl.federation.round_recorder import Progress
from asyncfl.federation.run_files import conditions_of
from asyncfl.learning import Learner
from asyncfl.learning.gemm import computing_with
from asyncfl.privacy.estimators.roc import LEAST_OTHERS, area, area_interval, at_false_rate
from asyncfl.privacy.upload_records import Upload

Floats = NDArray[np.float64]

METHOD = "membership"
LAST_MODEL, UPLOAD_LOSS, LIKELIHOOD = "loss of the last model", "loss of uploads", "likelihood ratio of uploads"
CLIENTS, WORLDS = 5, 64
"""Default numbers of attacked clients, and of shadow worlds for each."""

FOUND = {
    "seed": pa.int64(),
    "method": pa.string(),
    "adversary": pa.string(),
    "unit": pa.string(),
    "attack": pa.string(),
    "members": pa.int64(),
    "others": pa.int64(),
    "true_positives": pa.int64(),
    "false_positives": pa.int64(),
    "true_positive_rate": pa.float64(),
    "rate_low": pa.float64(),
    "rate_high": pa.float64(),
    "area": pa.float64(),
    "area_low": pa.float64(),
    "area_high": pa.float64(),
    "measured": pa.float64(),
}
"""Columns of the results, one row per seed and attack.

- `true_positive_rate`: share of the members that are found at a false positive rate of at most 1 %
- `rate_low`, `rate_high`: 95 % interval of that share at exactly 1 %, for samples drawn independently; it covers the
  error of the threshold, which is estimated from the same non-members
- `area`, `area_low`, `area_high`: area under the ROC curve, with a 95 % interval (DeLong)
- `measured`: null
"""


@dataclass(frozen=True)
class MembershipScores:
    """Scores of an attack for members and non-members."""

    members: Floats
    """(m,) scores of members; a higher score means that membership is likelier."""
    others: Floats
    """(n,) scores of non-members."""


@dataclass(frozen=True)
class MembershipAudit:
    """Results of membership inference."""

    found: pa.Table
    """Rates of true positives, one row per seed and attack; the columns are `FOUND`."""
    scores: Mapping[int, Mapping[str, MembershipScores]]
    """Seed -> attack -> scores."""


@dataclass(frozen=True)
class _HeldUpload:
    """Upload that the attacker holds, and its task."""

    assignment: Assignment
    model: Vector
    upload: Upload


class _UploadCollector(TaskObserver):
    """Observer that keeps the last usable upload of each client that the attacker holds, and the last model."""

    def __init__(self, tasks: frozenset[int] | None) -> None:
        """Create an observer. `tasks`: tasks whose uploads the attacker holds; None: all."""
        self._tasks = tasks
        self.federation: Federation
        self.held: dict[int, _HeldUpload] = {}
        self.model: Vector

    def around(self, federation: Federation) -> Federation:
        """Observe `federation`, and return the observed federation."""
        self.federation, self.model = federation, federation.plan.initial
        federation.path.observer = self
        return with_model_callback(federation, self.published)

    def published(self, version: int, model: Vector) -> None:
        """Keep a copy of the published model (n_parameters,)."""
        self.model = model.copy()

    def carried_out(self, batch: Batch) -> None:
        """Keep copies of the usable uploads that the attacker holds, the last of each client."""
        for row, assignment in enumerate(batch.assignments):
            upload, model = batch.uploads[row], batch.models[row]
            usable = batch.sound[row] and not upload.attacked and np.isfinite(model).all()
            if usable and (self._tasks is None or assignment.task in self._tasks):
                kept = replace(assignment, base=assignment.base.copy())
                self.held[assignment.client] = _HeldUpload(kept, model.copy(), upload)


def audit_membership(
    finished: FinishedRun,
    seeds: tuple[int, ...],
    adversary: str = "eavesdropper",
    clients: int = CLIENTS,
    shadow_worlds: int = WORLDS,
    progress: Progress | None = None,
    stage: Stage = ignore_progress,
) -> MembershipAudit:
    """Simulate seeds again, infer membership from the uploads that the adversary holds, and return rates and scores.

    Args:
        finished: Run to audit.
        seeds: Seeds to audit.
        adversary: `eavesdropper` or `server`.
        clients: Largest number of clients whose uploads are attacked.
        shadow_worlds: Shadow worlds of each attacked upload, at least 8.
        progress: Called with each row of the table of rounds.
        stage: Reports the progress of further steps.

    Raises:
        ScenarioError: Too few shadow worlds.
        RunError: Fewer than 200 non-members, an adversary without an upload, or a run with a shuffler.
    """
    if shadow_worlds < 8:
        raise ScenarioError([Fault("--worlds", f"must be at least 8, got {shadow_worlds}")])
    if finished.run.scenario.privacy.mixing_node is not None:
        raise RunError(
            f"{finished.folder}: the shuffler mixes the updates of a buffer, so no upload belongs to one client; "
            "audit a run without a shuffler"
        )
    rows: list[dict[str, Any]] = []
    scores: dict[int, dict[str, MembershipScores]] = {}
    for seed in seeds:
        watch = _UploadCollector(_overheard(finished, seed) if adversary == "eavesdropper" else None)
        run = finished.resimulate(seed, watch.around, progress)
        attackers = np.array(run.attackers, dtype=np.int64)
        held = {client: one for client, one in watch.held.items() if client not in run.attackers}
        if not held:
            raise RunError(
                f"{finished.folder}: in seed {seed} the {adversary} holds no upload of an honest client that the "
                "server used; set world.tap.uplink, lower world.tap.packet_loss, or audit with --adversary server"
            )
        with computing_with(*conditions_of(finished.folder, seed)):
            scores[seed] = {
                LAST_MODEL: _of_model(watch, attackers, finished),
                **_of_uploads(watch.federation, held, clients, shadow_worlds, finished, stage),
            }
        for attack, one in scores[seed].items():
            rows.append(_row(seed, "public_last" if attack == LAST_MODEL else adversary, attack, one))
    return MembershipAudit(pa.Table.from_pylist(rows, schema=pa.schema(list(FOUND.items()))), scores)


def _overheard(finished: FinishedRun, seed: int) -> frozenset[int]:
    """Return the tasks whose uploads the eavesdropper holds."""
    events = finished.run.events
    mine = events[(events["seed"] == seed) & (events["kind"] == "overheard") & (events["detail"] == "up")]
    return frozenset(mine["task"].tolist())


def _row(seed: int, adversary: str, attack: str, scores: MembershipScores) -> dict[str, Any]:
    point = at_false_rate(scores.members, scores.others)
    low, high = area_interval(scores.members, scores.others)
    return {
        "seed": seed,
        "method": METHOD,
        "adversary": adversary,
        "unit": "sample",
        "attack": attack,
        "members": point.members,
        "others": point.others,
        "true_positives": point.true_positives,
        "false_positives": point.false_positives,
        "true_positive_rate": point.rate,
        "rate_low": point.low,
        "rate_high": point.high,
        "area": area(scores.members, scores.others),
        "area_low": low,
        "area_high": high,
        "measured": None,
    }


def _of_model(watch: _UploadCollector, attackers: NDArray[np.int64], finished: FinishedRun) -> MembershipScores:
    """Score all samples of honest clients, and the test set, by minus their loss under the last published model."""
    data, learner = watch.federation.data, watch.federation.learner
    honest = ~np.isin(np.repeat(np.arange(data.clients), data.sizes), attackers)
    _check_enough(len(data.test_labels), finished)
    return MembershipScores(
        -learner.losses(watch.model, data.images[honest], data.labels[honest]),
        -learner.losses(watch.model, data.test_images, data.test_labels),
    )


def _of_uploads(
    federation: Federation,
    held: Mapping[int, _HeldUpload],
    clients: int,
    shadow_worlds: int,
    finished: FinishedRun,
    stage: Stage,
) -> dict[str, MembershipScores]:
    """Score the attacked clients' samples, and test samples, by both attacks on uploads.

    Args:
        federation: Federation of the run.
        held: Client -> its last upload that the adversary holds.
        clients: Largest number of clients to attack, drawn at random from `held`.
        shadow_worlds: Shadow worlds of each attacked upload.
        finished: Run to audit, for error messages.
        stage: Reports the progress of the training of shadow models.

    Returns:
        Name of the attack -> its scores.
    """
    path, data, learner = federation.path, federation.data, federation.learner
    random = federation.resolved.streams.generator("membership")
    chosen = sorted(random.permutation(sorted(held))[:clients].tolist())
    sizes = [data.samples(client) for client in chosen]
    left = np.ones(len(data.test_labels), dtype=bool)
    pools = {}
    for place, client in enumerate(chosen):
        # As many non-members as members, but at least `LEAST_OTHERS` over all clients.
        wanted = max(sizes[place], -(-LEAST_OTHERS // len(chosen)))
        pools[client] = shadow_pool(data, client, left, wanted)
    _check_enough(sum(int((~pool.member).sum()) for pool in pools.values()), finished)
    found: dict[str, list[Floats]] = {UPLOAD_LOSS: [], LIKELIHOOD: []}
    what = f"shadow worlds of seed {federation.resolved.seed}"
    for place, (client, pool) in enumerate(pools.items()):
        one = held[client]
        drawn = list(draw_worlds(pool, shadow_worlds, federation.resolved.streams.generator("membership", client)))
        shadows = np.empty((len(drawn), len(pool.labels)))
        for number, world in enumerate(drawn):
            stage(what, place * len(drawn) + number, len(pools) * len(drawn))
            model = train_shadow(path, one.assignment, one.upload, pool.images[world], pool.labels[world], number)
            shadows[number] = _confidence(learner, model, pool.images, pool.labels)
        seen = _confidence(learner, one.model, pool.images, pool.labels)
        found[UPLOAD_LOSS].append(-learner.losses(one.model, pool.images, pool.labels))
        found[LIKELIHOOD].append(likelihood_ratio(seen, shadows, np.array(drawn)))
    stage(what, len(pools) * shadow_worlds, len(pools) * shadow_worlds)
    member = np.concatenate([pool.member for pool in pools.values()])
    joined = {attack: np.concatenate(parts) for attack, parts in found.items()}
    return {attack: MembershipScores(values[member], values[~member]) for attack, values in joined.items()}


def likelihood_ratio(seen: Floats, shadows: Floats, included: NDArray[np.bool_]) -> Floats:
    """Compute the log likelihood ratio of membership for each of p samples.

    Confidences are taken as normally distributed. Each sample has one mean in the worlds that include it and one in
    those that do not. All samples share one variance with inclusion and one without.
    Source: Carlini et al. 2022, the online attack with fixed variance.

    Args:
        seen: (p,) confidences of the attacked model.
        shadows: (worlds, p) confidences of the shadow models.
        included: (worlds, p) whether a shadow model was trained on a sample.

    Returns:
        (p,) log likelihood ratios; 0 for samples with fewer than two worlds on either side.
    """
    ins, outs = included.sum(0), (~included).sum(0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean_in = np.where(included, shadows, 0.0).sum(0) / ins
        mean_out = np.where(included, 0.0, shadows).sum(0) / outs
    known = (ins >= 2) & (outs >= 2)
    if not known.any():
        return np.zeros(len(seen))

    def variance(mean: Floats, chosen: NDArray[np.bool_]) -> float:
        squares = np.where(chosen, (shadows - mean) ** 2, 0.0)[:, known].sum()
        return float(squares / max(chosen[:, known].sum() - known.sum(), 1)) + 1e-12

    var_in, var_out = variance(mean_in, included), variance(mean_out, ~included)
    ratio = (seen - mean_out) ** 2 / (2 * var_out) - (seen - mean_in) ** 2 / (2 * var_in)
    ratio += (np.log(var_out) - np.log(var_in)) / 2
    return np.where(known, ratio, 0.0)


def _confidence(learner: Learner, model: Vector, images: NDArray[np.float32], labels: NDArray[np.int64]) -> Floats:
    """Compute (p,) ln(p / (1 - p)) of the right labels, within -50..50; 0 for a model that is not finite."""
    losses = np.maximum(learner.losses(model, images, labels), 1e-22)
    confidence: Floats = np.clip(-losses - np.log(-np.expm1(-losses)), -50.0, 50.0)
    return np.nan_to_num(confidence)


def _check_enough(others: int, finished: FinishedRun) -> None:
    """Raise RunError if `others`, the number of non-members, is too small for a rate of 1 %."""
    if others < LEAST_OTHERS:
        raise RunError(
            f"{finished.folder}: membership inference needs at least {LEAST_OTHERS} non-members, and the test set has "
            f"{others}; raise data.test_samples, and run again"
        )
