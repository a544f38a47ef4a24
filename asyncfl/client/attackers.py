"""The attackers of a run: which clients and tasks attack, and the poisoned data that they train on.

With attackers drawn per round, tasks are drawn when they begin, each by a random number of its client and turn: the
tasks with the smallest numbers attack. So a change elsewhere affects only tasks near the limit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.arrays import Vector
from asyncfl.base.streams import Streams
from asyncfl.threats import Threats

Scores: TypeAlias = Callable[[int, Vector], NDArray[np.float64]]
"""Function (client, models (n, n_parameters)) -> (n,) accuracies that the client reports."""
Rehearse: TypeAlias = Callable[
    [Vector, NDArray[np.float64], NDArray[np.float64] | None, Scores], tuple[NDArray[np.bool_], Vector]
]
"""Function that predicts the aggregation of (models (n, n_parameters), standard deviations (n,) of the noise asked for,
share of the epochs done (n,) or None, scores that clients would report): (n,) whether each update is a strike against
its sender, and the next model (n_parameters,)."""


class Attackers:
    """The attackers of one run. Poisoned data are made once per client and kept."""

    def __init__(
        self, threats: Threats, clients: int, classes: int, streams: Streams, of_round: int | None = None
    ) -> None:
        """`of_round`: tasks per round if attackers are drawn per round; None: a round is the tasks that begin together.
        `classes`: number of classes of the data."""
        self.threats = threats
        self.clients = clients
        self.classes = classes
        self.streams = streams
        self._poisoned: dict[int, tuple[NDArray[np.float32], NDArray[np.int64]]] = {}
        self.members: set[int] = set()
        """Clients that are attackers; if attackers are drawn per round, clients that have been one."""
        self.drawn: set[int] | None = None
        """Malicious tasks, if attackers are drawn per round; None: all tasks of members are malicious."""
        if threats.selection != "per_round":
            self.members.update(threats.draw(streams, clients).tolist())
        else:
            self.drawn = set()
        self.server: Rehearse | None = None
        """Function that predicts the server's aggregation, for attacks that use it; None if unavailable."""
        self._of_round = of_round
        self._begun: list[tuple[float, int, int]] = []
        self._tasks_left = 0
        self._attackers_left = 0

    def begin(self, task: int, client: int, turn: int) -> None:
        """Register a task that begins, in the order in which tasks begin. `turn`: see `attacks`. `draw` decides later
        whether it attacks."""
        if self.drawn is not None:
            number = float(self.streams.generator("attackers", client, turn).random())
            self._begun.append((number, client, task))

    def draw(self) -> None:
        """Decide which of the tasks that began since the last draw attack. These tasks are a round, unless rounds have
        a fixed number of tasks."""
        if self.drawn is None:
            return
        begun, self._begun = self._begun, []
        if self._of_round is None:
            attacking = sorted(begun)[: self.threats.count(len(begun))]
        else:
            attacking = [one for one in begun if self._is_next(one[0], self._of_round)]
        for _, client, task in attacking:
            self.drawn.add(task)
            self.members.add(client)

    def _is_next(self, number: float, of: int) -> bool:
        """Whether the next task of a sequence attacks: of each `of` tasks, the required number. `number`: random number
        of the task, 0..1. Source: Knuth, The Art of Computer Programming 2, 3.4.2, algorithm S."""
        if not self._tasks_left:
            self._tasks_left, self._attackers_left = of, self.threats.count(of)
        attacks = number * self._tasks_left < self._attackers_left
        self._tasks_left -= 1
        self._attackers_left -= attacks
        return attacks

    def malicious(self, task: int, client: int) -> bool:
        """Whether a task belongs to an attacker, even while the attack is inactive."""
        if self.drawn is None:
            return client in self.members
        return task in self.drawn

    def attacks(self, task: int, client: int, base_version: int, turn: int) -> bool:
        """Whether a task attacks. `base_version`: version that the client was sent; `turn`: number of its tasks
        before."""
        return self.malicious(task, client) and self.threats.active(base_version, turn)

    def malicious_among(self, tasks: Sequence[int], clients: Sequence[int]) -> list[bool]:
        """Return whether each of these tasks of these clients belongs to an attacker."""
        return [*map(self.malicious, tasks, clients)]

    def speed(self, task: int, client: int) -> float:
        """Return the factor by which this client finishes a task faster than an honest one (flooding)."""
        return self.threats.attack.rate if self.malicious(task, client) else 1.0

    def poisoned(
        self, client: int, images: NDArray[np.float32], labels: NDArray[np.int64]
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return the images and labels that an attacker trains on, made by `Attack.poison` from its own."""
        if client not in self._poisoned:
            random = self.streams.generator("poison", client)
            self._poisoned[client] = self.threats.attack.poison(images, labels, self.classes, random)
        return self._poisoned[client]
