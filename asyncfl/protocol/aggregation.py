"""The buffer that is being aggregated: from the parameters of its updates to the next model.

Malformed updates are rejected first, and count as strikes against their senders (enough strikes ban a client). Then
clients are asked for scores, one after another until one answers, if a detector wants scores. Then the defences decide:
which updates are excluded, which clients are given strikes or banned, and the next model. Excluded updates get their
fate at once; the others when the model is published, since the run may end before.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from msgspec.structs import replace as replaced

from asyncfl.algorithms import AcceptedUpdates, Algorithm
from asyncfl.base.answers import flags, numbers, require, with_state
from asyncfl.base.arrays import Bools, Floats, Ints, Vector
from asyncfl.base.instrument import Instrument
from asyncfl.base.streams import Streams
from asyncfl.defences import Buffer, DefenceContext, Detector, Mean, Rule, Strikes, Verdict, accept_all
from asyncfl.protocol.messages import (
    Action,
    BufferVerdict,
    Collect,
    Collected,
    CollectedSum,
    CollectSum,
    Fate,
    ScoreRequest,
)
from asyncfl.protocol.model_step import ModelStep, model_of_sum, next_model
from asyncfl.protocol.settings import Protocol
from asyncfl.protocol.task_record import TaskRecord
from asyncfl.protocol.task_table import TaskTable

Scores: TypeAlias = Callable[[int, Vector], Floats]
"""(client, models (n, n_parameters)) -> (n,) accuracies that the client reports."""
LARGEST = float(np.sqrt(np.finfo(np.float32).max))
"""Largest absolute value of a usable parameter, 1.8e19: its square, and sums of updates, stay within float32."""
LEAST_REJECTED = 20
"""Rejected updates in succession (or one per client of a larger federation) after which the model counts as diverged
although some clients have sent none."""


def usable(models: Vector) -> Bools:
    """Return (n,) whether all parameters of each of the models (n, n_parameters) are at most `LARGEST`: not so for NaN,
    for infinity, and for finite values with which the next model overflows."""
    if not models.shape[1]:
        return np.ones(len(models), dtype=bool)
    within: Bools = (models.max(axis=1) <= LARGEST) & (models.min(axis=1) >= -LARGEST)
    return within


@dataclass(frozen=True)
class DefencePlan:
    """The server's defences. By default updates are averaged and not judged."""

    rule: Rule = Mean()
    detector: Detector | None = None
    strikes: Strikes | None = None
    context: DefenceContext | None = None
    """Facts about the federation for rule and detector; required if they have state."""
    fallback: Rule | None = None
    """Rule for buffers in which the detector could judge no accepted update; None to use `rule` there too."""

    @property
    def is_linear(self) -> bool:
        """Whether every aggregate is a weighted sum of the updates."""
        return self.rule.is_linear and (self.fallback is None or self.fallback.is_linear)


