"""The table of rounds as it grows: one row per published model, with the verdicts of detectors since the last."""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby, islice
from typing import Any, Protocol, overload

import numpy as np
import pyarrow as pa

from asyncfl.base.arrays import Floats, Vector
from asyncfl.base.files.batch_spool import BatchSpool
from asyncfl.base.instrument import NO_INSTRUMENT, Instrument, Row
from asyncfl.base.tables import AggregateColumns, RoundsTable, UploadEpsilonColumns, schema_of
from asyncfl.client import TaskPath
from asyncfl.defences.quality import COUNTS, SHARES, Judgement, overall_quality
from asyncfl.learning.personal_layers import PersonalLayers
from asyncfl.privacy.release import ModelRelease
from asyncfl.protocol.event_query import end_of
from asyncfl.protocol.messages import BufferVerdict, Publish
from asyncfl.scenario import Scenario
from asyncfl.simulation.action_executor import EventLog, Traffic
from asyncfl.simulation.evaluation import (
    BY_DOMAIN,
    METRIC,
    NOT_MEASURED,
    NOT_TESTED,
    Evaluator,
    Measured,
    by_domain,
)
from asyncfl.simulation.kept_models import KeptModels
from asyncfl.simulation.prepare import Federation

DETECTOR = "detector_"
"""Prefix of the further columns of a run with a detector: its statistics of each buffer (`Verdict.notes`)."""
UPLOAD_EPSILONS = tuple(UploadEpsilonColumns.model_fields)
"""Columns about the updates that were aggregated into a version, for schemes with a budget per upload."""
FURTHER = (*UPLOAD_EPSILONS, *NOT_MEASURED, *AggregateColumns.model_fields, *NOT_TESTED)
"""Columns that only some runs have."""
NO_DETECTION = dict.fromkeys(COUNTS, 0) | dict.fromkeys(SHARES, math.nan)
PUT_AWAY_AT = 1024
"""Rows kept as objects (two kilobytes each) before they are packed and moved to disk."""
AT_A_TIME = 4096
"""Rows converted to a table at a time."""

NOTHING = Measured({}, [], None)
"""Measurements without an evaluator."""
OPEN = 8
"""Versions that may wait for their evaluation elsewhere."""
TAME = 1e3
"""Absolute value of parameters below which losses of the networks used here are finite: a version is then evaluated
while the run goes on."""

log = logging.getLogger(__name__)


class LateDivergenceError(Exception):
    """A loss was found not to be finite when the run had gone on already. Its argument is the version."""


class Evaluators(Protocol):
    """Evaluators of versions elsewhere, while the run goes on."""

    def evaluate(self, version: int, model: Vector) -> Any:
        """Begin to evaluate a version, (n_parameters,)."""

    def result(self, call: Any) -> Measured:
        """Wait for a call of `evaluate`."""


class RoundRows(Sequence[Row]):
    """Rows in the order of their versions, most of them on disk. Complete rows must not be changed, except for the
    last."""

    def __init__(self) -> None:
        self._spool = BatchSpool()
        self._away = 0
        self._complete = 0
        """Complete rows in memory."""
        self._recent: list[Row] = []

    def append(self, row: Row) -> None:
        """Add a row that may be completed later."""
        self._recent.append(row)

    def completed(self) -> None:
        """Mark the first incomplete row as complete."""
        self._complete += 1
        if self._complete > PUT_AWAY_AT:
            number = self._complete - 1
            # Rows that are packed together must have the same columns. Another thread may append rows meanwhile.
            for _, alike in groupby(self._recent[:number], key=lambda row: [(k, type(v)) for k, v in row.items()]):
                self._spool.put(pa.RecordBatch.from_pylist(list(alike)))
            del self._recent[:number]
            self._away += number
            self._complete = 1

    def __len__(self) -> int:
        return self._away + len(self._recent)

    def __iter__(self) -> Iterator[Row]:
        for batch in self._spool.batches():
            yield from batch.to_pylist()
        yield from self._recent

    @overload
    def __getitem__(self, place: int) -> Row: ...
    @overload
    def __getitem__(self, place: slice) -> list[Row]: ...
    def __getitem__(self, place: int | slice) -> Row | list[Row]:
        if isinstance(place, slice):
            return list(self)[place]
        number = range(len(self))[place]
        if number >= self._away:
            return self._recent[number - self._away]
        return next(islice(self, number, None))


