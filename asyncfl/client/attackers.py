"""The attackers among the clients of one run: who they are, what they train on, what they send instead.

With attackers drawn per round it is tasks that are drawn, when they are begun: an update is malicious or not whatever
version it is aggregated in, and an attacker of one round may be honest in the next. Each task brings a random number of
its client's turn, and those with the least numbers attack: what happens to others changes only where the limit lies.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from asyncfl.answers import numbers
from asyncfl.client.assignment import Assignment
from asyncfl.messages import Vector
from asyncfl.streams import Streams
from asyncfl.threats import AttackView, Rehearsal, Threats


@dataclass(frozen=True)
class UploadSources:
    """What of others' updates is in the uploads of attackers."""

    copy_of: int | None = None
    """Task whose update they copy."""
    computed_from: tuple[int, ...] = ()
    """Tasks whose updates they are computed from otherwise."""


class PredictedAggregation(Protocol):
    """What the server would make of a buffer. Rows follow it."""

    @property
    def struck(self) -> NDArray[np.bool_]:
        """(n,) counted against the sender."""

    @property
    def model(self) -> Vector:
        """(n_parameters,) the next one."""


Scores: TypeAlias = Callable[[int, Vector], NDArray[np.float64]]
"""(client, models (n, n_parameters)) -> (n,) what the client says of their accuracy."""
Rehearse: TypeAlias = Callable[[Vector, NDArray[np.float64], NDArray[np.float64] | None, Scores], PredictedAggregation]
"""(models (n, n_parameters), deviations (n,) of the noise asked for, share of the epochs done (n,) or None, what
clients answer that are asked for scores) -> what becomes of them."""


@dataclass(frozen=True)
class UploadContext:
    """What goes with the rows of a buffer when attackers craft theirs."""

    std: NDArray[np.float64]
    """(n,) deviation of the noise that is added to each row after this."""
    asked_std: NDArray[np.float64]
    """(n,) deviation that the scheme asks for."""
    work: NDArray[np.float64] | None
    """(n,) share of a task's epochs that was done; None: all."""
    accuracies: Scores
    """Of models on a client's data, truly."""


