"""SAFL's detector (Wei et al. 2024, algorithms 3 and 4): flags updates that a client scores low.

The server assumes that the sender of the model most similar to the global model (equation 1) is honest. It sends this
evaluator the buffered models, shuffled among random decoys. The accuracies are split into two clusters by 2-means, and
the updates of the lower cluster are flagged. Without attackers the decoys form the lower cluster; without decoys and
without attackers, the worse half would be flagged until every client is banned.

Known weaknesses: a client that returns a multiple of the global model has cosine 1 and becomes the evaluator; an
evaluator may lie; late in training the accuracies of honest and poisoned models overlap.
"""

import copy
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from asyncfl.base.arrays import Floats, Ints, Vector
from asyncfl.base.quantities import MeasuredIn
from asyncfl.defences.buffer import Buffer, DefenceContext
from asyncfl.defences.clusters import lower_cluster
from asyncfl.defences.detector import Detector, Verdict
from asyncfl.defences.score_request import ScoreRequest


@dataclass(frozen=True)
class SaflState:
    """State between a request and its answer."""

    random: np.random.Generator  # the detector's random stream, for decoys and their positions
    models: Vector | None = None  # (n_models, n_parameters) models to score for the open buffer; None: no request yet
    rows: Ints | None = None  # (n_models,) row of the buffer for each of `models`, -1 for a decoy
    evaluator: int = -1  # client that was asked last, -1: none


class Safl(Detector):
    """Flags updates that an evaluator among the clients scores low. Source: SAFL, algorithm 4, equation 1."""

    kind: Literal["safl"] = "safl"
    logged: ClassVar[tuple[str, ...]] = (
        "rounds.unjudged",
        "rounds.detector_evaluator",
        "clients.discarded",
        "events.scores_requested",
        "events.scored",
        "events.discarded",
    )
    decoys: Annotated[int, Field(ge=0, le=1000), MeasuredIn("models")] = 3
    """R: number of random models N(0, 1) among those to be scored. They never count as clients."""
    flagged: Literal["leave_out", "literal"] = "leave_out"
    """`leave_out`: flagged updates are not aggregated and count as strikes. `literal`: flagged updates count as strikes
    but are aggregated until their client is banned, as in algorithm 4; not the default because detected poison enters
    the model."""
    evaluators_tried: Annotated[int, Field(ge=1), MeasuredIn("clients")] = 3
    """Number of clients that are asked for scores, one after another, before the buffer is judged without scores."""
    without_scores: Literal["discard", "aggregate"] = "discard"
    """Treatment of a buffer without scores; no update is accused. Discarded updates are `unjudged`; aggregated ones
    count as accepted by the detector."""

    def start(self, context: DefenceContext, random: np.random.Generator) -> SaflState:
        return SaflState(random)

    def request(
        self, state: SaflState, buffer: Buffer, tried: tuple[int, ...]
    ) -> tuple[ScoreRequest | None, SaflState]:
        """Return a request to the most similar client not `tried`; None after `evaluators_tried` or all clients. All
        evaluators of a buffer receive the same decoys in the same order."""
        ranked = (int(buffer.clients[row]) for row in most_similar(buffer.models, buffer.current))
        evaluator = next((client for client in ranked if client not in tried), None)
        if evaluator is None or len(tried) >= self.evaluators_tried:
            return None, state
        if state.models is not None and tried:
            return ScoreRequest(evaluator, state.models), replace(state, evaluator=evaluator)
        n, random = len(buffer), copy.deepcopy(state.random)
        order = random.permutation(n + self.decoys)
        models = np.empty((n + self.decoys, buffer.models.shape[1]), dtype=np.float32)
        for place, row in enumerate(order):
            if row < n:
                models[place] = buffer.models[row]
            else:
                random.standard_normal(dtype=np.float32, out=models[place])
        models.flags.writeable = False
        return ScoreRequest(evaluator, models), SaflState(random, models, np.where(order < n, order, -1), evaluator)

    def judge(self, state: SaflState, buffer: Buffer, scores: Floats | None) -> tuple[Verdict, SaflState]:
        """See `Detector.judge`. Updates in the lower cluster are struck, and left out unless `flagged` is `literal`. An
        answer of wrong length or with numbers that are not finite counts as no answer."""
        after, none, rows = SaflState(state.random), np.zeros(len(buffer), dtype=bool), state.rows
        if scores is None or rows is None or np.shape(scores) != rows.shape or not np.isfinite(scores).all():
            discard = self.without_scores == "discard"
            details = ("no scores",) * len(buffer) if discard else ()
            left_out = none | discard
            return Verdict(left_out, none, unjudged=left_out, details=details, notes={"evaluator": -1.0}), after
        low = lower_cluster(scores)
        own, accused, score_of = rows >= 0, none.copy(), np.empty(len(buffer))
        accused[rows[own]], score_of[rows[own]] = low[own], scores[own]
        notes = {
            "evaluator": float(state.evaluator),
            "score_low": float(scores[low].mean()) if low.any() else float("nan"),
            "score_high": float(scores[~low].mean()),
            "decoys_low": float((low & ~own).sum()),
            "decoys_told_apart": _told_apart(state, buffer.current),
        }
        details = tuple(f"scored {score:.4f}" if bad else "" for score, bad in zip(score_of, accused, strict=True))
        flagged = accused if self.flagged == "leave_out" else none
        return Verdict(flagged, accused, details=details, notes=notes), after


def _told_apart(state: SaflState, current: Vector) -> float:
    """Return the share of the sent models that an evaluator takes rightly for an upload or a decoy by no more than
    their distances from the global model, which it holds: behind the widest gap of their logarithms it sees decoys."""
    assert state.models is not None
    assert state.rows is not None
    apart = np.sort(distances := np.log(np.maximum(np.linalg.norm(state.models - current, axis=1), 1e-30)))
    widest = apart[int(np.argmax(np.diff(apart)))] if len(apart) > 1 else apart[-1]
    return float(((distances > widest) == (state.rows < 0)).mean())


def most_similar(models: Vector, current: Vector) -> Ints:
    """Return the row indices (n,) of `models` (n, d) by their cosine with `current` (d,), the greatest first; ties in
    row order. A model of length 0 has cosine 0. Source: SAFL, equation 1."""
    norms = np.linalg.norm(models.astype(np.float64, copy=False), axis=1) * np.linalg.norm(current.astype(np.float64))
    cosines = np.divide(models @ current.astype(np.float64), norms, out=np.zeros(len(models)), where=norms > 0)
    return np.argsort(-cosines, kind="stable")