class RoundRecorder(Instrument):
    """Writes the table of rounds, and ends a run that diverges."""

    def __init__(
        self,
        scenario: Scenario,
        seed: int,
        federation: Federation | None = None,
        instrument: Instrument = NO_INSTRUMENT,
    ) -> None:
        """`federation`: None if only the clock is simulated and no model is evaluated. `instrument`: receives each
        row when it is complete."""
        self.seed = seed
        self.scenario = scenario
        self.federation = federation
        self.event_log: EventLog | None = None
        """Events and tasks of the seed, for the tables so far; None: nobody receives these."""
        self.instrument = instrument
        self.evaluator: Evaluator | None = None
        self.kept = KeptModels(scenario.evaluation, scenario.protocol.rounds)
        self._attackers = None if federation is None else federation.attackers
        self._personal: PersonalLayers | None = None
        if federation is not None:
            attack = None if self._attackers is None else self._attackers.threats.attack
            self._personal = federation.path.personal
            self._schedule = scenario.evaluation_schedule
            self.evaluator = Evaluator(federation.learner, federation.data, attack, federation.path.personal)
        self.evaluators: Evaluators | None = None
        """Evaluators elsewhere; None to evaluate here."""
        self._open: deque[tuple[Row, Publish, Any]] = deque()
        self._judgements: list[Judgement] = []
        self._attacked: set[int] = set()
        """Clients with a malicious update judged so far."""
        self._statistics: dict[str, float] = {}
        self.seconds = 0.0
        self.rows = RoundRows()
        self.diverged: int | None = None
        """First evaluated version that is not finite; None if all are."""
        self.by_client: dict[int, tuple[float, Floats]] = {}
        """Version -> time of publication, and (clients, 2) loss and accuracy on each client's own data."""

    def judged(self, judged: BufferVerdict) -> None:
        """Store a verdict, which the row of the next version counts."""
        malicious = [False] * len(judged.tasks)
        if self._attackers is not None:
            malicious = self._attackers.malicious_among(judged.tasks, judged.clients)
        self._attacked.update(client for client, bad in zip(judged.clients, malicious, strict=True) if bad)
        self._judgements.append(Judgement(judged.accused, malicious, judged.unjudged, judged.banned))
        self._statistics = {f"{DETECTOR}{name}": float(number) for name, number in judged.notes}

    def _detection(self) -> dict[str, float]:
        """Return counts and quality of the verdicts since the last version, and forget these verdicts."""
        if not self._judgements:
            return NO_DETECTION
        # A ban is right if the client has attacked so far.
        banned_rightly = np.zeros(self.scenario.data.clients, dtype=bool)
        banned_rightly[list(self._attacked)] = True
        quality = overall_quality(self._judgements, banned_rightly)
        self._judgements = []
        return {name: int(value) if name in COUNTS else value for name, value in quality.items()}

    def published(self, time_s: float, publish: Publish, traffic: Traffic) -> str | None:
        """Write and evaluate the row of a version. Returns a reason to stop if the run has diverged."""
        row = self.begin_row(time_s, publish, traffic)
        if self.evaluators is None or self._personal is not None or not np.abs(publish.model).max() < TAME:
            self.finish()
            return self.evaluate(row, publish)
        self._open.append((row, publish, self.evaluators.evaluate(publish.version, publish.model)))
        self.finish(leave=OPEN)
        return None

    def finish(self, leave: int = 0) -> None:
        """Wait for evaluations elsewhere, but for the last `leave`. Raises LateDivergenceError."""
        while len(self._open) > leave and self.evaluators is not None:
            row, publish, call = self._open.popleft()
            measured = self.evaluators.result(call)
            self.seconds += measured.seconds
            if self._complete(row, publish, measured) is not None:
                raise LateDivergenceError(publish.version)

    def begin_row(self, time_s: float, publish: Publish, traffic: Traffic) -> Row:
        """Append the row of a version at its publication, without the results of evaluation, and return it."""
        federation = self.federation
        newest = () if federation is None else federation.releases.newest
        row = {
            "seed": self.seed,
            "version": publish.version,
            "time_s": time_s,
            "train_loss": math.nan,
            "test_loss": math.nan,
            "test_accuracy": math.nan,
            "participants": publish.participants,
            "clip_norm": math.nan if publish.clip_norm is None else publish.clip_norm,
            # The largest standard deviation of the clients' noise in the last collection.
            "sigma_u": max((one.added_std for one in newest), default=0.0) if publish.version else 0.0,
            "sigma_d": publish.noise_std,
            "staleness_mean": sum(publish.staleness) / len(publish.staleness) if publish.staleness else math.nan,
            "staleness_max": max(publish.staleness, default=-1),
            "waiting_max": publish.waiting_max,
            "bytes_up": traffic.bytes_up,
            "bytes_down": traffic.bytes_down,
            "diverged": False,
            **self._detection(),
            "attack_success": math.nan,
            **self._not_evaluated(),
        }
        if federation is not None:
            if federation.aggregates is not None:
                row |= federation.aggregates.columns(publish.version)
            row |= epsilon_columns(federation.path, federation.releases.model(publish.version))
        row |= self._statistics
        self._statistics = {}
        self.rows.append(row)
        return row

    def _not_evaluated(self) -> dict[str, float]:
        """Return the optional columns of an evaluation as NaN."""
        if self.evaluator is None:
            return {}
        evaluation, data = self.scenario.evaluation, self.evaluator.data
        found = by_domain(data.domains, [math.nan] * len(data.domains))
        found |= {f"{METRIC}{name}": math.nan for name in evaluation.metrics}
        found |= {} if data.classes else NOT_TESTED
        return found | NOT_MEASURED if evaluation.clients_every else found

    def evaluate(self, row: Row, publish: Publish, personal: PersonalLayers | None = None) -> str | None:
        """Evaluate a version and complete its row. Returns a reason to stop if the run has diverged.

        `personal`: personal layers of the clients at its publication, if clients have trained since.
        """
        measured = NOTHING
        if self.evaluator is not None:
            if personal is not None:
                self._personal = self.evaluator.personal = personal
            began = time.perf_counter()
            measured = self.evaluator.measure(self.scenario.evaluation, self._schedule, publish.version, publish.model)
            self.seconds += time.perf_counter() - began
        return self._complete(row, publish, measured)

    def _complete(self, row: Row, publish: Publish, measured: Measured) -> str | None:
        row |= measured.columns
        if measured.by_client is not None:
            self.by_client[publish.version] = row["time_s"], measured.by_client
        # A model that is not finite has losses that are not finite, but it may not have been evaluated.
        row["diverged"] = not all(math.isfinite(value) for value in (*measured.losses, _sum_of(publish.model)))
        if row["diverged"] and self.diverged is None:
            self.diverged = publish.version
        if self.federation is not None:
            own = self._personal
            stacked = None if own is None else partial(own.stacked, self.scenario.data.clients)
            self.kept.offer(publish.version, publish.model, row, stacked)
        self.rows.completed()
        if log.isEnabledFor(logging.DEBUG):
            log.debug(
                "seed %d: version %d at %.6g s of %d updates, train loss %.6g, test loss %.6g, test accuracy %.4g",
                *(row[name] for name in ("seed", "version", "time_s", "participants")),
                *(row[name] for name in ("train_loss", "test_loss", "test_accuracy")),
            )
        self.instrument.row(row)
        if self.event_log is not None:
            self.instrument.so_far(publish.version, self.tables)
        return diverged_at(publish.version) if row["diverged"] else None

    def tables(self) -> dict[str, pa.Table]:
        """Return the tables `rounds`, `events` and `tasks` so far."""
        rounds = {"rounds": table_of_rounds(self.rows)}
        if self.event_log is None:
            return rounds
        events = self.event_log.recorder.table()
        return {**rounds, "events": events, "tasks": self.event_log.tasks_table(end_of(events))}


