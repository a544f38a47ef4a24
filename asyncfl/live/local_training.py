"""Training and scoring of the clients of one process, in threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.arrays import Vector
from asyncfl.base.messages import Download
from asyncfl.base.streams import Streams
from asyncfl.client import Assignment, Attackers, TaskPath
from asyncfl.data import FederatedData
from asyncfl.federation.prepare import learner_of
from asyncfl.learning import Learner
from asyncfl.learning.job import Deadline
from asyncfl.learning.personal_layers import PersonalLayers
from asyncfl.live.client_messages import ClientScoreRequest
from asyncfl.privacy import PrivacyContext
from asyncfl.scenario import Scenario


@dataclass(frozen=True)
class TrainedUpdate:
    """The update of a task."""

    model: Vector | Download
    """(1, length) as it is uploaded, or packed; `length` is wrong where an attacker sends a malformed update."""
    loss: float
    added_std: float
    epsilon: float | None
    personal: Vector | None = None
    """(n_personal,) the client's own layers after the task; None: it has none."""
    left_over: Vector | None = None
    """(n_parameters,) what compression leaves over for the client's next update; None: nothing."""
    epochs: int | None = None
    """Epochs after which the deadline stopped it; None: it did all, or was told when to stop."""


class LocalTraining:
    """Trains for the clients of one process. Each thread has a path of its own.

    Between tasks it keeps the clients' own layers and what compression left of their updates, and nothing else.
    """

    now: ClassVar[Callable[[], float]] = staticmethod(time.monotonic)
    """Seconds of the clock that deadlines are measured by."""

    def __init__(
        self,
        scenario: Scenario,
        data: FederatedData,
        context: PrivacyContext,
        streams: Streams,
        personal: PersonalLayers | None,
    ) -> None:
        """`streams`: source of the clients' randomness. `personal`: None where all layers are shared."""
        self._scenario, self._data, self._context, self._streams = scenario, data, context, streams
        self.threats, self.personal = scenario.threats, personal
        self._left: dict[int, Vector] = {}
        self._own, self._making = threading.local(), threading.Lock()

    def _path(self) -> TaskPath:
        path: TaskPath | None = getattr(self._own, "path", None)
        if path is None:
            scenario, data, streams = self._scenario, self._data, self._streams
            attackers = None
            if self.threats is not None:
                attackers = Attackers(self.threats, data.clients, data.classes, streams)
                # The server says with each task whether its client attacks.
                attackers.drawn = set()
            with self._making:
                learner: Learner = learner_of(scenario, data)
                if self.personal is not None:
                    learner = self.personal.learner.with_learner(learner)
                path = self._own.path = TaskPath(
                    *(data, learner, scenario.training, scenario.privacy, self._context, streams, attackers),
                    scenario.compression,
                )
        return path

    def keep(self, client: int, personal: Vector | None, left_over: Vector | None) -> None:
        """Store the client's own layers, and what compression left over, after training. None: unchanged."""
        if left_over is not None:
            self._left[client] = left_over
        if self.personal is not None and personal is not None:
            self.personal.put(client, personal)

    def left_over(self, client: int) -> Vector | None:
        """Return what compression left over (n_parameters,) for the client's next update; None: nothing."""
        return self._left.get(client)

    def train(self, assignment: Assignment, attacks: bool, deadline_s: float | None = None) -> TrainedUpdate:
        """Carry out a task; `keep` stores its personal layers afterwards.

        `attacks`: whether the client is an attacker. `deadline_s`: real seconds from now after which it stops; None: it
        does not. Raises NoEpochError if no epoch was done by then.
        """
        path, client = self._path(), assignment.client
        if self.personal is not None and path.personal is not None:
            path.personal.put(client, self.personal.of(client))
        if path.compressor is not None:
            path.compressor.put(client, self._left.get(client))
        if deadline_s is not None:
            assignment = replace(assignment, deadline=Deadline(deadline_s, type(self).now))
        if path.attackers is not None:
            path.attackers.drawn = {assignment.task} if attacks else set()
        made = path.carry_out([assignment], assignment.base_version, assignment.base)
        [upload] = made.uploads
        sent: Vector | Download = made.models.copy()
        if made.packed and made.sound[0]:
            sent = Download(made.models[0].copy(), made.packed[0])
        elif not made.sound[0] and self.threats is not None:
            length = max(1, made.models.shape[1] + self.threats.attack.length_error)
            sent = np.resize(made.models, (1, length))
        left_over = None
        if path.compressor is not None:
            left_over = path.compressor.left_of(client)
            # `_left` keeps it once for all threads.
            path.compressor.put(client, None)
        personal = None if path.personal is None else path.personal.take(client)
        loss, epsilon, epochs = float(made.losses[0]), upload.contribution.epsilon, upload.contribution.epochs
        return TrainedUpdate(sent, loss, upload.added_std, epsilon, personal, left_over, epochs)

    def own_layers(self, client: int) -> Vector | None:
        """Return the layers (n_personal,) that a client has of its own now; None: all are shared."""
        return None if self.personal is None else self.personal.of(client)

    def score(
        self, client: int, request: ClientScoreRequest, models: Vector, own: Vector | None = None
    ) -> NDArray[np.float64]:
        """Return the accuracy (n_models,) of each model on the client's data, or what an attacker claims.

        `models`: (n_models, n_parameters); `own`: the client's own layers when scoring began; None: those of now.
        """
        path = self._path()
        own = self.own_layers(client) if own is None else own
        scores = path.scores(client, request.turn, models, own)
        if (
            request.attacks
            and self.threats is not None
            and self.threats.active(request.last_version, request.last_turn)
        ):
            scores = self.threats.lie(scores, path.streams.generator("lies", client, request.last_turn))
        return scores