class DefenceState:
    """State of the defences of one run. Judges and aggregates its buffers; each step stores the new state of rule,
    detector and strikes."""

    def __init__(self, plan: DefencePlan, protocol: Protocol, clients: int, streams: Streams) -> None:
        self.plan = plan
        self.protocol = protocol
        self.clients = clients
        parts = {"aggregation": plan.rule, "fallback": plan.fallback, "detection": plan.detector}
        self._states: dict[str, Any] = dict.fromkeys(parts)
        if plan.context is not None:
            for name, part in parts.items():
                self._states[name] = None if part is None else part.start(plan.context, streams.generator(name))
        self._strikes = None if plan.strikes is None else plan.strikes.start(clients)

    def request(self, buffer: Buffer, tried: tuple[int, ...]) -> ScoreRequest | None:
        """Return the next request for scores needed to judge `buffer`; None if no more are needed. `tried`: clients
        asked so far."""
        detector = self.plan.detector
        if detector is None:
            return None
        answer = detector.request(self._states["detection"], buffer, tried)
        right = isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[0], ScoreRequest | None)
        require(right, detector, "request", "must return (ScoreRequest or None, state)", answer)
        request, state = answer
        self._states = self._states | {"detection": state}
        if request is not None:
            known = 0 <= request.client < self.clients
            require(known, detector, "request: client", f"must be 0..{self.clients - 1}", request.client)
            numbers(detector, "request: models", request.models, (len(request.models), len(buffer.current)))
        return request

    def judge(self, buffer: Buffer, scores: Floats | None) -> tuple[Verdict, tuple[int, ...]]:
        """Return the verdict on `buffer`, and the clients banned for it. `scores`: see `Detector.judge`. All updates of
        a client that is banned now are flagged in the returned verdict (SAFL, algorithm 4)."""
        detector = self.plan.detector
        if detector is None:
            return accept_all(buffer), ()
        answer = detector.judge(self._states["detection"], buffer, scores)
        verdict, state = with_state(detector, "judge", answer, Verdict)
        self._states = self._states | {"detection": state}
        self._check(detector, verdict, buffer)
        late = np.array(verdict.late_strikes, dtype=np.int64)
        banned = self.strike(late, np.ones(len(late), dtype=bool)) + self.strike(buffer.clients, verdict.strikes)
        if banned:
            verdict = replace(verdict, flagged=verdict.flagged | np.isin(buffer.clients, banned))
        return verdict, banned

    def _check(self, detector: Detector, verdict: Verdict, buffer: Buffer) -> None:
        """Raise ComponentError for an invalid verdict."""
        n = len(buffer)
        for name in ("flagged", "strikes", "unjudged"):
            if name != "unjudged" or verdict.unjudged is not None:
                flags(detector, f"judge: {name}", getattr(verdict, name), n)
        if verdict.weights is not None:
            numbers(detector, "judge: weights", verdict.weights, (n,), finite=True, at_least=0)
        if verdict.correction is not None:
            numbers(detector, "judge: correction", verdict.correction, buffer.current.shape)
        details, late = verdict.details, verdict.late_strikes
        require(len(details) in (0, n), detector, "judge: details", f"must be {n} texts, or none", details)
        known = all(0 <= client < self.clients for client in late)
        require(known, detector, "judge: late_strikes", f"must be clients 0..{self.clients - 1}", late)

    def aggregate(self, buffer: Buffer, verdict: Verdict) -> ModelStep:
        """Aggregate the updates of `buffer` that `verdict` accepts. An update that is excluded has weight 0."""
        kept = np.flatnonzero(~verdict.flagged)
        factors = np.zeros(len(buffer))
        notes: tuple[str, ...] = ()
        model = buffer.current
        if len(kept):
            protocol = self.protocol
            accepted = buffer if len(kept) == len(buffer) else buffer.only(kept)
            factors[kept] = protocol.factors(accepted.samples, accepted.staleness, accepted.work)
            if verdict.weights is not None:
                factors *= verdict.weights
            abstained = verdict.unjudged is not None and bool(verdict.unjudged[kept].all())
            name, rule = "aggregation", self.plan.rule
            if abstained and self.plan.fallback is not None:
                name, rule = "fallback", self.plan.fallback
            moved = next_model(accepted, factors[kept], rule, self._states[name], protocol.aggregation, protocol.rate)
            model, factors[kept], notes = moved.model, moved.weights, moved.notes
            self._states = self._states | {name: moved.state}
        if verdict.correction is not None:
            model = model + verdict.correction
        return ModelStep(model, factors, None, notes + verdict.remarks)

    def rehearse(self, buffer: Buffer, scores: Scores) -> tuple[Bools, Vector]:
        """Predict the outcome of `buffer`: (n_updates,) whether the sender is struck or banned, and the next model. The
        state does not change. `scores`: the answers of the first client that is asked for scores."""
        # Components return a new state and never change the old one, so a shallow copy is enough.
        copied = copy.copy(self)
        request = copied.request(buffer, ())
        answer = None if request is None else np.asarray(scores(request.client, request.models), dtype=np.float64)
        verdict, banned = copied.judge(buffer, answer)
        return verdict.strikes | np.isin(buffer.clients, banned), copied.aggregate(buffer, verdict).model

    def strike(self, clients: Ints, struck: Bools) -> tuple[int, ...]:
        """Count the strikes of `clients` (n,) where `struck` (n,) is true, and return the clients that are banned now.
        Rule and detector forget banned clients. See `Strikes.step`."""
        plan = self.plan
        if plan.strikes is None or self._strikes is None:
            return ()
        banned, self._strikes = plan.strikes.step(self._strikes, clients, struck)
        for client in banned:
            self.forget_client(client)
        return banned

    def forget_client(self, client: int) -> None:
        """Have rule and detector forget a client that is banned."""
        plan = self.plan
        for name, part in (("detection", plan.detector), ("aggregation", plan.rule), ("fallback", plan.fallback)):
            if part is not None:
                self._states = self._states | {name: part.forget_client(self._states[name], client)}


