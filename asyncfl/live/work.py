"""What a client really does: train, clip, attack, add noise, score. In threads: it keeps answering meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.messages import Vector
from asyncfl.client import Assignment, Attackers, TaskPath
from asyncfl.compression import Download
from asyncfl.learning.deadline import Deadline
from asyncfl.learning.personal_layers import PersonalLayers
from asyncfl.threats import Threats


@dataclass(frozen=True)
class Done:
    """The update of a task, and what is said of it."""

    model: Vector | Download
    """(1, length) as it is uploaded, or the update, packed; one of the wrong length, where an attacker sends that."""
    loss: float
    added_std: float
    epsilon: float | None
    personal: Vector | None = None
    """(n_personal,) what the task has made of the client's own layers; None: it has none."""
    left_over: Vector | None = None
    """(n_parameters,) what compression leaves over for the client's next update; None: nothing."""
    epochs: int | None = None
    """Epochs after which it had to stop; None: it did all, or was told when."""


class Workshop:
    """Where the clients of one process train. Each thread has a path of its own; between tasks are kept the layers that
    are the clients' own, what compression left of their updates, and nothing else."""

    now: ClassVar[Callable[[], float]] = staticmethod(time.monotonic)
    """Seconds of the clock that deadlines are measured by."""

    def __init__(
        self,
        make_path: Callable[[Attackers | None], TaskPath],
        threats: Threats | None,
        personal: PersonalLayers | None = None,
    ) -> None:
        """`make_path`: a new path for tasks, whose attackers are these. `personal`: the clients' own layers; None: all
        layers are shared."""
        self.threats = threats
        self.personal = personal
        self._left: dict[int, Vector | None] = {}
        self._make_path = make_path
        self._own = threading.local()
        self._making = threading.Lock()

    def _path(self) -> TaskPath:
        path: TaskPath | None = getattr(self._own, "path", None)
        if path is None:
            with self._making:
                path = self._own.path = self._make_path(None)
            if self.threats is not None:
                data, streams = path.data, path.streams
                path.attackers = Attackers(self.threats, data.clients, data.classes, streams)
                # Who attacks is settled by whoever runs the experiment, task by task.
                path.attackers.drawn = set()
        return path

    def _path_of(self, client: int) -> TaskPath:
        """The path for something that a client does, with the client's own layers."""
        path = self._path()
        if self.personal is not None and path.personal is not None:
            path.personal.put(client, self.personal.of(client))
        if path.compressor is not None:
            path.compressor.put(client, self._left.get(client))
        return path

    def keep(self, client: int, done: Done) -> None:
        """Have a client go on with what a training that is over has made of its own layers, and with what compression
        left over."""
        if done.left_over is not None:
            self._left[client] = done.left_over
        if self.personal is not None and done.personal is not None:
            self.personal.put(client, done.personal)

    def train(self, assignment: Assignment, attacks: bool, deadline_s: float | None = None) -> Done:
        """Carry out a task. `attacks`: whether its client is an attacker. `deadline_s`: real seconds from now after
        which it stops; None: it does not. What it makes of personal layers is not kept yet: see `keep`.

        Raises NoEpochError where nothing was done by then.
        """
        path = self._path_of(assignment.client)
        if deadline_s is not None:
            assignment = replace(assignment, deadline=Deadline(deadline_s, type(self).now))
        if path.attackers is not None:
            path.attackers.drawn = {assignment.task} if attacks else set()
        made = path.carry_out([assignment], assignment.base_version, assignment.base)
        [upload] = made.uploads
        model = made.models.copy()
        if not made.sound[0] and self.threats is not None:
            error = self.threats.attack.length_error
            length = max(1, model.shape[1] + error)
            model = np.resize(model, (1, length))
        sent: Vector | Download = model
        if made.packed and made.sound[0]:
            sent = Download(model[0], made.packed[0])
        left_over = None
        if path.compressor is not None:
            left_over = path.compressor.left_of(assignment.client)
            # It is kept here, once, and not in each thread too.
            path.compressor.put(assignment.client, None)
        epsilon = upload.contribution.epsilon
        stopped = upload.contribution.epochs
        personal = None if path.personal is None else path.personal.take(assignment.client)
        return Done(sent, float(made.losses[0]), upload.added_std, epsilon, personal, left_over, stopped)

    def own_layers(self, client: int) -> Vector | None:
        """(n_personal,) the layers that a client has of its own now; None: all are shared."""
        return None if self.personal is None else self.personal.of(client)

    def score(
        self,
        client: int,
        turn: int,
        models: Vector,
        attacks: bool,
        last_version: int,
        last_turn: int,
        own: Vector | None = None,
    ) -> NDArray[np.float64]:
        """(n_models,) accuracy of each model on the client's data, or what an attacker says of them.

        `own`: see `own_layers`, as they were when scoring began, however long it waits for a thread; `turn`: requests
        that it was sent before; `last_version`, `last_turn`: of its task that was collected last.
        """
        path = self._path()
        own = self.own_layers(client) if own is None else own
        scores = np.asarray(path.accuracies(client, models, own), dtype=np.float64)
        if path.scheme.scores is not None:
            random = path.streams.generator("score_noise", client, turn)
            std = path.scheme.scores.std_of(len(scores), path.data.samples(client), path.context.personal)
            scores = scores + std * random.standard_normal(len(scores))
        if attacks and self.threats is not None and self.threats.active(last_version, last_turn):
            scores = self.threats.lie(scores, path.streams.generator("lies", client, last_turn))
        return scores
