"""The table of rounds as it grows: one row per published model, with the verdicts of detectors since the last."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from asyncfl.base.messages import Judged, Publish, Vector
from asyncfl.defences.quality import COUNTS, Judgement, overall_quality
from asyncfl.federation.evaluation import (
    METRIC,
    NOT_MEASURED,
    NOT_TESTED,
    Evaluator,
    PersonalEvaluator,
    by_domain,
    fairness,
)
from asyncfl.federation.kept_models import KeptModels
from asyncfl.federation.prepare import Federation
from asyncfl.federation.round_rows import RoundRows, Row
from asyncfl.federation.traffic import Traffic
from asyncfl.federation.upload_budgets import budget_columns
from asyncfl.learning.personal_layers import PersonalLayers
from asyncfl.scenario import Scenario

Progress: TypeAlias = Callable[[dict[str, Any]], None]
"""Callback for each row of the table of rounds as soon as it is complete."""
PartialTables: TypeAlias = Callable[[], Mapping[str, pa.Table]]
"""Function that returns the tables `rounds` and `events` of a seed so far."""
Watch: TypeAlias = Callable[[int, PartialTables], None]
"""Callback (version, function that returns the tables so far), called for each evaluated version."""

JUDGED = ("train_loss", "test_loss", "test_accuracy")
"""Columns of the quality of a version that are logged."""
DETECTOR = "detector_"
"""Prefix of the further columns of a run with a detector: its statistics of each buffer (`Verdict.notes`)."""


log = logging.getLogger(__name__)


class RoundRecorder:
    """Writes the table of rounds, and ends a run that diverges."""

    def __init__(
        self, scenario: Scenario, seed: int, federation: Federation | None = None, progress: Progress | None = None
    ) -> None:
        """`federation`: None if only the clock is simulated and no model is evaluated."""
        self.seed = seed
        self.scenario = scenario
        self.federation = federation
        self.progress = progress
        self.evaluator = None if federation is None else evaluator_of(federation)
        self._judgements: list[Judgement] = []
        self._attacked: set[int] = set()
        """Clients with a malicious update judged so far."""
        self._numbers: dict[str, float] = {}
        self.seconds = 0.0
        self.rows = RoundRows()
        self.by_client: dict[int, tuple[float, NDArray[np.float64]]] = {}
        """Version -> time of publication, and (clients, 2) loss and accuracy on each client's own data."""
        self._personal = None if federation is None else federation.path.personal
        stacked = None if self._personal is None else self._stacked
        self.kept = KeptModels(scenario.evaluation, scenario.protocol.rounds, stacked)

    def judged(self, judged: Judged) -> None:
        """Store a verdict, which the row of the next version counts."""
        malicious = [self._malicious(task, client) for task, client in zip(judged.tasks, judged.clients, strict=True)]
        self._attacked.update(client for client, bad in zip(judged.clients, malicious, strict=True) if bad)
        self._judgements.append(
            Judgement(judged.version, judged.clients, judged.accused, judged.banned, judged.unjudged or None, malicious)
        )
        self._numbers = {f"{DETECTOR}{name}": float(number) for name, number in judged.notes}

    def _malicious(self, task: int, client: int) -> bool:
        attackers = None if self.federation is None else self.federation.attackers
        return attackers is not None and attackers.malicious(task, client)

    def _detection(self) -> dict[str, float]:
        """Return counts and quality of the verdicts since the last version, and forget these verdicts."""
        if not self._judgements:
            return {**dict.fromkeys(COUNTS, 0), "precision": math.nan, "recall": math.nan}
        # A ban is right if the client has attacked so far.
        banned_rightly = np.zeros(self.scenario.data.clients, dtype=bool)
        banned_rightly[list(self._attacked)] = True
        quality = overall_quality(self._judgements, banned_rightly)
        self._judgements = []
        return {name: int(value) if name in COUNTS else value for name, value in quality.items()}

    def published(self, time_s: float, publish: Publish, traffic: Traffic) -> str | None:
        """Write and evaluate the row of a version. Returns a reason to stop if the run has diverged."""
        return self.evaluate(self.begin(time_s, publish, traffic), publish)

    def begin(self, time_s: float, publish: Publish, traffic: Traffic) -> Row:
        """Append the row of a version at its publication, without the results of evaluation, and return it."""
        row = {
            "seed": self.seed,
            "version": publish.version,
            "time_s": time_s,
            "train_loss": math.nan,
            "test_loss": math.nan,
            "test_accuracy": math.nan,
            "participants": publish.participants,
            "clip_norm": _or_nan(publish.clip_norm),
            "sigma_u": self._upload_std() if publish.version else 0.0,
            "sigma_d": publish.noise_std,
            "staleness_mean": float(np.mean(publish.staleness)) if publish.staleness else math.nan,
            "staleness_max": max(publish.staleness, default=-1),
            "bytes_up": traffic.bytes_up,
            "bytes_down": traffic.bytes_down,
            "diverged": False,
            **self._detection(),
            "attack_success": math.nan,
            **by_domain(self._domains, [math.nan] * len(self._domains)),
            **self._asked(),
            **self._aggregated(publish.version),
            **self._budgets(publish.version),
        }
        row |= self._numbers
        self._numbers = {}
        self.rows.append(row)
        return row

    def _asked(self) -> dict[str, float]:
        """Return the optional columns, and those of a regression, as not measured yet."""
        evaluation = self.scenario.evaluation
        if self.evaluator is None:
            return {}
        asked = {f"{METRIC}{name}": math.nan for name in evaluation.metrics}
        if not self.evaluator.data.classes:
            asked |= NOT_TESTED
        return asked | NOT_MEASURED if evaluation.clients_every else asked

    def _aggregated(self, version: int) -> dict[str, float]:
        """Return the columns of the version's aggregate, if asked for."""
        aggregates = None if self.federation is None else self.federation.aggregates
        return {} if aggregates is None else aggregates.columns(version)

    @property
    def _domains(self) -> Sequence[str]:
        return () if self.evaluator is None else self.evaluator.data.domains

    def _stacked(self) -> Vector:
        """Return (clients, n_personal) the personal layers of all clients."""
        assert self._personal is not None
        return self._personal.stacked(self.scenario.data.clients)

    def evaluate(self, row: Row, publish: Publish, personal: PersonalLayers | None = None) -> str | None:
        """Evaluate a version and complete its row. Returns a reason to stop if the run has diverged.

        `personal`: personal layers of the clients at its publication, if clients have trained since.
        """
        if personal is not None and isinstance(self.evaluator, PersonalEvaluator):
            self._personal = self.evaluator.parts = personal
        losses = []
        if self.evaluator is not None:
            began = time.perf_counter()
            evaluation, last = self.scenario.evaluation, publish.version == self.scenario.protocol.rounds
            # The samples of live clients are unknown here.
            if len(self.evaluator.data.labels) and _due(publish.version, evaluation.train_every, last):
                row["train_loss"] = self.evaluator.train_loss(publish.model)
                losses.append(row["train_loss"])
            if _due(publish.version, evaluation.test_every, last):
                if len(self._domains) > 1:
                    row["test_loss"], row["test_accuracy"], shares = self.evaluator.test_by_domain(publish.model)
                    row |= by_domain(self._domains, shares)
                else:
                    row["test_loss"], row["test_accuracy"] = self.evaluator.test(publish.model)
                row |= self.evaluator.regression(publish.model)
                row |= self.evaluator.own_metrics(evaluation.metrics, publish.model)
                row["attack_success"] = _or_nan(self.evaluator.attack_success(publish.model))
                losses.append(row["test_loss"])
            if evaluation.clients_every and _due(publish.version, evaluation.clients_every, last):
                self.by_client[publish.version] = row["time_s"], self.evaluator.on_clients(publish.model)
                row |= fairness(*self.by_client[publish.version][1].T)
            self.seconds += time.perf_counter() - began
        # A model that is not finite has losses that are not finite, but it may not have been evaluated.
        row["diverged"] = not all(math.isfinite(value) for value in [*losses, float(publish.model.sum())])
        if self.federation is not None:
            self.kept.offer(publish.version, publish.model, row)
        self.rows.completed()
        log.debug(
            "seed %d: version %d at %.6g s of %d updates, train loss %.6g, test loss %.6g, test accuracy %.4g",
            *(row[name] for name in ("seed", "version", "time_s", "participants", *JUDGED)),
        )
        if self.progress is not None:
            self.progress(row)
        if row["diverged"]:
            return diverged_at(publish.version)
        return None

    @property
    def diverged(self) -> int | None:
        """First evaluated version that is not finite; None if all are."""
        return next((row["version"] for row in self.rows if row["diverged"]), None)

    def _upload_std(self) -> float:
        """Return the largest standard deviation of the clients' noise in the last collection."""
        newest = () if self.federation is None else self.federation.releases.newest
        return max((one.added_std for one in newest), default=0.0)

    def _budgets(self, version: int) -> dict[str, float]:
        if self.federation is None:
            return {}
        return budget_columns(self.federation.path, self.federation.releases.model(version))


def diverged_at(version: int) -> str:
    """Return the reason to stop for a version whose model or loss is not finite."""
    return f"diverged: the model of version {version} or its loss is not finite"


def evaluator_of(federation: Federation) -> Evaluator:
    """Return the evaluator of a federation's models."""
    attack = None if federation.attackers is None else federation.attackers.threats.attack
    if federation.path.personal is not None:
        return PersonalEvaluator(federation.path.personal, federation.data, attack)
    return Evaluator(federation.learner, federation.data, attack)


def _due(version: int, every: int, last: bool) -> bool:
    return last or (every > 0 and version % every == 0)


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value