class AggregatedUpdate(NamedTuple):
    """An update in an aggregate, with the facts recorded when that model is published."""

    task: TaskRecord
    weight: float
    """Factor of the update in the aggregate, before the server's rate."""
    staleness: int
    """Staleness in versions."""
    detail: str
    """The detector's text about the update; empty if there is none."""


@dataclass(frozen=True)
class AggregationResult:
    """Result of the aggregation of a buffer."""

    model: Vector
    """(n_parameters,) the next global model, before the server's noise and the algorithm's step."""
    updates: tuple[AggregatedUpdate, ...]
    """The aggregated updates, in the order of the buffer."""
    clip_norm: float | None
    """Clipping norm that the clients used, None without clipping."""
    banned: tuple[int, ...]
    """Clients banned by the verdict on this buffer."""
    notes: tuple[str, ...]
    """Unusual observations of the rule."""
    accepted: AcceptedUpdates | None = None
    """Updates from which the algorithm computes its step; None with FedAvg."""


class Aggregation:
    """The current buffer of one server. `samples`: (clients,) training samples of each client."""

    _buffer: Buffer
    _clip_norm: float | None
    _payloads: Mapping[str, Vector]
    _total: Floats | None
    """The securely aggregated sum of the buffer; None: it holds single updates."""

    def __init__(
        self,
        defences: DefenceState,
        table: TaskTable,
        samples: Ints,
        instrument: Instrument,
        algorithm: Algorithm,
    ) -> None:
        self.defences = defences
        self.table = table
        self.samples = samples
        self.instrument = instrument
        self.algorithm = algorithm
        self._malformed: list[tuple[int, bool]] = []
        """Sender of each update that was rejected since the last sound one, and whether its length was wrong."""
        self.tasks: list[TaskRecord] = []
        """Tasks of the updates in the buffer, in its order."""
        self._integers: tuple[int, ...] = ()
        """Weight of each update in a securely aggregated sum; empty without secure aggregation."""
        self._masked = 0
        """Buffers in succession that could not be unmasked."""
        self._requests = 0
        self._asked: tuple[int, ...] = ()

    def open(self, tasks: list[TaskRecord], version: int) -> Collect:
        """Begin a buffer for `version` with the updates of `tasks`, and return the action that asks for their
        parameters."""
        self.tasks = tasks
        if self.defences.protocol.secure_aggregation is not None:
            ages = version - np.array([task.base_version for task in tasks], dtype=np.int64)
            most = int(self.samples.max(initial=1))
            self._integers = self.defences.protocol.integer_weights(self.samples[self.clients], ages, most)
        numbers = tuple(task.number for task in tasks)
        return CollectSum(numbers, self._integers) if self._integers else Collect(numbers)

    def clear(self) -> list[TaskRecord]:
        """Empty the buffer and return its tasks."""
        removed, self.tasks = self.tasks, []
        return removed

    @property
    def clients(self) -> Ints:
        """(n_updates,) senders of the updates in the buffer, in its order."""
        return np.array([task.client for task in self.tasks], dtype=np.int64)

    # --- filling ---------------------------------------------------------------------------------------------------

    def reject(self, collected: Collected, actions: list[Action]) -> tuple[Bools, tuple[int, ...]]:
        """Reject the malformed updates of `collected`, and append their fates to `actions`. Returns which rows are
        sound, (n_updates,) bool, and the clients that are banned now for malformed updates."""
        whole = np.ones(len(self.tasks), dtype=bool) if collected.sound is None else collected.sound
        sound = whole & usable(collected.models)
        for vectors in collected.payloads.values():
            sound &= usable(vectors)
        number = np.count_nonzero(sound)
        if number:
            self._malformed = []
        if number == len(sound):
            return sound, ()
        for row in np.flatnonzero(~sound).tolist():
            task = self.tasks[row]
            actions.append(self.table.settle(task.number, Fate.REJECTED, detail="not finite or of the wrong length"))
            self._malformed.append((task.client, not whole[row]))
        senders = self.clients[~sound]
        return sound, self.defences.strike(senders, np.ones(len(senders), dtype=bool))

    def discard_masked(self, actions: list[Action]) -> str | None:
        """Empty a buffer that could not be unmasked, and append the fates of its updates to `actions`. Returns the
        reason to stop if that happened too often in succession."""
        self._masked += 1
        actions.extend(self.table.settle(task.number, Fate.BELOW_THRESHOLD) for task in self.clear())
        if self._masked < LEAST_REJECTED:
            return None
        return f"too few clients answered to unmask any of the last {self._masked} sums"

    def forget_client(self, client: int) -> None:
        """Forget a client that the driver bans, and that it sent malformed updates."""
        self._malformed = [one for one in self._malformed if one[0] != client]
        self.defences.forget_client(client)

    def why_stop(self, left: AbstractSet[int]) -> str | None:
        """Return the reason why no sound update can be expected; None if one may arrive. `left`: clients that are never
        asked again.

        A buffer without one sound update may contain attackers only. But the model has diverged if each client that can
        still be asked has sent a malformed update since the last sound one, or as many updates as there are clients (at
        least 20) were malformed in succession.
        """
        clients, number = len(self.samples), len(self._malformed)
        all_excluded = len({client for client, _ in self._malformed} | left) == clients
        if not (all_excluded or number >= max(LEAST_REJECTED, clients)):
            return None
        if not_finite := sum(not short for _, short in self._malformed):
            return f"diverged: the last {number} updates were all rejected, {not_finite} not finite"
        return f"no update could be used: the last {number} were all of the wrong length"

    def fill(
        self, collected: Collected, sound: Bools, banned: tuple[int, ...], version: int, actions: list[Action]
    ) -> bool:
        """Fill the buffer for `version` with the `sound` rows of `collected` whose clients are not `banned`. Appends
        the fates of the banned clients' updates to `actions`. Returns whether the buffer holds any update."""
        models, work, payloads = collected.models, collected.work, collected.payloads
        asked = np.zeros(len(sound)) if collected.upload_std is None else collected.upload_std
        if banned or np.count_nonzero(sound) < len(sound):
            # The other updates of a banned client in this buffer are not used either.
            kept = sound & ~np.isin(self.clients, banned)
            excluded = np.flatnonzero(sound & ~kept)
            actions.extend(self.table.settle(self.tasks[row].number, Fate.BANNED) for row in excluded)
            self.tasks = [self.tasks[row] for row in np.flatnonzero(kept)]
            models, asked, work = models[kept], asked[kept], None if work is None else work[kept]
            payloads = {name: vectors[kept] for name, vectors in payloads.items()}
        if not self.tasks:
            return False
        self._clip_norm, self._masked = collected.clip_norm, 0
        self._total = collected.total if isinstance(collected, CollectedSum) else None
        self._buffer = self._buffer_of(models, asked, work, version)
        self._payloads = payloads
        self._asked = ()
        return True

    def _buffer_of(self, models: Vector, upload_std: Floats, work: Floats | None, version: int) -> Buffer:
        trained_from = [task.base_version for task in self.tasks]
        versions = sorted(set(trained_from))
        place = {version: number for number, version in enumerate(versions)}
        clients = self.clients
        return Buffer(
            version=version,
            current=self.table.current,
            models=models,
            bases=tuple(self.table.model(version) for version in versions),
            base_of=np.array([place[version] for version in trained_from], dtype=np.int64),
            base_versions=np.array(trained_from, dtype=np.int64),
            clients=clients,
            samples=self.samples[clients],
            upload_std=upload_std,
            work=work,
        )

    def rehearse(
        self, models: Vector, upload_std: Floats, work: Floats | None, version: int, scores: Scores
    ) -> tuple[Bools, Vector]:
        """Predict the aggregation of the buffer if `models` were its updates, one per task. The state does not change.

        `models`, `upload_std`, `work`: as in `Collected`. `scores`: the answers that clients would give. Returns
        (n_updates,) whether each update is a strike against its sender, as one that is not finite is, and the next
        model (n_parameters,).
        """
        whole = self._buffer_of(models, upload_std, work, version)
        sound = np.flatnonzero(usable(models))
        struck = np.ones(len(models), dtype=bool)
        if not len(sound):
            return struck, whole.current
        struck[sound], model = self.defences.rehearse(whole.only(sound), scores)
        return struck, model

    # --- judging and aggregating -----------------------------------------------------------------------------------

    def request(self) -> ScoreRequest | None:
        """Return the next request for scores that the detector needs to judge the buffer; None if it needs no more."""
        request = self.defences.request(self._buffer, self._asked)
        if request is None:
            return None
        self._asked = (*self._asked, request.client)
        self._requests += 1
        return replaced(request, request=self._requests - 1)

    def decide(self, scores: Floats | None, actions: list[Action]) -> AggregationResult:
        """Judge and aggregate the buffer, and return the result. Appends the fates of flagged updates and the verdict
        to `actions`; `publish` appends the fates of the others. `scores`: see `Detector.judge`."""
        buffer, tasks = self._buffer, tuple(task.number for task in self.tasks)
        verdict, banned = self.defences.judge(buffer, scores)
        made = self.defences.aggregate(buffer, verdict) if self._total is None else self._summed(buffer, self._total)
        self.instrument.aggregated(buffer, tasks, verdict, made)
        details = verdict.details or [""] * len(tasks)
        columns = self.tasks, made.weights.tolist(), buffer.staleness.tolist(), details
        every, flags = map(AggregatedUpdate, *columns), verdict.flagged.tolist()
        entered = []
        for one, flagged in zip(every, flags, strict=True):
            if flagged:
                actions.append(self._settle(one, Fate.FLAGGED))
            else:
                entered.append(one)
        self.tasks = [one.task for one in entered]
        if self.defences.plan.detector is not None:
            clients, accused = tuple(buffer.clients.tolist()), tuple(verdict.accused.tolist())
            unjudged = () if verdict.unjudged is None else tuple(verdict.unjudged.tolist())
            notes = tuple(sorted(verdict.notes.items()))
            actions.append(BufferVerdict(buffer.version, clients, accused, banned, notes, tasks, unjudged))
        accepted = None if self.algorithm.off else self._accepted(buffer, made, np.flatnonzero(~verdict.flagged))
        return AggregationResult(made.model, tuple(entered), self._clip_norm, banned, made.notes, accepted)

    def _summed(self, buffer: Buffer, total: Floats) -> ModelStep:
        protocol = self.defences.protocol
        factors = protocol.factors(buffer.samples, buffer.staleness)
        return model_of_sum(buffer, total, np.array(self._integers), factors, protocol.aggregation, protocol.rate)

    def _accepted(self, buffer: Buffer, made: ModelStep, kept: Ints) -> AcceptedUpdates:
        return AcceptedUpdates(
            buffer.clients[kept],
            buffer.staleness[kept],
            made.weights[kept],
            self.defences.protocol.rate,
            {name: vectors[kept] for name, vectors in self._payloads.items()},
            buffer.deltas[kept] if self.algorithm.reads_updates else None,
        )

    def publish(self, made: AggregationResult, actions: list[Action]) -> None:
        """Append the fates of the aggregated updates of `made`, which is published now, to `actions`. Empties the
        buffer."""
        actions.extend(self._settle(one, Fate.AGGREGATED) for one in made.updates)
        self.clear()

    def _settle(self, one: AggregatedUpdate, fate: Fate) -> Action:
        return self.table.settle(one.task.number, fate, weight=one.weight, staleness=one.staleness, detail=one.detail)
