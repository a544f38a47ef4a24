"""Training and scoring of the clients of one process, in threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.arrays import Vector
from asyncfl.base.client_state import ClientState
from asyncfl.base.streams import Streams
from asyncfl.client import Assignment, Attackers, TaskPath
from asyncfl.data import FederatedData
from asyncfl.extras.live.client_messages import ClientScoreRequest
from asyncfl.learning import Learner
from asyncfl.learning.job import Deadline
from asyncfl.protocol.messages import Download
from asyncfl.scenario import Scenario
from asyncfl.simulation.prepare import learner_of


@dataclass(frozen=True)
class TrainedUpdate:
    """The update of a task."""

    model: Vector | Download
    """(1, length) as it is uploaded, or packed; `length` is wrong where an attacker sends a malformed update."""
    loss: float
    added_std: float
    epsilon: float | None
    state: ClientState = field(default_factory=ClientState)
    """Entries of the client's state that the task changed."""
    epochs: int | None = None
    """Epochs after which the deadline stopped it; None: it did all, or was told when to stop."""
    payloads: dict[str, Vector] = field(default_factory=dict)
    """Name -> (size,): the algorithm's vectors."""


class LocalTraining:
    """Trains for the clients of one process. Each thread has a path of its own.

    Between tasks it keeps the clients' states, and nothing else.
    """

    now: ClassVar[Callable[[], float]] = staticmethod(time.monotonic)
    """Seconds of the clock that deadlines are measured by."""

    def __init__(
        self,
        scenario: Scenario,
        data: FederatedData,
        like: TaskPath,
        streams: Streams,
    ) -> None:
        """`like`: path of the run, whose clients' states are those of this process. `streams`: source of the clients'
        randomness."""
        self._scenario, self._data, self._like, self._streams = scenario, data, like, streams
        self.threats, self.states, self.carries = scenario.threats, like.states, like.carries
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
                if self._like.personal is not None:
                    learner = self._like.personal.learner.with_learner(learner)
                path = self._own.path = TaskPath(
                    *(data, learner, scenario.training, scenario.privacy, self._like.context, streams, attackers),
                    *(scenario.compression, scenario.algorithm),
                )
        return path

    def train(self, assignment: Assignment, attacks: bool, deadline_s: float | None = None) -> TrainedUpdate:
        """Carry out a task. The changes of the client's state are in the result, and not yet in `states`, because a
        training that was given up may end after the next one.

        `attacks`: whether the client is an attacker. `deadline_s`: real seconds from now after which it stops; None: it
        does not. Raises NoEpochError if no epoch was done by then.
        """
        path, client = self._path(), assignment.client
        began = self.states.of(client)
        path.states.put(client, began)
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
        changed = path.states.take(client).since(began)
        loss, epsilon, epochs = float(made.losses[0]), upload.contribution.epsilon, upload.contribution.epochs
        payloads = {name: vectors[0] for name, vectors in made.payloads.items()}
        return TrainedUpdate(sent, loss, upload.added_std, epsilon, changed, epochs, payloads)

    def score(
        self, client: int, request: ClientScoreRequest, models: Vector, state: ClientState | None = None
    ) -> NDArray[np.float64]:
        """Return the accuracy (n_models,) of each model on the client's data, or what an attacker claims.

        `models`: (n_models, n_parameters); `state`: the client's state when scoring began; None: that of now.
        """
        path = self._path()
        scores = path.scores(client, request.turn, models, self.states.of(client) if state is None else state)
        if (
            request.attacks
            and self.threats is not None
            and self.threats.active(request.last_version, request.last_turn)
        ):
            scores = self.threats.lie(scores, path.streams.generator("lies", client, request.last_turn))
        return scores
