"""FLDetector: flags clients whose updates differ from a prediction by their past and the curvature of the loss."""

import copy
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from asyncfl.base.arrays import Bools, Floats, Vector
from asyncfl.base.quantities import MeasuredIn
from asyncfl.defences.buffer import Buffer, DefenceContext
from asyncfl.defences.clusters import has_clusters, lower_cluster
from asyncfl.defences.detector import Detector, Verdict
from asyncfl.defences.gradients import Gradient, Pair, gradient_of, hessian, without


@dataclass(frozen=True)
class FLDetectorState:
    """State of the detector between buffers."""

    context: DefenceContext
    random: Any  # random stream for the references of the gap statistic
    gradients: dict[int, Gradient] = field(default_factory=dict)  # client -> its last gradient
    before: tuple[Vector, Floats] | None = None  # global model and mean gradient of the previous buffer
    pairs: tuple[Pair, ...] = ()  # last differences between global models, and of the mean gradients, the oldest first
    prediction_errors: dict[int, float] = field(default_factory=dict)  # client -> L2 error of its last prediction
    scores: dict[int, tuple[float, ...]] = field(default_factory=dict)
    """Client -> its last normalised errors, the oldest first."""


class FLDetector(Detector):
    """Strikes clients whose gradients are badly predicted, if clients fall into two groups by prediction error.

    A client's gradient is predicted from its last one and the estimated Hessian, g + H (w - w'), with w and w' the
    models that both were computed at. The suspicion of a client is the distance between prediction and gradient,
    divided by the mean of all clients' last distances and averaged over its last `window`. If the gap statistic finds
    more than one cluster of suspicions, the higher of two clusters is left out and struck.

    Use it if attackers change their behaviour from update to update; clients that only poison their data are as
    predictable as honest ones. In the source all clients take part in every round, and training restarts without the
    attackers. Here each client is predicted from its own last update, however old; suspicions of clients outside the
    buffer count in the clustering; and attackers are left out without a restart. A client's first update, and one
    trained from the same version as its last, are not judged. Source: Zhang et al. 2022, and the authors' program.
    """

    kind: Literal["fldetector"] = "fldetector"
    window: Annotated[int, Field(ge=1, le=1000), MeasuredIn("updates")] = 10
    """N: number of errors of a client that are averaged, and of versions that the curvature is estimated from, >= 1."""
    warm_up: Annotated[int, Field(ge=0), MeasuredIn("versions")] = 10
    """Versions before which no update is left out; the source waits for 50 rounds of 500."""
    references: Annotated[int, Field(ge=2, le=1000), MeasuredIn("draws")] = 10
    """B: number of uniform samples for the gap statistic, >= 2."""

    abstains: ClassVar[bool] = True

    def start(self, context: DefenceContext, random: np.random.Generator) -> FLDetectorState:
        return FLDetectorState(context, random)

    def judge(self, state: FLDetectorState, buffer: Buffer, scores: Floats | None) -> tuple[Verdict, FLDetectorState]:
        """See `Detector.judge`. Of several updates of a client the last judged one counts; all are flagged together."""
        random = copy.deepcopy(state.random)
        sent = [gradient_of(state.context, buffer, row) for row in range(len(buffer))]
        state, judged = self._update_scores(state, buffer, sent)
        suspicion = {client: float(np.mean(last)) for client, last in state.scores.items()}
        guilty: set[int] = set()
        if buffer.version >= self.warm_up and suspicion:
            values = np.array(list(suspicion.values()))
            if has_clusters(values, random, self.references):
                guilty = {client for client, low in zip(suspicion, lower_cluster(-values), strict=True) if low}
        flagged = np.isin(buffer.clients, list(guilty))
        details = tuple(
            f"predictions missed by {suspicion[client]:.3g} of the usual" if flag else ""
            for client, flag in zip(buffer.clients.tolist(), flagged, strict=True)
        )
        early = np.full(len(buffer), buffer.version < self.warm_up)
        verdict = Verdict(flagged, flagged & judged, unjudged=(~judged | early) & ~flagged, details=details)
        return verdict, replace(self._update_curvature(state, buffer, sent, flagged), random=random)

    def _update_scores(
        self, state: FLDetectorState, buffer: Buffer, sent: list[Gradient]
    ) -> tuple[FLDetectorState, Bools]:
        """Return the state with the prediction errors of this buffer, and whether each row had a prediction, (n,) bool.
        `sent`: gradient of each row."""
        product = hessian(state.pairs)
        gradients, errors, scores = dict(state.gradients), dict(state.prediction_errors), dict(state.scores)
        judged = np.zeros(len(buffer), dtype=bool)
        for row, (client, new) in enumerate(zip(buffer.clients.tolist(), sent, strict=True)):
            last = gradients.get(client)
            gradients[client] = new
            if product is not None and last is not None and last.version != new.version:
                # The prediction is g + H (w - w').
                off = last.values() + product(new.model - last.model) - new.values()
                errors[client] = float(np.sqrt(off @ off))
                judged[row] = True
        typical = float(np.mean(list(errors.values()))) if errors else None
        for client in np.unique(buffer.clients[judged]).tolist():
            score = errors[client] / typical if typical else 0.0
            scores[client] = (*scores.get(client, ()), score)[-self.window :]
        return replace(state, gradients=gradients, prediction_errors=errors, scores=scores), judged

    def _update_curvature(
        self, state: FLDetectorState, buffer: Buffer, sent: list[Gradient], flagged: Bools
    ) -> FLDetectorState:
        """Return the state with the step of the global model and the change of the mean gradient since the last buffer.
        `sent`: gradient of each row; rows that are `flagged` do not enter the mean. If all are, the state is
        unchanged."""
        if flagged.all():
            return state
        total = np.zeros(len(buffer.current))
        for row in np.flatnonzero(~flagged):
            total += sent[row].values()
        now = np.array(buffer.current), total / np.count_nonzero(~flagged)
        if state.before is None:
            return replace(state, before=now)
        pair = now[0] - state.before[0], now[1] - state.before[1]
        return replace(state, before=now, pairs=(*state.pairs, pair)[-self.window :])

    def forget_client(self, state: FLDetectorState, client: int) -> FLDetectorState:
        return without(state, client, "gradients", "prediction_errors", "scores")
