"""Poison: attackers train on data of their own making."""

from __future__ import annotations

import numpy as np

from asyncfl.client.batch import Assignment, Batch, Stage
from asyncfl.learning import Job


class Poison(Stage):
    """Stage that decides which tasks attack."""

    def run(self, batch: Batch) -> None:
        attackers = self.facts.attackers
        if attackers is not None:
            batch.attacked[:] = [
                attackers.attacks(one.task, one.client, one.base_version, one.turn) for one in batch.assignments
            ]

    def job(self, assignment: Assignment, attacked: bool = False) -> Job:
        """Return the training job of a task: base model, data, and order of samples. `attacked`: use poisoned data."""
        facts, client, turn = self.facts, assignment.client, assignment.turn
        images, labels = facts.data.client(client)
        if attacked and facts.attackers is not None:
            images, labels = facts.attackers.poisoned(client, images, labels)
        random = facts.streams.generator("batches", client, turn)
        epochs = np.tile(np.arange(len(labels)), (facts.training.epochs, 1))
        noise = facts.streams.bits("example_noise", client, turn) if facts.training.example_noise else None
        order = random.permuted(epochs, axis=1)[: assignment.epochs]
        return Job(assignment.base, images, labels, order, noise, assignment.deadline)
