"""The server's defences: which updates of a buffer are excluded, which clients are given strikes or banned, and the
next model. The state of rule, detector and strikes is kept here."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.answers import flags, numbers, require, with_state
from asyncfl.base.messages import Vector
from asyncfl.base.streams import Streams
from asyncfl.defences import Buffer, DefenceContext, Detector, Mean, Rule, ScoreRequest, Strikes, Verdict, accept_all
from asyncfl.server.model_step import ModelStep, next_model
from asyncfl.server.protocol import Protocol

Scores: TypeAlias = Callable[[int, Vector], NDArray[np.float64]]
"""(client, models (n, n_parameters)) -> (n,) accuracies that the client reports."""


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
        self._rule: Any = None
        self._fallback: Any = None
        self._detector: Any = None
        if plan.context is not None:
            self._rule = plan.rule.start(plan.context, streams.generator("aggregation"))
            if plan.fallback is not None:
                self._fallback = plan.fallback.start(plan.context, streams.generator("fallback"))
            if plan.detector is not None:
                self._detector = plan.detector.start(plan.context, streams.generator("detection"))
        self._strikes = None if plan.strikes is None else plan.strikes.start(clients)

    def request(self, buffer: Buffer, tried: tuple[int, ...]) -> ScoreRequest | None:
        """Return the next request for scores needed to judge `buffer`; None if no more are needed. `tried`: clients
        asked so far."""
        if self.plan.detector is None:
            return None
        detector = self.plan.detector
        answer = detector.request(self._detector, buffer, tried)
        right = isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[0], ScoreRequest | None)
        require(right, detector, "request", "must return (ScoreRequest or None, state)", answer)
        request, self._detector = answer
        if request is not None:
            known = 0 <= request.client < self.clients
            require(known, detector, "request: client", f"must be 0..{self.clients - 1}", request.client)
            models = (len(request.models), len(buffer.current))
            numbers(detector, "request: models", request.models, models)
        return request

    def judge(self, buffer: Buffer, scores: NDArray[np.float64] | None) -> tuple[Verdict, tuple[int, ...]]:
        """Return the verdict on `buffer`, and the clients banned for it. `scores`: see `Detector.judge`. All updates of
        a client that is banned now are flagged in the returned verdict (SAFL, algorithm 4)."""
        if self.plan.detector is None:
            return accept_all(buffer), ()
        detector = self.plan.detector
        answer = detector.judge(self._detector, buffer, scores)
        verdict, self._detector = with_state(detector, "judge", answer, Verdict)
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
            work = None if buffer.work is None else buffer.work[kept]
            factors[kept] = protocol.factors(buffer.samples[kept], buffer.staleness[kept], work)
            if verdict.weights is not None:
                factors *= verdict.weights
            accepted = buffer if len(kept) == len(buffer) else buffer.only(kept)
            abstained = verdict.unjudged is not None and bool(verdict.unjudged[kept].all())
            fallback = self.plan.fallback if abstained else None
            rule, state = (self.plan.rule, self._rule) if fallback is None else (fallback, self._fallback)
            moved = next_model(accepted, factors[kept], rule, state, protocol.aggregation, protocol.rate)
            model, factors[kept], notes = moved.model, moved.weights, moved.notes
            if fallback is None:
                self._rule = moved.state
            else:
                self._fallback = moved.state
        if verdict.correction is not None:
            model = model + verdict.correction
        return ModelStep(model, factors, None, notes + verdict.remarks)

    def rehearse(self, buffer: Buffer, scores: Scores) -> tuple[NDArray[np.bool_], Vector]:
        """Predict the outcome of `buffer`: (n_updates,) whether the sender is struck or banned, and the next model. The
        state does not change. `scores`: the answers of the first client that is asked for scores."""
        # Components return a new state and never change the old one, so a shallow copy is enough.
        copied = copy.copy(self)
        request = copied.request(buffer, ())
        answer = None if request is None else np.asarray(scores(request.client, request.models), dtype=np.float64)
        verdict, banned = copied.judge(buffer, answer)
        return verdict.strikes | np.isin(buffer.clients, banned), copied.aggregate(buffer, verdict).model

    def strike(self, clients: NDArray[np.int64], struck: NDArray[np.bool_]) -> tuple[int, ...]:
        """Count the strikes of `clients` (n,) where `struck` (n,) is true, and return the clients that are banned now.
        Rule and detector forget banned clients. See `Strikes.step`."""
        if self.plan.strikes is None or self._strikes is None:
            return ()
        banned, self._strikes = self.plan.strikes.step(self._strikes, clients, struck)
        for client in banned:
            if self.plan.detector is not None:
                self._detector = self.plan.detector.forget_client(self._detector, client)
            self._rule = self.plan.rule.forget_client(self._rule, client)
            if self.plan.fallback is not None:
                self._fallback = self.plan.fallback.forget_client(self._fallback, client)
        return banned