def _sum_of(model: Vector) -> float:
    """Return the sum of the parameters, which is finite only if all are; 0 if only the clock is simulated."""
    return float(model.sum()) if len(model) else 0.0


def diverged_at(version: int) -> str:
    """Return the reason to stop for a version whose model or loss is not finite."""
    return f"diverged: the model of version {version} or its loss is not finite"


def epsilon_columns(path: TaskPath, model: ModelRelease | None) -> dict[str, float]:
    """Return the columns for a published model; NaN if it was made of no update (`model` None); none without
    budgets."""
    if path.state.epsilon(0, 0) is None:
        return {}
    contributions = () if model is None else model.contributions
    epsilons = [one.epsilon for one in contributions if one.epsilon is not None]
    if model is None or not epsilons:
        return dict.fromkeys(UPLOAD_EPSILONS, math.nan)
    # Includes attackers that were asked for noise and added none.
    stds = [path.scheme.upload_noise(path.context, model.clip_norm, one).std for one in contributions]
    mean, mean_std = float(np.mean(epsilons)), float(np.mean(stds))
    values = (mean, min(epsilons), max(epsilons), math.fsum(epsilons), mean_std)
    return dict(zip(UPLOAD_EPSILONS, values, strict=True))


def table_of_rounds(rows: Sequence[Row]) -> pa.Table:
    """Convert rows to the table of rounds.

    A federation of several domains also has the columns of `evaluation.by_domain`; budgets per upload those of
    `UploadEpsilonColumns`; a regression those of `RegressionColumns`; on request those of `FairnessColumns`, of
    `AggregateColumns` and of the user's own metrics; a detector one column per statistic, `detector_` and its name (NaN
    if missing).
    """
    further = [name for name in (rows[0] if rows else {}) if name.startswith((BY_DOMAIN, METRIC)) or name in FURTHER]
    statistics = sorted({name for row in rows for name in row if name.startswith(DETECTOR)})
    none = dict.fromkeys(statistics, np.nan)
    schema = pa.schema([*schema_of(RoundsTable), *(pa.field(name, pa.float64()) for name in (*further, *statistics))])
    left, parts = iter(rows), [schema.empty_table()]
    while part := [none | row for row in islice(left, AT_A_TIME)]:
        parts.append(pa.Table.from_pylist(part, schema=schema))
    return pa.concat_tables(parts).combine_chunks()
