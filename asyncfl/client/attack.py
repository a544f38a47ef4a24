"""Attack: attackers craft their uploads after they have seen as much of the buffer as they know."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.answers import numbers
from asyncfl.base.arrays import Ints, Vector
from asyncfl.client.attackers import Attackers, Rehearse, Scores
from asyncfl.client.batch import Batch, PathComponents, Stage, work_of
from asyncfl.threats import AttackView, Rehearsal

HELD = 100
"""Largest number of samples of a class from which the attackers compute gradients together."""


class CraftUploads(Stage):
    """Stage that replaces attacked rows by the attackers' uploads before noise, and records which tasks these depend
    on."""

    def __init__(self, facts: PathComponents, accuracies: Scores) -> None:
        """`accuracies`: true accuracies of models on a client's data."""
        super().__init__(facts)
        self.accuracies = accuracies

    def run(self, batch: Batch) -> None:
        attackers = self.facts.attackers
        if attackers is not None and batch.attacked.any():
            self.craft(attackers, batch)
            self._craft_payloads(attackers, batch)
            batch.sound[batch.attacked] = attackers.threats.attack.length_error == 0

    def craft(self, attackers: Attackers, batch: Batch) -> None:
        """Let the attackers craft their rows, unless the attack crafts nothing."""
        attack, rows, assignments = attackers.threats.attack, batch.rows, batch.assignments
        theirs, others = np.flatnonzero(batch.attacked), np.flatnonzero(~batch.attacked).tolist()
        base = np.stack([assignments[row].base for row in theirs.tolist()])
        honest = rows[theirs] - base
        match attack.sees:
            case "own":
                known = np.empty((0, rows.shape[1]), dtype=np.float32)
            case "colluders":
                known = honest
            case "buffer":
                seen = [rows[row] - assignments[row].base for row in others]
                known = np.array(seen, dtype=np.float32).reshape(len(seen), rows.shape[1])
        for array in (honest, known, base):
            array.flags.writeable = False
        senders = [assignments[row] for row in theirs.tolist()]
        view = AttackView(
            honest=honest,
            known=known,
            bases=base,
            current=batch.current,
            collected=len(rows),
            version=batch.version,
            randoms=tuple(attackers.streams.generator("attack", one.client, one.turn) for one in senders),
            class_gradients=self._class_gradients if self.facts.data.classes else None,
            last_layer=batch.rows.shape[1] - self.facts.learner.layout.layers[-1].start,
            ranks=tuple(np.searchsorted(sorted(attackers.members), [one.client for one in senders]).tolist()),
        )
        if attack.rehearses and attackers.server is not None:
            view = replace(view, rehearse=self._rehearsal(attackers, attackers.server, batch, theirs, view))
        crafted = attack.craft(view)
        if crafted is None:
            return
        rows[theirs] = base + numbers(attack, "craft", crafted, base.shape)
        if len(known) and attack.sees == "buffer":
            tasks, place = tuple(assignments[row].task for row in others), attack.copied(view)
            if place is None:
                batch.computed_from = tasks
            else:
                batch.copy_of = tasks[place]

    def _craft_payloads(self, attackers: Attackers, batch: Batch) -> None:
        """Let the attackers craft the vectors that the algorithm uploads beside their updates."""
        attack, theirs = attackers.threats.attack, batch.attacked
        for name, vectors in batch.payloads.items():
            with np.errstate(over="ignore", invalid="ignore"):
                crafted = attack.craft_payload(name, vectors[theirs])
            vectors[theirs] = numbers(attack, f"craft_payload: {name}", crafted, vectors[theirs].shape)

    def _class_gradients(self, model: Vector) -> Vector:
        """Compute `AttackView.class_gradients` on the first `HELD` samples of each class that the attackers hold."""
        data, learner, attackers = self.facts.data, self.facts.learner, self.facts.attackers
        held: list[list[tuple[Vector, Ints]]] = [[] for _ in range(data.classes)]
        left = np.full(data.classes, HELD)
        for client in sorted(attackers.members) if attackers is not None else []:
            images, labels = data.client(client)
            for label in np.flatnonzero((np.bincount(labels, minlength=data.classes) > 0) & (left > 0)).tolist():
                rows = np.flatnonzero(labels == label)[: left[label]]
                left[label] -= len(rows)
                held[label].append((images[rows], labels[rows]))
        found = np.zeros((data.classes, len(model)), dtype=np.float32)
        for row, samples in zip(found, held, strict=True):
            if samples:
                row[:] = learner.gradient(model, *map(np.concatenate, zip(*samples, strict=True)))
        return found

    def _rehearsal(
        self, attackers: Attackers, server: Rehearse, batch: Batch, theirs: NDArray[np.int64], view: AttackView
    ) -> Callable[[Vector], Rehearsal]:
        """Return a function by which attackers predict the treatment of their uploads. The noise of their uploads is
        drawn once for all predictions, from copies of their random streams."""
        rows, threats = batch.rows, attackers.threats
        noise = np.zeros((len(theirs), rows.shape[1]), dtype=np.float32)
        for place, row in enumerate(theirs.tolist()):
            if batch.std[row] and threats.attackers_add_noise:
                drawn = copy.deepcopy(view.randoms[place]).standard_normal(rows.shape[1], dtype=np.float32)
                noise[place] = np.float32(batch.std[row]) * drawn
        asked_std = np.array([one.upload_std for one in batch.noises])
        work = work_of([one.epochs for one in batch.contributions], self.facts.training.epochs)

        def scores(client: int, models: Vector) -> NDArray[np.float64]:
            true = self.accuracies(client, models)
            if client not in attackers.members:
                return true
            return threats.lie(true, attackers.streams.generator("lies", client))

        def rehearse(crafted: Vector) -> Rehearsal:
            models = rows.copy()
            models[theirs] = view.bases + crafted + noise
            struck, model = server(models, asked_std, work, scores)
            return Rehearsal(struck[theirs], model - view.current)

        return rehearse
