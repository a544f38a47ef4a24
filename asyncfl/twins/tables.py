"""What an audit with twins found, as a table, as numbers for the ledger, and as examples."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from asyncfl.base.columns import AuditTable, schema_of
from asyncfl.base.progress import one_by_one
from asyncfl.evaluation import OF_CLIENTS, OF_SAMPLES, Twin
from asyncfl.federation import SeedRun
from asyncfl.federation.adversary_holdings import AdversaryHoldings, holdings
from asyncfl.privacy.ledger.audit_columns import Row, with_measured
from asyncfl.privacy.scheme import Guarantee
from asyncfl.twins.audit import AuditedClient, TwinsObserver, so_far
from asyncfl.twins.examples import Example, example_files
from asyncfl.twins.neighbours import Neighbour
from asyncfl.twins.transcripts import Floats, TwinRelease, epsilons, furthest_upload, model_transcript, upload_releases

SCHEMA = schema_of(AuditTable)

NOTE = "audit: "
"""Beginning of what an audit notes."""

ROUNDING = 1e-5
"""Part of a sensitivity by which float32 may exceed it."""


@dataclass(frozen=True)
class Audited:
    """What was found in one seed."""

    table: pa.Table
    """See `asyncfl.base.columns.AuditTable`."""
    ledger: pa.Table
    """The ledger with what was measured."""
    files: dict[str, bytes] = field(default_factory=dict)
    """Files of examples, see `asyncfl.twins.examples`."""
    notes: list[str] = field(default_factory=list)
    """Sentences that a reader of the run's results must see."""


def audited(observer: TwinsObserver, run: SeedRun, ledger: pa.Table) -> Audited:
    """What the twins of a seed show, once it has ended; how far that is, the observer's `stage` is told."""
    observer.ended()
    return _Findings(observer, run, ledger).found()


def counted_kinds(guarantee: Guarantee | None) -> tuple[Twin, ...]:
    """Kinds of twins that are neighbours in the sense of a guarantee; without one all are."""
    if guarantee is not None and guarantee.neighbours.startswith("zero_out"):
        return ("zeroed",)
    if guarantee is not None and guarantee.unit == "sample":
        return OF_SAMPLES
    return (*OF_SAMPLES, *OF_CLIENTS)