class Attackers:
    """Carries out the threats of one run. Poisoned data are made once per client and kept."""

    def __init__(
        self, threats: Threats, clients: int, classes: int, streams: Streams, of_round: int | None = None
    ) -> None:
        """`of_round`: tasks of a round where attackers are drawn per round; None: those that are begun together."""
        self.threats = threats
        self.clients = clients
        self.classes = classes
        self.streams = streams
        self._poisoned: dict[int, tuple[NDArray[np.float32], NDArray[np.int64]]] = {}
        self.members: set[int] = set()
        """Clients that are attackers; where they are drawn per round: those that have been one."""
        self.drawn: set[int] | None = None
        """Tasks that were drawn, where attackers are drawn per round; None: all tasks of a member."""
        if threats.selection == "pool":
            self.members.update(threats.draw(streams, clients).tolist())
        else:
            self.drawn = set()
        self.server: Rehearse | None = None
        """What the server would make of a buffer, for attacks that rehearse; None: nobody can tell."""
        self._of_round = of_round
        self._begun: list[tuple[float, int, int]] = []
        self._tasks_left = 0
        self._attackers_left = 0

    def begin(self, task: int, client: int, turn: int) -> None:
        """Take note of a task that is begun, in the order in which they are. `turn`: as of `attacks`.

        Who attacks is not known before `draw`.
        """
        if self.drawn is not None:
            number = float(self.streams.generator("attackers", client, turn).random())
            self._begun.append((number, client, task))

    def draw(self) -> None:
        """Settle which of the tasks that were begun since the last draw are attacks: those are a round, unless rounds
        have a number of tasks of their own."""
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
        """Whether the next task in a row attacks, of which nobody knows yet who follows.

        Of each `of` tasks the stated number do (Knuth, The Art of Computer Programming 2, 3.4.2, algorithm S).
        """
        if not self._tasks_left:
            self._tasks_left, self._attackers_left = of, self.threats.count(of)
        attacks = number * self._tasks_left < self._attackers_left
        self._tasks_left -= 1
        self._attackers_left -= attacks
        return attacks

    def malicious(self, task: int, client: int) -> bool:
        """Whether a task that was begun is an attacker's, whether or not the attack is on."""
        if self.drawn is None:
            return client in self.members
        return task in self.drawn

    def attacks(self, task: int, client: int, base_version: int, turn: int) -> bool:
        """Whether a task is an attack. `turn`: tasks that the client was given before."""
        return self.malicious(task, client) and self.threats.active(base_version, turn)

    def speed(self, task: int, client: int) -> float:
        """How many times as fast as honest clients this one finishes a task (flooding)."""
        return self.threats.attack.rate if self.malicious(task, client) else 1.0

    def poisoned(
        self, client: int, images: NDArray[np.float32], labels: NDArray[np.int64]
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """What an attacker trains on: its data after `Attack.poison`."""
        if client not in self._poisoned:
            random = self.streams.generator("poison", client)
            self._poisoned[client] = self.threats.attack.poison(images, labels, self.classes, random)
        return self._poisoned[client]

    def craft(
        self,
        rows: Vector,
        assignments: Sequence[Assignment],
        attacked: NDArray[np.bool_],
        version: int,
        current: Vector,
        uploading: UploadContext,
    ) -> UploadSources:
        """Put in place of the attacked rows what the attackers upload, before noise; what of others is in it.

        `rows`: (n, n_parameters) models, those of honest clients as sent; changed in place. `attacked`: (n,).
        """
        theirs = np.flatnonzero(attacked)
        base = np.stack([assignments[row].base for row in theirs.tolist()])
        honest = rows[theirs] - base
        match self.threats.attack.sees:
            case "own":
                known = np.empty((0, rows.shape[1]), dtype=np.float32)
            case "colluders":
                known = honest
            case "buffer":
                seen = [rows[row] - assignments[row].base for row in np.flatnonzero(~attacked).tolist()]
                known = np.array(seen, dtype=np.float32).reshape(len(seen), rows.shape[1])
        for array in (honest, known, base):
            array.flags.writeable = False
        view = AttackView(
            honest=honest,
            known=known,
            bases=base,
            current=current,
            collected=len(rows),
            version=version,
            randoms=tuple(
                self.streams.generator("attack", assignments[row].client, assignments[row].turn)
                for row in theirs.tolist()
            ),
        )
        attack = self.threats.attack
        if attack.rehearses and self.server is not None:
            view = replace(view, rehearse=self._rehearsal(self.server, rows, theirs, view, uploading))
        crafted = attack.craft(view)
        if crafted is None:
            return UploadSources()
        rows[theirs] = base + numbers(attack, "craft", crafted, base.shape)
        if not len(known) or attack.sees != "buffer":
            return UploadSources()
        others = tuple(assignments[row].task for row in np.flatnonzero(~attacked).tolist())
        place = attack.copied(view)
        return UploadSources(computed_from=others) if place is None else UploadSources(copy_of=others[place])

    def _rehearsal(
        self, server: Rehearse, rows: Vector, theirs: NDArray[np.int64], view: AttackView, uploading: UploadContext
    ) -> Callable[[Vector], Rehearsal]:
        """What attackers are told who ask what would become of their uploads.

        Noise is drawn once for all that they ask, of the deviation that will be added; from copies of their streams.
        """
        noise = np.zeros((len(theirs), rows.shape[1]), dtype=np.float32)
        for place, row in enumerate(theirs.tolist()):
            if uploading.std[row]:
                drawn = copy.deepcopy(view.randoms[place]).standard_normal(rows.shape[1], dtype=np.float32)
                noise[place] = np.float32(uploading.std[row]) * drawn

        def scores(client: int, models: Vector) -> NDArray[np.float64]:
            true = uploading.accuracies(client, models)
            return self.threats.lie(true, self.streams.generator("lies", client)) if client in self.members else true

        def rehearse(crafted: Vector) -> Rehearsal:
            models = rows.copy()
            models[theirs] = view.bases + crafted + noise
            answer = server(models, uploading.asked_std, uploading.work, scores)
            return Rehearsal(answer.struck[theirs], answer.model - view.current)

        return rehearse
