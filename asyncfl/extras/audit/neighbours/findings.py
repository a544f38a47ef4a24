"""Findings of an audit with twins: a table, measured epsilons for the ledger, examples of exceeded sensitivities.

An adversary holds releases of a client in two worlds: its uploads, or the models that they entered.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from asyncfl.base.arrays import Floats
from asyncfl.base.instrument import one_by_one
from asyncfl.base.tables import AuditTable, schema_of
from asyncfl.client import TaskPath
from asyncfl.data import FederatedData
from asyncfl.extras.audit.neighbours.correlated_models import StepPair, row_pairs
from asyncfl.extras.audit.neighbours.data import Neighbour
from asyncfl.extras.audit.neighbours.observer import AuditedClient, AuditedTask, TwinsObserver
from asyncfl.extras.audit.neighbours.training import TwinUpload
from asyncfl.measurements import OF_CLIENTS, OF_SAMPLES, Twin
from asyncfl.privacy.accounting.gaussian import exact_epsilon
from asyncfl.privacy.accounting.release_pairs import BINS, GaussianPair, differ, epsilon_of_pairs
from asyncfl.privacy.correlation import Factorisation
from asyncfl.privacy.ledger.audit_columns import Row, with_measured
from asyncfl.privacy.ledger.releases import model_releases
from asyncfl.privacy.release import ModelRelease
from asyncfl.privacy.scheme import Guarantee
from asyncfl.protocol.tasks import Tasks
from asyncfl.results.adversaries import AdversaryHoldings, holdings
from asyncfl.simulation.seed_run import SeedRun

NOTE = "audit: "
ROUNDING = 1e-5  # part of a sensitivity by which float32 may exceed it


@dataclass(frozen=True)
class TwinRelease:
    """One release that an adversary holds, in both worlds."""

    time_s: float
    task: int  # task of the upload; -1: it is a model
    neighbour: Neighbour
    distance: float
    sensitivity: float
    std: float
    twin_std: float
    gaussians: tuple[GaussianPair, ...]  # empty with Laplace noise
    shifts: NDArray[np.int64] | None  # `laplace_shift_counts`; None with Gaussian noise
    pure: float  # epsilon at delta = 0


def upload_releases(
    path: TaskPath, audited: AuditedClient, neighbour: Neighbour, held: AdversaryHoldings
) -> Iterator[TwinRelease]:
    """Yield the client's uploads that an adversary holds, in the order in which it got them, beside those of a twin."""
    d = path.learner.n_parameters
    for time_s, number in sorted((held.uploads[task], task) for task in audited.tasks if task in held.uploads):
        task = audited.tasks[number]
        if (twin := task.twins.get(neighbour.number)) is None:
            continue
        release = task.release
        if release.distribution == "laplace":
            scale = release.std / math.sqrt(2)
            pure = math.fsum(twin.distances) / scale if scale else math.inf if twin.distance else 0.0
            rows: tuple[GaussianPair, ...] = ()
            if twin.shifts is None and twin.distance:
                rows = ((d, twin.distance**2, 0.0, 0.0),)
        else:
            others = (other for other in task.others.get(neighbour.number, ()))
            seen = [other for other in others if held.uploads.get(other.task, math.inf) <= time_s]
            rows = tuple((d, distance**2, release.std, twin.std) for distance in twin.distances)
            rows += tuple((d, other.distance**2, other.std, other.twin_std) for other in seen)
            pure = math.inf if differ(rows) else 0.0
        moved = twin.distance, release.sensitivity, release.std, twin.std
        yield TwinRelease(time_s, number, twin.neighbour, *moved, rows, twin.shifts, pure)