class _Findings:
    def __init__(self, observer: TwinsObserver, run: SeedRun, ledger: pa.Table) -> None:
        self.observer, self.run, self.ledger = observer, run, ledger
        self.path = observer.path
        self.held = holdings(run.events, {row["version"]: row["time_s"] for row in run.rounds})
        self.published = np.array([row["time_s"] for row in run.rounds])
        self.versions = [row["version"] for row in run.rounds]
        self.models = list(run.models.values())
        self.rows: list[dict[str, Any]] = []
        self._known_epsilons: dict[Any, tuple[Floats, Floats]] = {}
        self.measured: dict[Row, float] = {}
        self.disproved: set[Row] = set()
        keys = (ledger[name].to_pylist() for name in ("seed", "holder", "client", "adversary"))
        self.known: set[Row] = set(zip(*keys, strict=True))

    def found(self) -> Audited:
        clients = list(self.observer.clients.values())
        what = f"epsilons of twins of seed {self.run.seed}"
        for adversary, held in one_by_one(list(self.held.items()), self.observer.stage, what):
            for client in clients:
                self._uploads(adversary, held, client)
            if self._models_are_sums:
                for client in clients:
                    self._models(adversary, held, client)
        examples = list(self._examples())
        table = pa.Table.from_pylist(self.rows, schema=SCHEMA)
        ledger = with_measured(self.ledger, self.measured, frozenset(self.disproved))
        files = example_files(self.run.seed, examples, self.path.data)
        return Audited(table, ledger, files, list(self._notes(examples)))

    @property
    def _models_are_sums(self) -> bool:
        """Whether the server states something of its models, and they are weighted sums of the uploads."""
        path, scenario = self.path, self.observer.federation.resolved.scenario
        in_training = path.scheme.noise_each_epoch or path.training.example_noise > 0
        return (
            path.scheme.model_guarantee(path.context) is not None
            and not in_training
            and scenario.defence.rule.is_linear
            and scenario.defence.detector is None
        )

    # --- uploads -----------------------------------------------------------------------------------------------------

    def _uploads(self, adversary: str, held: AdversaryHoldings, client: AuditedClient) -> None:
        stated = self.path.scheme.upload_guarantee(self.path.context, client.client)
        row = (self.run.seed, "client", client.client, adversary)
        for kind in self.observer.audit.neighbours:
            neighbour = _best(client, kind)
            if neighbour is not None:
                self._add(row, client, stated, list(upload_releases(self.path, client, neighbour, held)))
        far = furthest_upload(client, counted_kinds(stated), held)
        if far is not None and row in self.known and _exceeds(far[1].distance, far[0].release.sensitivity):
            self.disproved.add(row)

    def _models(self, adversary: str, held: AdversaryHoldings, client: AuditedClient) -> None:
        stated = self.path.scheme.model_guarantee(self.path.context)
        row = (self.run.seed, "model", -1, adversary)
        for kind in self.observer.audit.neighbours:
            neighbour = _best(client, kind)
            if neighbour is None:
                continue
            releases = list(model_transcript(self.path, client, neighbour, held, self.models))
            self._add(row, client, stated, releases)
            disproved = any(_exceeds(one.distance, one.sensitivity) for one in releases)
            if disproved and kind in counted_kinds(stated) and row in self.known:
                self.disproved.add(row)

    def _add(self, row: Row, client: AuditedClient, stated: Guarantee | None, releases: list[TwinRelease]) -> None:
        """Put the releases of a twin into the table, and what they come to into the ledger."""
        if not releases:
            return
        delta = 0.0 if stated is None else stated.delta
        once, total = self._epsilons(releases, delta)
        kind = releases[0].neighbour.kind
        counts = kind in counted_kinds(stated)
        moments = np.minimum(np.searchsorted(self.published, [one.time_s for one in releases]), len(self.versions) - 1)
        for one, moment, alone, together in zip(releases, moments.tolist(), once.tolist(), total.tolist(), strict=True):
            share = one.distance / one.sensitivity if one.sensitivity > 0 else math.nan
            self.rows.append(
                {
                    "seed": self.run.seed,
                    "holder": row[1],
                    "client": client.client,
                    "adversary": row[3],
                    "kind": kind,
                    "counts": counts,
                    "task": one.task,
                    "version": self.versions[moment],
                    "time_s": one.time_s,
                    "twins": _tried(client, one),
                    "sample": one.neighbour.sample,
                    "label": one.neighbour.label if isinstance(one.neighbour.label, int) else -1,
                    "distance": one.distance,
                    "sensitivity": one.sensitivity,
                    "sensitivity_share": share,
                    "sigma": one.std,
                    "twin_sigma": one.twin_std,
                    "delta": delta,
                    "epsilon_once": alone,
                    "epsilon": together,
                }
            )
        if counts and row in self.known:
            self.measured[row] = max(self.measured.get(row, 0.0), float(total[-1]))

    def _epsilons(self, releases: list[TwinRelease], delta: float) -> tuple[Floats, Floats]:
        """See `epsilons`; adversaries that hold the same are answered once."""
        key = (releases[0].neighbour.number, delta, *((one.task, one.pure, one.gaussians) for one in releases))
        if key not in self._known_epsilons:
            self._known_epsilons[key] = epsilons(releases, delta)
        return self._known_epsilons[key]

    # --- what is told ------------------------------------------------------------------------------------------------

    def _examples(self) -> Iterator[Example]:
        """The furthest twin of each client whose assumed sensitivity is disproved."""
        every = {task for one in self.held.values() for task in one.uploads}
        held = AdversaryHoldings(dict.fromkeys(every, 0.0), {})
        for client in self.observer.clients.values():
            stated = self.path.scheme.upload_guarantee(self.path.context, client.client)
            far = furthest_upload(client, counted_kinds(stated), held)
            if far is not None and _exceeds(far[1].distance, far[0].release.sensitivity):
                task, twin = far
                yield Example(
                    client.client, task.task, task.base_version, twin.neighbour, twin.distance, task.release.sensitivity
                )

    def _notes(self, examples: list[Example]) -> Iterator[str]:
        yield from self._unmeasured()
        for one in examples[:1]:
            others = len(examples) - 1
            more = f", and the same for {others} more client{'s' if others > 1 else ''}" if others else ""
            yield f"{NOTE}the assumed sensitivity is disproved by example in seed {self.run.seed}: {one.said}{more}"
        if any(math.isinf(value) for value in self.measured.values()):
            yield f"{NOTE}epsilon is infinite where what was released differs between twins and no noise hides it"

    def _unmeasured(self) -> Iterator[str]:
        """Why nothing is measured, of some clients or of all."""
        observer, seed = self.observer, self.run.seed
        wanted, broken, strayed = observer.audit.clients, observer.not_finite, observer.strayed
        if isinstance(wanted, tuple):
            unseen = [one for one in wanted if one not in observer.clients]
            for silent, why in (
                ([one for one in unseen if one not in {*broken, *strayed}], "no honest update was collected"),
                ([one for one in unseen if one in broken], "no update was finite"),
                ([one for one in unseen if one in strayed], "its own layers learned from an attack first"),
            ):
                if silent:
                    named = ", ".join(map(str, silent))
                    yield f"{NOTE}nothing is measured of client {named}, of whom {why} in seed {seed}"
        if not observer.clients:
            updates = sum(broken.values())
            why = (
                f"not one of the {updates} honest updates collected was finite"
                if updates
                else "no honest update was collected"
            )
            yield f"{NOTE}nothing is measured in seed {seed}: {why}"
        stated = [self.path.scheme.upload_guarantee(self.path.context, client) for client in observer.clients]
        kinds = dict.fromkeys(kind for guarantee in stated for kind in counted_kinds(guarantee))
        if stated and not set(kinds) & set(observer.audit.neighbours):
            claim = next((f"{one.neighbours} of a {one.unit}" for one in stated if one is not None), "")
            yield (
                f"{NOTE}nothing is measured in seed {seed}: for the claim ({claim}) only these twins are neighbours: "
                f"{', '.join(kinds)}"
            )


def _best(client: AuditedClient, kind: Twin) -> Neighbour | None:
    """The twin of a kind that was followed to the end and went furthest; None: there is none."""
    of_kind = [one for one in client.followed if one.kind == kind]
    return max(of_kind, key=lambda one: (so_far(client, one), -one.number), default=None)


def _tried(client: AuditedClient, release: TwinRelease) -> int:
    task = client.tasks.get(release.task)
    if task is None:
        return 1
    return sum(twin.neighbour.kind == release.neighbour.kind for twin in task.twins.values())


def _exceeds(distance: float, sensitivity: float) -> bool:
    return math.isfinite(sensitivity) and distance > sensitivity * (1 + ROUNDING)
