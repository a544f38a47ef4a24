"""SAFL's detector (Wei et al. 2024, algorithms 3 and 4): flags what a client scores low.

The server takes the sender of the model that is most similar to the global one (equation 1) for honest and sends it
the buffered models, shuffled among random decoys. Its accuracies fall into two clusters by 2-means; the updates of the
lower one are flagged. The decoys give the lower cluster something to hold when nobody attacks; without them, and
without attackers, the detector still flags the worse half, until everybody is banned.

What it cannot see: who returns the global model, or a multiple of it, has cosine 1 and becomes the evaluator; an
evaluator may lie; late in training honest and poisoned accuracies overlap.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from asyncfl.defences.buffer import Buffer
from asyncfl.defences.detector import DefenceContext, Detector, ScoreRequest, Verdict
from asyncfl.defences.two_means import lower_cluster
from asyncfl.messages import Vector
from asyncfl.quantities import MeasuredIn


@dataclass(frozen=True)
class SaflState:
    """What is remembered between a request and its answer."""

    random: np.random.Generator
    """The detector's own stream: decoys and their places."""
    models: Vector | None = None
    """(n_models, n_parameters) what is being scored for the open buffer; None: nothing yet."""
    rows: NDArray[np.int64] | None = None
    """(n_models,) row of the buffer that each of `models` is, -1 for a decoy."""
    evaluator: int = -1
    """Client that was asked last, -1: nobody."""


class Safl(Detector):
    """Flags the updates that an evaluator among the clients scores low. Source: SAFL, algorithm 4, equation 1."""

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
    """R: random models N(0, 1) that hide among those to be scored. They are never counted as clients."""
    flagged: Literal["leave_out", "literal"] = "leave_out"
    """`leave_out`: a flagged update is not aggregated, and is a strike. `literal`: it is a strike, but aggregated until
    its client is banned, as algorithm 4 has it; not the default, since known poison goes into the model."""
    evaluators_tried: Annotated[int, Field(ge=1), MeasuredIn("clients")] = 3
    """Clients that are asked for scores, one after another, before the buffer is judged without."""
    without_scores: Literal["discard", "aggregate"] = "discard"
    """What happens to a buffer that nobody scored; neither accuses anybody. What is discarded is `unjudged`, what is
    aggregated counts as accepted by the detector."""

    def start(self, context: DefenceContext, random: np.random.Generator) -> SaflState:
        return SaflState(random)

    def request(
        self, state: SaflState, buffer: Buffer, tried: tuple[int, ...]
    ) -> tuple[ScoreRequest | None, SaflState]:
        """The next most similar client is asked for its accuracies, see `Detector.request`.

        Every evaluator of a buffer is sent the same decoys in the same order.
        """
        if len(tried) >= self.evaluators_tried:
            return None, state
        ranked = (int(buffer.clients[row]) for row in most_similar(buffer.models, buffer.current))
        evaluator = next((client for client in ranked if client not in tried), None)
        if evaluator is None:
            return None, state
        if state.models is None or not tried:
            state = self._shuffled(state, buffer)
        assert state.models is not None
        return ScoreRequest(evaluator, state.models), replace(state, evaluator=evaluator)

    def _shuffled(self, state: SaflState, buffer: Buffer) -> SaflState:
        n, random = len(buffer), copy.deepcopy(state.random)
        order = random.permutation(n + self.decoys)
        models = np.empty((n + self.decoys, buffer.models.shape[1]), dtype=np.float32)
        for place, row in enumerate(order):
            if row < n:
                models[place] = buffer.models[row]
            else:
                random.standard_normal(dtype=np.float32, out=models[place])
        models.flags.writeable = False
        return replace(state, random=random, models=models, rows=np.where(order < n, order, -1))

    def judge(self, state: SaflState, buffer: Buffer, scores: NDArray[np.float64] | None) -> tuple[Verdict, SaflState]:
        """The updates in the lower cluster are flagged and struck, see `Detector.judge`.

        `scores`: (n_models,) accuracies in the order of the request. An answer that is no list of finite numbers of
        that length counts as none.
        """
        after = SaflState(state.random)
        nobody = np.zeros(len(buffer), dtype=bool)
        rows = state.rows
        if scores is None or rows is None or np.shape(scores) != rows.shape or not np.isfinite(scores).all():
            discard = self.without_scores == "discard"
            details = ("no scores",) * len(buffer) if discard else ()
            left_out = nobody | discard
            return Verdict(left_out, nobody, unjudged=left_out, details=details, notes={"evaluator": -1.0}), after
        low = lower_cluster(scores)
        own = rows >= 0
        accused = nobody.copy()
        accused[rows[own]] = low[own]
        score_of = np.empty(len(buffer))
        score_of[rows[own]] = scores[own]
        notes = {
            "evaluator": float(state.evaluator),
            "score_low": float(scores[low].mean()) if low.any() else float("nan"),
            "score_high": float(scores[~low].mean()),
            "decoys_low": float((low & ~own).sum()),
        }
        details = tuple(f"scored {score:.4f}" if bad else "" for score, bad in zip(score_of, accused, strict=True))
        flagged = accused if self.flagged == "leave_out" else nobody
        return Verdict(flagged, accused, details=details, notes=notes), after


def most_similar(models: Vector, current: Vector) -> NDArray[np.int64]:
    """Rows of `models` by their cosine with `current`, the most similar first; equal ones in the order of arrival.

    `models`: (n, d); `current`: (d,). A model of length 0 has cosine 0. Source: SAFL, equation 1.
    """
    norms = np.linalg.norm(models.astype(np.float64, copy=False), axis=1) * np.linalg.norm(current.astype(np.float64))
    cosines = np.divide(models @ current.astype(np.float64), norms, out=np.zeros(len(models)), where=norms > 0)
    return np.argsort(-cosines, kind="stable")
