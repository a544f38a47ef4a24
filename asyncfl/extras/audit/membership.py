"""Membership inference: the share of training samples that an attacker finds at a false positive rate of 1 %.

| attack | score of a sample | source |
|---|---|---|
| `loss of the last model` | minus its loss under the last published model | Yeom et al. 2018 |
| `loss of uploads` | minus its loss under the last upload of each audited client | the same |
| `likelihood ratio of uploads` | ratio of two likelihoods of its confidence | LiRA, Carlini et al. 2022, online |

Confidence is ln(p / (1 - p)), p the label's probability. Its likelihoods come from shadow worlds, in which
the attacker repeats the client's task from the model that the client was sent: it draws as many samples as the client
has, from a pool of the client's samples and others with the same labels, and trains, clips, adds noise and compresses
like the client, with random numbers of its own. Each sample is included in some worlds and left out in others; all
samples of a client share one variance. The attacker knows the scheme, its settings, and clip norm and budget of the
upload.

Members are samples of honest clients, non-members are test samples; for attacks on uploads they have the labels and the
domain of the client. All members of a client were trained on together, so the attacks bound no epsilon: `measured` is
null. Canaries give a bound.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from asyncfl.base.arrays import Vector
from asyncfl.base.errors import Fault, RunError, ScenarioError
from asyncfl.base.instrument import Instrument, Instruments
from asyncfl.base.streams import Streams
from asyncfl.client import Assignment, TaskPath
from asyncfl.data import FederatedData
from asyncfl.extras.audit.finished_run import (
    FinishedRun,
    HeldUpload,
    UploadCollector,
    algorithm_faults,
    audit_folder,
    schema,
    write_attacks,
)
from asyncfl.learning import Learner
from asyncfl.privacy import FixedNorm
from asyncfl.privacy.estimators.roc import LEAST_OTHERS, area, area_interval, at_false_rate, curve
from asyncfl.privacy.release import Upload
from asyncfl.results.figure_style import canvas, looks, styled
from asyncfl.results.figure_style import save as save_figure
from asyncfl.simulation.prepare import Federation

Floats = NDArray[np.float64]
Images = NDArray[np.float32]
Truths = NDArray[np.bool_]

LAST_MODEL, UPLOAD_LOSS, LIKELIHOOD = "loss of the last model", "loss of uploads", "likelihood ratio of uploads"
LEAST = 1e-3  # least rate on the axes of the figure: a lower rate would need more non-members than test sets have
APART = 1.08  # factor between the horizontal positions of two points of the figure

FOUND = schema(
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

Scores = tuple[Floats, Floats]
"""(m,) scores of members and (n,) of non-members; a higher score means that membership is likelier."""


@dataclass(frozen=True)
class MembershipAudit:
    found: pa.Table  # rates of true positives, one row per seed and attack; the columns are `FOUND`
    scores: Mapping[int, Mapping[str, Scores]]  # scores of each seed and attack


def audit_membership(
    finished: FinishedRun,
    seeds: tuple[int, ...],
    adversary: str = "eavesdropper",
    clients: int = 5,
    shadow_worlds: int = 64,
    instruments: Iterable[Instrument] = (),
) -> MembershipAudit:
    """Simulate seeds again, infer membership from the uploads that the adversary holds, and return rates and scores.

    `adversary`: `eavesdropper` or `server`. `clients`: largest number of clients whose uploads are attacked.
    `shadow_worlds`: shadow worlds of each attacked upload, at least 8.

    Raises ScenarioError for too few shadow worlds and for an algorithm other than FedAvg; RunError for fewer than 200
    non-members, an adversary without an upload, or a run with a shuffler.
    """
    if shadow_worlds < 8:
        raise ScenarioError([Fault("--worlds", f"must be at least 8, got {shadow_worlds}")])
    if faults := list(algorithm_faults(finished.run.scenario)):
        raise ScenarioError(faults)
    if finished.run.scenario.privacy.mixing_node is not None:
        raise RunError(
            f"{finished.folder}: the shuffler mixes the updates of a buffer, so no upload belongs to one client; "
            "audit a run without a shuffler"
        )
    instrument = Instruments(instruments)
    rows: list[dict[str, Any]] = []
    scores: dict[int, dict[str, Scores]] = {}
    for seed in seeds:
        collector = UploadCollector(finished.overheard(seed) if adversary == "eavesdropper" else None)
        run = finished.resimulate(seed, [instrument, collector])
        held = {client: one for client, one in collector.held.items() if client not in run.attackers}
        if not held:
            raise RunError(
                f"{finished.folder}: in seed {seed} the {adversary} holds no upload of an honest client that the "
                "server used; set world.tap.uplink, lower world.tap.packet_loss, or audit with --adversary server"
            )
        data, learner = collector.federation.data, collector.federation.learner
        with finished.compute_settings(seed):
            honest = ~np.isin(np.repeat(np.arange(data.clients), data.sizes), run.attackers)
            _check_enough(len(data.test_labels), finished)
            of_last = (
                -learner.losses(collector.model, data.images[honest], data.labels[honest]),
                -learner.losses(collector.model, data.test_images, data.test_labels),
            )
            of_uploads = _of_uploads(collector.federation, held, clients, shadow_worlds, finished, instrument)
            scores[seed] = {LAST_MODEL: of_last, **of_uploads}
        for attack, (members, others) in scores[seed].items():
            point, (low, high) = at_false_rate(members, others), area_interval(members, others)
            names = ("members", "others", "true_positives", "false_positives")
            row = {
                "seed": seed,
                "method": "membership",
                "adversary": "public_last" if attack == LAST_MODEL else adversary,
                "unit": "sample",
                "attack": attack,
                "true_positive_rate": point.rate,
                "rate_low": point.low,
                "rate_high": point.high,
                "area": area(members, others),
                "area_low": low,
                "area_high": high,
            }
            rows.append(row | {name: getattr(point, name) for name in names})
    return MembershipAudit(pa.Table.from_pylist(rows, schema=FOUND), scores)


def _of_uploads(
    federation: Federation,
    held: Mapping[int, HeldUpload],
    clients: int,
    shadow_worlds: int,
    finished: FinishedRun,
    instrument: Instrument,
) -> dict[str, Scores]:
    """Score the samples of clients drawn from `held`, and test samples, by both attacks on uploads."""
    path, data, learner, streams = federation.path, federation.data, federation.learner, federation.resolved.streams
    chosen = sorted(streams.generator("membership").permutation(sorted(held))[:clients].tolist())
    left = np.ones(len(data.test_labels), dtype=bool)
    # As many non-members as members, but at least `LEAST_OTHERS` over all clients.
    least = -(-LEAST_OTHERS // len(chosen))
    pools = {client: ShadowPool.draw(data, client, left, max(data.samples(client), least)) for client in chosen}
    member = np.concatenate([pool.member for pool in pools.values()])
    _check_enough(int((~member).sum()), finished)
    losses, ratios = [], []
    what, done = f"shadow worlds of seed {federation.resolved.seed}", 0
    for client, pool in pools.items():
        one = held[client]
        included = list(pool.worlds(shadow_worlds, streams.generator("membership", client)))
        shadows = np.empty((shadow_worlds, len(pool.labels)))
        for number, world in enumerate(included):
            instrument.progress(what, done, len(pools) * shadow_worlds)
            model = train_shadow(path, one.assignment, one.upload, pool.images[world], pool.labels[world], number)
            shadows[number] = _confidence(learner, model, pool)
            done += 1
        losses.append(-learner.losses(one.sent, pool.images, pool.labels))
        ratios.append(likelihood_ratio(_confidence(learner, one.sent, pool), shadows, np.array(included)))
    instrument.progress(what, done, done)
    joined = {UPLOAD_LOSS: np.concatenate(losses), LIKELIHOOD: np.concatenate(ratios)}
    return {attack: (values[member], values[~member]) for attack, values in joined.items()}


def train_shadow(
    path: TaskPath, assignment: Assignment, upload: Upload, images: Images, labels: NDArray[np.int64], world: int
) -> Vector:
    """Train the shadow model (n_parameters,) of one world for the attacked task and its upload. The run is unchanged.

    `images`, `labels`: (m, channels, height, width) and (m,) samples of the world, as many as the client has. `world`:
    number of the world, which seeds its random numbers.
    """
    own = f"{path.streams.seed}/{assignment.client}/{assignment.task}/{world}".encode()
    streams = Streams(int.from_bytes(hashlib.sha256(own).digest()[:7], "little"))
    offsets = np.zeros(path.data.clients + 1, dtype=np.int64)
    offsets[assignment.client + 1 :] = len(labels)
    data = replace(path.data, images=images, labels=labels, offsets=offsets, canaries=None)
    # The attacker does not know the client's memory of compression errors.
    shadow = TaskPath(
        data, path.learner, path.training, path.scheme, path.context, streams, compression=path.compression
    )
    shadow.state = FixedNorm(upload.clip_norm, upload.contribution.epsilon)
    model: Vector = shadow.carry_out([assignment], assignment.base_version, assignment.base).models[0].copy()
    return model


@dataclass(frozen=True)
class ShadowPool:
    """Samples of a client together with test samples, which belong to no client."""

    images: Images
    labels: NDArray[np.int64]
    member: Truths  # (p,) whether the sample is the client's

    @classmethod
    def draw(cls, data: FederatedData, client: int, unused: Truths, wanted: int) -> ShadowPool:
        """Return the samples of `client` together with up to `wanted` unused test samples of its domain and labels.

        In a regression, test samples with any label are taken.

        unused: (n_test,) whether a test sample is unused; set to False for those that are taken.
        """
        images, labels = data.client(client)
        domain = int(data.client_domains[client])
        start, stop = (int(data.test_offsets[domain + end]) for end in (0, 1))
        # One for each of the client's samples in turn, so that both have the same shares of labels.
        own, others = (labels, data.test_labels) if data.classes else (np.zeros(len(labels)), np.zeros(len(unused)))
        free = {
            label: iter(start + np.flatnonzero(unused[start:stop] & (others[start:stop] == label)))
            for label in np.unique(own).tolist()
        }
        drawn = (next(free[own[place % len(own)]], None) for place in range(wanted))
        chosen = [int(one) for one in drawn if one is not None]
        unused[chosen] = False
        return cls(
            np.concatenate([images, data.test_images[chosen]]),
            np.concatenate([labels, data.test_labels[chosen]]),
            np.arange(len(labels) + len(chosen)) < len(labels),
        )

    def worlds(self, number: int, random: np.random.Generator) -> Iterator[Truths]:
        """Yield for each of `number` worlds (p,) whether a sample is included.

        A world includes as many samples as the client has, and every sample is included in about as many worlds.
        """
        order: list[int] = []
        for _ in range(number):
            taken = np.zeros(len(self.labels), dtype=bool)
            while taken.sum() < self.member.sum():
                order = order or random.permutation(len(self.labels)).tolist()
                taken[order.pop(0)] = True
            yield taken


def likelihood_ratio(seen: Floats, shadows: Floats, included: Truths) -> Floats:
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

    def variance(mean: Floats, chosen: Truths) -> float:
        squares = np.where(chosen, (shadows - mean) ** 2, 0.0)[:, known].sum()
        return float(squares / max(chosen[:, known].sum() - known.sum(), 1)) + 1e-12

    var_in, var_out = variance(mean_in, included), variance(mean_out, ~included)
    ratio = (seen - mean_out) ** 2 / (2 * var_out) - (seen - mean_in) ** 2 / (2 * var_in)
    ratio += (np.log(var_out) - np.log(var_in)) / 2
    return np.where(known, ratio, 0.0)


def _confidence(learner: Learner, model: Vector, pool: ShadowPool) -> Floats:
    """Compute (p,) ln(p / (1 - p)) of the right labels, within -50..50; 0 for a model that is not finite."""
    losses = np.maximum(learner.losses(model, pool.images, pool.labels), 1e-22)
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


def draw_curves(scores: Mapping[str, Scores], title: str, caption: str, stem: Path) -> list[Path]:
    """Draw the ROC curve of each attack, with its 95 % interval at 1 %; return the paths of the files.

    stem: path of the figure without ending; .svg, .png and .pdf are written.
    """
    with styled():
        page, (axis,) = canvas(1, caption, title, (5.2, 4.2))
        found = looks(list(scores))
        for place, (attack, (members, others)) in enumerate(scores.items()):
            look = {**found[attack], "marker": ""}
            false, true = curve(members, others)
            # A step curve, since no threshold lies between two points.
            axis.step(np.maximum(false, LEAST), np.maximum(true, LEAST), where="post", label=attack, **look)
            point = at_false_rate(members, others)
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
