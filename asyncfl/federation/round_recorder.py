"""The table of rounds as it grows: one row for each published model, with what detectors said on the way to it."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from asyncfl.defences.quality import COUNTS, Judgement, overall_quality
from asyncfl.federation.evaluation import METRIC, Evaluator, by_domain
from asyncfl.federation.fairness import NOT_MEASURED, fairness
from asyncfl.federation.kept_models import KeptModels
from asyncfl.federation.personal_evaluation import PersonalEvaluator
from asyncfl.federation.prepare import Federation
from asyncfl.federation.regression_quality import NOT_MEASURED as NOT_TESTED
from asyncfl.federation.round_rows import RoundRows, Row
from asyncfl.federation.traffic import Traffic
from asyncfl.federation.upload_budgets import budget_columns
from asyncfl.learning.personal_layers import PersonalLayers
from asyncfl.messages import Judged, Publish, Vector
from asyncfl.scenario import Scenario

Progress: TypeAlias = Callable[[dict[str, Any]], None]
"""Is told each row of the table of rounds as soon as it is known."""
PartialTables: TypeAlias = Callable[[], Mapping[str, pa.Table]]
"""Makes the tables `rounds` and `events` of a seed, as far as it has come."""
Watch: TypeAlias = Callable[[int, PartialTables], None]
"""Is told of each version when it has been evaluated, and what the seed has come to."""

JUDGED = ("train_loss", "test_loss", "test_accuracy")
"""Columns by which a version is judged first of all."""
DETECTOR = "detector_"
"""Beginning of the further columns of a run with a detector: its numbers about each buffer (`Verdict.notes`)."""


log = logging.getLogger(__name__)


class RoundRecorder:
    """The table of rounds as it grows, and the end of a run that diverges."""

    def __init__(
        self, scenario: Scenario, seed: int, federation: Federation | None = None, progress: Progress | None = None
    ) -> None:
        """`federation` None: only the clock is simulated, and no model is looked at."""
        self.seed = seed
        self.scenario = scenario
        self.federation = federation
        self.progress = progress
        self.evaluator = None if federation is None else evaluator_of(federation)
        self._judgements: list[Judgement] = []
        self._attacked: set[int] = set()
        """Clients of whom an attacker's update has been judged."""
        self._numbers: dict[str, float] = {}
        self.seconds = 0.0
        self.rows = RoundRows()
        self.by_client: dict[int, tuple[float, NDArray[np.float64]]] = {}
        """Version -> when it was published, and (clients, 2) its loss and accuracy on each client's own data."""
        self._personal = None if federation is None else federation.path.personal
        stacked = None if self._personal is None else self._stacked
        self.kept = KeptModels(scenario.evaluation, scenario.protocol.rounds, stacked)

    def judged(self, judged: Judged) -> None:
        """Keep a verdict for the row of the version that follows from it."""
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
        """Counts of the verdicts since the last version, and how good they were."""
        if not self._judgements:
            return {**dict.fromkeys(COUNTS, 0), "precision": math.nan, "recall": math.nan}
        # A ban is right where the client has attacked so far.
        banned_rightly = np.zeros(self.scenario.data.clients, dtype=bool)
        banned_rightly[list(self._attacked)] = True
        quality = overall_quality(self._judgements, banned_rightly)
        self._judgements = []
        return {name: int(value) if name in COUNTS else value for name, value in quality.items()}

    def published(self, time_s: float, publish: Publish, traffic: Traffic) -> str | None:
        """Write the row of a version, evaluated. A text: the run has diverged and must stop."""
        return self.evaluate(self.begin(time_s, publish, traffic), publish)

    def begin(self, time_s: float, publish: Publish, traffic: Traffic) -> Row:
        """The row of a version at the moment of its publication; what evaluation finds out is still missing in it."""
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
        """Columns that are measured only where that is asked for, or of a regression, not measured yet."""
        evaluation = self.scenario.evaluation
        if self.evaluator is None:
            return {}
        asked = {f"{METRIC}{name}": math.nan for name in evaluation.metrics}
        if not self.evaluator.data.classes:
            asked |= NOT_TESTED
        return asked | NOT_MEASURED if evaluation.clients_every else asked

    def _aggregated(self, version: int) -> dict[str, float]:
        """Columns about the aggregate that the version came from, where they are asked for."""
        aggregates = None if self.federation is None else self.federation.aggregates
        return {} if aggregates is None else aggregates.columns(version)

    @property
    def _domains(self) -> Sequence[str]:
        return () if self.evaluator is None else self.evaluator.data.domains

    def _stacked(self) -> Vector:
        """(clients, n_personal) the personal layers of all clients."""
        assert self._personal is not None
        return self._personal.stacked(self.scenario.data.clients)

    def evaluate(self, row: Row, publish: Publish, personal: PersonalLayers | None = None) -> str | None:
        """Evaluate a version, and complete its row. A text: the run has diverged and must stop.

        `personal`: what clients had made of their own layers when it was published, where they have gone on since.
        """
        if personal is not None and isinstance(self.evaluator, PersonalEvaluator):
            self._personal = self.evaluator.parts = personal
        losses = []
        if self.evaluator is not None:
            began = time.perf_counter()
            evaluation, last = self.scenario.evaluation, publish.version == self.scenario.protocol.rounds
            # Of clients that are real, nobody has the samples but they themselves.
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
        # A model that is not finite gives losses that are not either, but it may not have been judged.
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
        """The first version that was judged and is not finite; None: all are."""
        return next((row["version"] for row in self.rows if row["diverged"]), None)

    def _upload_std(self) -> float:
        """Largest standard deviation of the noise that clients added to what was collected last."""
        newest = () if self.federation is None else self.federation.releases.newest
        return max((one.added_std for one in newest), default=0.0)

    def _budgets(self, version: int) -> dict[str, float]:
        if self.federation is None:
            return {}
        return budget_columns(self.federation.path, self.federation.releases.model(version))


def diverged_at(version: int) -> str:
    """Why a run ends whose model of this version, or its loss, is not finite."""
    return f"diverged: the model of version {version} or its loss is not finite"


def evaluator_of(federation: Federation) -> Evaluator:
    """What judges the models of a federation."""
    attack = None if federation.attackers is None else federation.attackers.threats.attack
    if federation.path.personal is not None:
        return PersonalEvaluator(federation.path.personal, federation.data, attack)
    return Evaluator(federation.learner, federation.data, attack)


def _due(version: int, every: int, last: bool) -> bool:
    return last or (every > 0 and version % every == 0)


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value
