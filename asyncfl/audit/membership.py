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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from asyncfl.audit.attacks_table import audit_folder, columns, write_attacks
from asyncfl.audit.finished_run import FinishedRun, HeldUpload, UploadCollector
from asyncfl.audit.shadow_worlds import draw_worlds, shadow_pool, train_shadow
from asyncfl.base.errors import Fault, RunError, ScenarioError
from asyncfl.base.figure_style import canvas, looks, styled
from asyncfl.base.figure_style import save as save_figure
from asyncfl.base.messages import Vector
from asyncfl.base.progress import Stage, ignore_progress
from asyncfl.federation import Federation
from asyncfl.federation.round_recorder import Progress
from asyncfl.learning import Learner
from asyncfl.privacy.estimators.roc import LEAST_OTHERS, area, area_interval, at_false_rate, curve

Floats = NDArray[np.float64]

METHOD = "membership"
LAST_MODEL, UPLOAD_LOSS, LIKELIHOOD = "loss of the last model", "loss of uploads", "likelihood ratio of uploads"
CLIENTS, WORLDS = 5, 64
"""Default numbers of attacked clients, and of shadow worlds for each."""
LEAST = 1e-3
"""Least rate on the axes of the figure: a lower rate would need more non-members than test sets have."""
APART = 1.08
"""Factor between the horizontal positions of two points of the figure."""

FOUND = columns(
    "seed:i method adversary unit attack members:i others:i true_positives:i false_positives:i true_positive_rate:f "
    "rate_low:f rate_high:f area:f area_low:f area_high:f measured:f"
)
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
    found: pa.Table
    """Rates of true positives, one row per seed and attack; the columns are `FOUND`."""
    scores: Mapping[int, Mapping[str, MembershipScores]]


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

    `adversary`: `eavesdropper` or `server`. `clients`: largest number of clients whose uploads are attacked.
    `shadow_worlds`: shadow worlds of each attacked upload, at least 8.

    Raises ScenarioError for too few shadow worlds; RunError for fewer than 200 non-members, an adversary without an
    upload, or a run with a shuffler.
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
        watch = UploadCollector(_overheard(finished, seed) if adversary == "eavesdropper" else None)
        run = finished.resimulate(seed, watch.around, progress)
        attackers = np.array(run.attackers, dtype=np.int64)
        held = {client: one for client, one in watch.held.items() if client not in run.attackers}
        if not held:
            raise RunError(
                f"{finished.folder}: in seed {seed} the {adversary} holds no upload of an honest client that the "
                "server used; set world.tap.uplink, lower world.tap.packet_loss, or audit with --adversary server"
            )
        with finished.compute_settings(seed):
            scores[seed] = {
                LAST_MODEL: _of_model(watch, attackers, finished),
                **_of_uploads(watch.federation, held, clients, shadow_worlds, finished, stage),
            }
        for attack, one in scores[seed].items():
            rows.append(_row(seed, "public_last" if attack == LAST_MODEL else adversary, attack, one))
    return MembershipAudit(pa.Table.from_pylist(rows, schema=pa.schema(list(FOUND.items()))), scores)


def _overheard(finished: FinishedRun, seed: int) -> frozenset[int]:
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


def _of_model(watch: UploadCollector, attackers: NDArray[np.int64], finished: FinishedRun) -> MembershipScores:
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
    held: Mapping[int, HeldUpload],
    clients: int,
    shadow_worlds: int,
    finished: FinishedRun,
    stage: Stage,
) -> dict[str, MembershipScores]:
    """Score the samples of clients drawn from `held`, and test samples, by both attacks on uploads."""
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
        seen = _confidence(learner, one.sent, pool.images, pool.labels)
        found[UPLOAD_LOSS].append(-learner.losses(one.sent, pool.images, pool.labels))
        found[LIKELIHOOD].append(likelihood_ratio(seen, shadows, np.array(drawn)))
    stage(what, len(pools) * shadow_worlds, len(pools) * shadow_worlds)
    member = np.concatenate([pool.member for pool in pools.values()])
    joined = {attack: np.concatenate(parts) for attack, parts in found.items()}
    return {attack: MembershipScores(values[member], values[~member]) for attack, values in joined.items()}


def likelihood_ratio(seen: Floats, shadows: Floats, included: NDArray[np.bool_]) -> Floats:
    """Compute the log likelihood ratio of membership (p,); 0 for samples with fewer than two worlds on either side.

    Confidences are taken as normally distributed. Each sample has one mean in the worlds that include it and one in
    those that do not. All samples share one variance with inclusion and one without.
    Source: Carlini et al. 2022, the online attack with fixed variance.

    `seen`: (p,) confidences of the attacked model; `shadows`: (worlds, p) those of the shadow models; `included`:
    (worlds, p) whether a shadow model was trained on a sample.
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
    if others < LEAST_OTHERS:
        raise RunError(
            f"{finished.folder}: membership inference needs at least {LEAST_OTHERS} non-members, and the test set has "
            f"{others}; raise data.test_samples, and run again"
        )


def save(finished: FinishedRun, audit: MembershipAudit) -> list[Path]:
    """Write the table of attacks and a figure for each seed; return the paths of the figures. Raises OutputError."""
    folder = audit_folder(finished.folder, "membership")
    scenario, drawn = finished.run.scenario, []
    who = {row["seed"]: row["adversary"] for row in audit.found.to_pylist() if row["attack"] == LIKELIHOOD}
    for seed, scores in audit.scores.items():
        caption = (
            f"Run {finished.run.summary['hash']}, seed {seed}, privacy {scenario.privacy.kind}. Uploads that the "
            f"{who[seed]} holds. Points: true positive rates at a false positive rate of 1 %, with exact 95 % "
            "intervals, drawn side by side. Rates below 0.001 are drawn at 0.001."
        )
        caption += f" {finished.note}" if finished.note else ""
        title = "Membership inference"
        drawn += draw_curves(scores, title, caption, folder / f"roc-seed-{seed}")
    write_attacks(finished.folder, audit.found)
    return drawn


def draw_curves(scores: Mapping[str, MembershipScores], title: str, caption: str, stem: Path) -> list[Path]:
    """Draw the ROC curve of each attack, with its 95 % interval at 1 %; return the paths of the files.

    stem: path of the figure without ending; .svg, .png and .pdf are written.
    """
    with styled():
        page, (axis,) = canvas(1, caption, title, (5.2, 4.2))
        found = looks(list(scores))
        for place, (attack, one) in enumerate(scores.items()):
            look = {**found[attack], "marker": ""}
            false, true = curve(one.members, one.others)
            # A step curve, since no threshold lies between two points.
            axis.step(np.maximum(false, LEAST), np.maximum(true, LEAST), where="post", label=attack, **look)
            point = at_false_rate(one.members, one.others)
            axis.errorbar(
                # Side by side, so that equal rates do not hide each other.
                [0.01 * APART ** (place - (len(scores) - 1) / 2)],
                [max(point.rate, LEAST)],
                [[max(point.rate, LEAST) - max(point.low, LEAST)], [point.high - max(point.rate, LEAST)]],
                fmt=found[attack]["marker"],
                color=look["color"],
                capsize=3,
            )
        axis.plot([LEAST, 1], [LEAST, 1], color="#777777", linewidth=1, linestyle=(0, (4, 2)), label="guessing")
        axis.set(
            xscale="log",
            yscale="log",
            xlim=(LEAST, 1),
            ylim=(LEAST, 1.05),
            xlabel="false positives, share of non-members",
            ylabel="true positives, share of members",
        )
        axis.legend(loc="lower right")
        return save_figure(page, stem)
