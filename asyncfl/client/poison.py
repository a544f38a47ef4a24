"""Poison: attackers train on data of their own making."""

from __future__ import annotations

from typing import Any

import numpy as np

from asyncfl.client.batch import Assignment, Batch, Stage
from asyncfl.learning import Job
from asyncfl.learning.job import poisson_batches


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
        training = facts.training
        noise = facts.streams.bits("example_noise", client, turn) if training.example_noise else None
        batch, epochs = training.batch_of(len(labels)), training.epochs_of(len(labels))
        last = () if training.steps is None else training.steps_of_epochs(len(labels))[-1:]
        if training.batches == "poisson":
            # The accountant's credit needs batches that are as secret as the noise.
            random = facts.streams.generator("poisson_batches", client, turn)
            order: Any = poisson_batches(len(labels), batch, epochs, random, *last)
            if (away := facts.data.left_out(client)) is not None:
                order = tuple(tuple(one[~np.isin(one, away)] for one in epoch) for epoch in order)
        else:
            random = facts.streams.generator("batches", client, turn)
            order = random.permuted(np.tile(np.arange(len(labels)), (epochs, 1)), axis=1)
            if last and last[0] * batch < len(labels):
                order = [*order[:-1], order[-1, : last[0] * batch]]
        rate = training.version_factor(assignment.base_version, facts.context.rounds)
        # Another task draws other numbers, and this one the same ones wherever it is trained.
        draws = facts.learner.draws or facts.algorithm.replaces_training
        seed = int(facts.streams.bits("dropout", client, turn).random_raw()) >> 1 if draws else 0
        arrays = assignment.base, images, labels, order[: assignment.epochs]
        return Job(*arrays, noise, assignment.deadline, seed, rate)