def model_transcript(
    path: TaskPath,
    audited: AuditedClient,
    neighbour: Neighbour,
    held: AdversaryHoldings,
    models: Iterable[ModelRelease],
) -> Iterator[TwinRelease]:
    """Yield the models that an adversary holds and the client's uploads entered, beside those of a twin.

    A model's distance is that of the client's upload times its weight. Where there are several of them, or the clip
    norm moves the others too, it is bounded from below by the triangle inequality. Models whose Laplace noise lies over
    noisy uploads, or over uploads of others that moved, are left out: no bound is known.
    """
    mine = [(held.models[one.version], one.version, one) for one in models if one.version in held.models]
    for time_s, _, model in sorted(mine, key=lambda row: row[:2]):
        if (found := _moved_model(path, audited, neighbour, model, time_s)) is not None:
            yield found


def correlated_transcript(
    correlation: Factorisation,
    path: TaskPath,
    audited: AuditedClient,
    neighbour: Neighbour,
    held: AdversaryHoldings,
    models: Iterable[ModelRelease],
) -> Iterator[TwinRelease]:
    """Yield the rows (`row_pairs`) that follow from the first versions as far as the adversary holds all of them, as
    one release each. Later versions are left out: no bound is known."""
    published, first = {one.version: one for one in models}, 0
    while first + 1 in published and first + 1 in held.models:
        first += 1
    moved = {v: _moved_model(path, audited, neighbour, published[v], 0.0) for v in range(1, first + 1)}
    steps = {v: StepPair(one.distance, one.sensitivity, one.std) for v, one in moved.items() if one is not None}
    times_s = np.maximum.accumulate([held.models[version] for version in range(1, first + 1)])
    twin = next((one.neighbour for one in moved.values() if one is not None), neighbour)
    for row in row_pairs(correlation, path.context.rounds, first, steps):
        std = published[row.version].server_std or 1.0
        distance, sensitivity = row.distance * std, row.sensitivity * std
        pair = (float(path.learner.n_parameters), distance**2, std, std)
        pure = math.inf if differ([pair]) else 0.0
        time_s = float(times_s[row.version - 1])
        yield TwinRelease(time_s, -1, twin, distance, sensitivity, std, std, (pair,), None, pure)


def _moved_model(
    path: TaskPath, audited: AuditedClient, neighbour: Neighbour, model: ModelRelease, time_s: float
) -> TwinRelease | None:
    """Return a model that the client's uploads entered beside that of a twin; None where they did not, or where no
    bound is known."""
    number = neighbour.number
    twins = {
        upload.task: audited.tasks[upload.task].twins[number]
        for upload in model.uploads
        if upload.task in audited.tasks and number in audited.tasks[upload.task].twins
    }
    return _model(path, audited, model, twins, time_s) if twins else None


def _model(
    path: TaskPath, audited: AuditedClient, model: ModelRelease, twins: dict[int, TwinUpload], time_s: float
) -> TwinRelease | None:
    first = next(iter(twins.values()))
    number = first.neighbour.number
    others = {other.task: other for task in twins for other in audited.tasks[task].others.get(number, ())}
    weights = {upload.task: abs(upload.weight or 0.0) for upload in model.uploads}
    *less, most = sorted(weights[task] * twin.model_distance for task, twin in twins.items())
    less += [weights.get(other.task, 0.0) * other.distance for other in others.values()]
    distance = max(0.0, most - math.fsum(less))
    stds = [upload.release.std for upload in model.uploads]
    contributions, twin_stds = list(model.contributions), list(stds)
    for place, upload in enumerate(model.uploads):
        if upload.task in twins:
            twin = twins[upload.task]
            contributions[place] = replace(upload.contribution, epsilon=twin.contribution.epsilon)
            twin_stds[place] = twin.std
        elif upload.task in others:
            twin_stds[place] = others[upload.task].twin_std
    scheme, context = path.scheme, path.context
    here = model_releases(scheme, context, model.clip_norm, model.contributions, stds, model.server_std)
    there = model_releases(scheme, context, first.clip_norm, contributions, twin_stds, None)
    own, twin_std = here[audited.client], there[audited.client].std
    if own.distribution == "laplace" and own.std:
        if others or any(stds) or any(twin_stds):
            return None
        pure = distance * math.sqrt(2) / own.std
        return TwinRelease(time_s, -1, first.neighbour, distance, own.sensitivity, own.std, twin_std, (), None, pure)
    row = (float(path.learner.n_parameters), distance**2, own.std, twin_std)
    pure = math.inf if differ([row]) else 0.0
    return TwinRelease(time_s, -1, first.neighbour, distance, own.sensitivity, own.std, twin_std, (row,), None, pure)


