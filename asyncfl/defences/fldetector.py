"""FLDetector: flags clients whose updates differ from a prediction by their past and the curvature of the loss."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from asyncfl.base.messages import Bools, Floats, Vector
from asyncfl.base.quantities import MeasuredIn
from asyncfl.defences.buffer import Buffer
from asyncfl.defences.clusters import has_clusters, lower_cluster
from asyncfl.defences.detector import DefenceContext, Detector, Verdict
from asyncfl.defences.quasi_newton import Product, hessian
from asyncfl.defences.update_filters import Gradient, gradient_of, models_of, without


@dataclass(frozen=True)
class FLDetectorState:
    """State of the detector between buffers."""

    context: DefenceContext
    random: Any
    """Random stream for the references of the gap statistic."""
    gradients: dict[int, Gradient] = field(default_factory=dict)
    """Client -> its last gradient."""
    models: dict[int, Vector] = field(default_factory=dict)
    """Version -> global model, for the versions of those gradients."""
    before: tuple[Vector, Floats] | None = None
    """Global model and mean gradient of the previous buffer."""
    steps: tuple[Vector, ...] = ()
    """Last differences between global models, the oldest first."""
    changes: tuple[Floats, ...] = ()
    """Differences of the mean gradients over these steps."""
    prediction_errors: dict[int, float] = field(default_factory=dict)
    """Client -> L2 error of its last prediction."""
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

    @property
    def abstains(self) -> bool:
        return True

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
        following = replace(self._update_curvature(state, buffer, sent, flagged), random=random)
        early = np.full(len(buffer), buffer.version < self.warm_up)
        unjudged = (~judged | early) & ~flagged
        return Verdict(flagged, flagged & judged, unjudged=unjudged, details=details), following

    def _update_scores(
        self, state: FLDetectorState, buffer: Buffer, sent: list[Gradient]
    ) -> tuple[FLDetectorState, Bools]:
        """Return the state with the prediction errors of this buffer, and whether each row had a prediction, (n,) bool.

        `sent`: gradient of each row.
        """
        product = hessian(state.steps, state.changes)
        gradients, models = dict(state.gradients), dict(state.models)
        prediction_errors, scores = dict(state.prediction_errors), dict(state.scores)
        judged = np.zeros(len(buffer), dtype=bool)
        for row, client in enumerate(buffer.clients.tolist()):
            last, new = gradients.get(client), sent[row]
            models.setdefault(new.version, np.array(buffer.base(row)))
            gradients[client] = new
            if product is None or last is None or last.version == new.version:
                continue
            prediction_errors[client] = _prediction_error(
                product, last, new, models[new.version] - models[last.version]
            )
            judged[row] = True
        typical = float(np.mean(list(prediction_errors.values()))) if prediction_errors else None
        for client in np.unique(buffer.clients[judged]).tolist():
            score = prediction_errors[client] / typical if typical else 0.0
            scores[client] = (*scores.get(client, ()), score)[-self.window :]
        models = models_of(gradients, models)
        following = replace(
            state, gradients=gradients, models=models, prediction_errors=prediction_errors, scores=scores
        )
        return following, judged

    def _update_curvature(
        self, state: FLDetectorState, buffer: Buffer, sent: list[Gradient], flagged: Bools
    ) -> FLDetectorState:
        """Return the state with the step of the global model and the change of the mean gradient since the last buffer.

        `sent`: gradient of each row; rows that are `flagged` do not enter the mean. If all are, the state is unchanged.
        """
        if flagged.all():
            return state
        kept = (gradient.values() for gradient, flag in zip(sent, flagged, strict=True) if not flag)
        total = np.zeros(len(buffer.current))
        for one in kept:
            total += one
        now = np.array(buffer.current), total / np.count_nonzero(~flagged)
        if state.before is None:
            return replace(state, before=now)
        steps = (*state.steps, now[0] - state.before[0])[-self.window :]
        changes = (*state.changes, now[1] - state.before[1])[-self.window :]
        return replace(state, before=now, steps=steps, changes=changes)

    def forget_client(self, state: FLDetectorState, client: int) -> FLDetectorState:
        return without(state, client, "gradients", "prediction_errors", "scores")


def _prediction_error(product: Product, last: Gradient, new: Gradient, step: Vector) -> float:
    """Return the L2 distance of the gradient `new` from its prediction g + H `step`, g being the client's `last`
    gradient.

    `product`: H. `step`: (n_parameters,) difference of the models of the two gradients.
    """
    off = last.values() + product(step) - new.values()
    return float(np.sqrt(off @ off))