def epsilons(releases: Sequence[TwinRelease], delta: float) -> tuple[Floats, Floats]:
    """Compute epsilon (n,) of each release alone, and (n,) of all of them so far, at `delta`; 0: pure."""
    if delta == 0:
        once = np.array([one.pure for one in releases])
        return once, np.cumsum(once)
    mus = np.array([math.fsum(_squared_mu(row) for row in one.gaussians) for one in releases])
    once, so_far = exact_epsilon(mus, delta), exact_epsilon(np.cumsum(mus), delta)
    together: tuple[GaussianPair, ...] = ()
    shifts, alike = np.zeros(len(BINS), np.int64), True
    for place, one in enumerate(releases):
        own = np.zeros_like(shifts) if one.shifts is None else one.shifts
        together, shifts = together + one.gaussians, shifts + own
        if one.shifts is not None or any(std != twin_std for _, _, std, twin_std in one.gaussians):
            alike = False
            once[place] = epsilon_of_pairs(one.gaussians, delta, own)
        if not alike:
            least = float(so_far[place - 1]) if place else 0.0
            so_far[place] = max(least, epsilon_of_pairs(together, delta, shifts))
    return once, so_far


def _squared_mu(row: GaussianPair) -> float:
    _, squared_distance, std, _ = row
    return squared_distance / std**2 if std > 0 else math.inf if squared_distance else 0.0


@dataclass(frozen=True)
class DisprovingExample:
    """Twin whose upload lies further away than the assumed sensitivity."""

    client: int
    task: AuditedTask
    twin: TwinUpload

    @property
    def description(self) -> str:
        task, twin = self.task, self.twin
        return (
            f"client {self.client}, task {task.task} from version {task.base_version}: {twin.neighbour.description}; "
            f"|u - u'| is {twin.distance:.6g}, assumed at most {task.release.sensitivity:.6g}"
        )


def example_files(seed: int, examples: list[DisprovingExample], data: FederatedData) -> dict[str, bytes]:
    """Return the files of a seed's examples: name -> content, the same bytes each time; none without examples.

    `disproved-SEED.txt` has a line for each example. `disproved-SEED.npz` has the arrays `client3_task`, and where one
    sample is replaced `client3_image`, `client3_label`, `client3_own_image`, `client3_own_label` and `client3_sample`.
    """
    if not examples:
        return {}
    arrays: dict[str, Any] = {}
    for one in examples:
        name, neighbour = f"client{one.client}", one.twin.neighbour
        arrays[f"{name}_task"] = np.array(one.task.task)
        if neighbour.image is not None:
            images, labels = data.client(one.client)
            arrays |= {
                f"{name}_image": neighbour.image,
                f"{name}_label": np.array(neighbour.label),
                f"{name}_own_image": images[neighbour.sample],
                f"{name}_own_label": labels[neighbour.sample],
                f"{name}_sample": np.array(neighbour.sample),
            }
    file = io.BytesIO()
    np.savez(file, **arrays)
    lines = "".join(f"{one.description}\n" for one in examples)
    return {f"disproved-{seed}.npz": file.getvalue(), f"disproved-{seed}.txt": lines.encode()}


@dataclass(frozen=True)
class Audited:
    """Findings of one seed."""

    table: pa.Table
    ledger: pa.Table
    files: dict[str, bytes] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)  # sentences that a reader of the run's results must see


def audited(observer: TwinsObserver, run: SeedRun, ledger: pa.Table) -> Audited:
    """Return the findings of the twins of a seed that has ended; reports progress to the observer's instrument."""
    return _Findings(observer, run, ledger).found()


def counted_kinds(guarantee: Guarantee | None) -> tuple[Twin, ...]:
    """Return the kinds of twins that are neighbours in the sense of a guarantee; all without a guarantee."""
    if guarantee is not None and guarantee.neighbours.startswith("zero_out"):
        return ("zeroed",)
    if guarantee is not None and guarantee.unit == "sample":
        return OF_SAMPLES
    return (*OF_SAMPLES, *OF_CLIENTS)


class _Findings:
    def __init__(self, observer: TwinsObserver, run: SeedRun, ledger: pa.Table) -> None:
        self.observer, self.run, self.ledger = observer, run, ledger
        self.path, self.clients = observer.path, list(observer.clients.values())
        self.rows: list[dict[str, Any]] = []
        self._known_epsilons: dict[Any, tuple[Floats, Floats]] = {}
        self.measured: dict[Row, float] = {}
        self.disproved: set[Row] = set()
        keys = (ledger[name].to_pylist() for name in ("seed", "holder", "client", "adversary"))
        self.known: set[Row] = set(zip(*keys, strict=True))

    def found(self) -> Audited:
        seed, path, scheme = self.run.seed, self.path, self.path.scheme
        held_by = holdings(Tasks.of(self.run.tasks), {row["version"]: row["time_s"] for row in self.run.rounds})
        # Models are compared where the scheme guarantees something of them, and they are weighted sums of the uploads.
        of_models, defence = scheme.model_guarantee(path.context), self.observer.federation.resolved.scenario.defence
        in_training = scheme.noise_each_epoch or path.training.example_noise > 0
        are_sums = of_models is not None and not in_training and defence.rule.is_linear and defence.detector is None
        transcript = model_transcript
        if (correlation := scheme.correlation) is not None:
            transcript = partial(correlated_transcript, correlation)
        what = f"epsilons of twins of seed {seed}"
        for adversary, held in one_by_one(list(held_by.items()), self.observer.instrument, what):
            for client in self.clients:
                row: Row = (seed, "client", client.client, adversary)
                for neighbour in self._best(client):
                    releases = list(upload_releases(path, client, neighbour, held))
                    self._add(row, client, self._stated(client), releases)
                if row in self.known and any(self._exceeded(held, [client])):
                    self.disproved.add(row)
            row = (seed, "model", -1, adversary)
            for client in self.clients if are_sums else []:
                for neighbour in self._best(client):
                    releases = list(transcript(path, client, neighbour, held, self.run.models.values()))
                    self._add(row, client, of_models, releases)
                    disproved = any(_exceeds(one.distance, one.sensitivity) for one in releases)
                    if disproved and neighbour.kind in counted_kinds(of_models) and row in self.known:
                        self.disproved.add(row)
        every = {task for one in held_by.values() for task in one.uploads}
        examples = list(self._exceeded(AdversaryHoldings(dict.fromkeys(every, 0.0), {}), self.clients))
        table = pa.Table.from_pylist(self.rows, schema=schema_of(AuditTable))
        ledger = with_measured(self.ledger, self.measured, frozenset(self.disproved))
        return Audited(table, ledger, example_files(seed, examples, path.data), list(self._notes(examples)))

    def _stated(self, client: AuditedClient) -> Guarantee | None:
        return self.path.scheme.upload_guarantee(self.path.context, client.client)

    def _best(self, client: AuditedClient) -> Iterator[Neighbour]:
        """Yield of each kind the twin that was followed to the end and went furthest."""
        for kind in self.observer.audit.neighbours:
            yield from client.furthest_first(kind)[:1]

    def _add(self, row: Row, client: AuditedClient, stated: Guarantee | None, releases: list[TwinRelease]) -> None:
        if not releases:
            return
        delta = 0.0 if stated is None else stated.delta
        # Adversaries that hold the same share the epsilons.
        key = (releases[0].neighbour.number, delta, *((one.task, one.pure, one.gaussians) for one in releases))
        if key not in self._known_epsilons:
            self._known_epsilons[key] = epsilons(releases, delta)
        once, total = self._known_epsilons[key]
        kind = releases[0].neighbour.kind
        counts = kind in counted_kinds(stated)
        published = [made["time_s"] for made in self.run.rounds]
        moments = np.minimum(np.searchsorted(published, [one.time_s for one in releases]), len(published) - 1)
        for one, moment, alone, together in zip(releases, moments.tolist(), once.tolist(), total.tolist(), strict=True):
            task = client.tasks.get(one.task)
            self.rows.append(
                {
                    "seed": self.run.seed,
                    "holder": row[1],
                    "client": client.client,
                    "adversary": row[3],
                    "kind": kind,
                    "counts": counts,
                    "task": one.task,
                    "version": self.run.rounds[moment]["version"],
                    "time_s": one.time_s,
                    "twins": 1 if task is None else sum(twin.neighbour.kind == kind for twin in task.twins.values()),
                    "sample": one.neighbour.sample,
                    "label": one.neighbour.label if isinstance(one.neighbour.label, int) else -1,
                    "distance": one.distance,
                    "sensitivity": one.sensitivity,
                    "sensitivity_share": one.distance / one.sensitivity if one.sensitivity > 0 else math.nan,
                    "sigma": one.std,
                    "twin_sigma": one.twin_std,
                    "delta": delta,
                    "epsilon_once": alone,
                    "epsilon": together,
                }
            )
        if counts and row in self.known:
            self.measured[row] = max(self.measured.get(row, 0.0), float(total[-1]))

    def _exceeded(self, held: AdversaryHoldings, clients: list[AuditedClient]) -> Iterator[DisprovingExample]:
        """Yield of each client the held upload of a twin that exceeds the assumed sensitivity most."""
        for client in clients:
            kinds = counted_kinds(self._stated(client))
            found = [
                DisprovingExample(client.client, task, twin)
                for number, task in sorted(client.tasks.items())
                if number in held.uploads
                for twin in task.twins.values()
                if twin.neighbour.kind in kinds and _exceeds(twin.distance, task.release.sensitivity)
            ]
            if found:
                yield max(found, key=lambda one: one.twin.distance / (one.task.release.sensitivity or 1e-300))

    def _notes(self, examples: list[DisprovingExample]) -> Iterator[str]:
        yield from self._unmeasured()
        for one in examples[:1]:
            others = len(examples) - 1
            more = f", and the same for {others} more client{'s' if others > 1 else ''}" if others else ""
            yield (
                f"{NOTE}the assumed sensitivity is disproved by example in seed {self.run.seed}: "
                f"{one.description}{more}"
            )
        if any(math.isinf(value) for value in self.measured.values()):
            yield f"{NOTE}epsilon is infinite where what was released differs between twins and no noise hides it"

    def _unmeasured(self) -> Iterator[str]:
        """Yield a sentence for each reason why nothing is measured, of some clients or of all."""
        observer, seed = self.observer, self.run.seed
        wanted = observer.audit.clients
        silent = [one for one in wanted if one not in observer.clients] if isinstance(wanted, tuple) else []
        if silent or not observer.clients:
            named = f" of client {', '.join(map(str, silent))}" if silent else ""
            yield f"{NOTE}nothing is measured{named} in seed {seed}: no honest and finite update was collected"
        stated = [self._stated(client) for client in self.clients]
        kinds = dict.fromkeys(kind for guarantee in stated for kind in counted_kinds(guarantee))
        if stated and not set(kinds) & set(observer.audit.neighbours):
            claim = next((f"{one.neighbours} of a {one.unit}" for one in stated if one is not None), "")
            yield (
                f"{NOTE}nothing is measured in seed {seed}: for the claim ({claim}) only these twins are neighbours: "
                f"{', '.join(kinds)}"
            )


def _exceeds(distance: float, sensitivity: float) -> bool:
    return math.isfinite(sensitivity) and distance > sensitivity * (1 + ROUNDING)
