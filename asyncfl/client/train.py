"""Train: local epochs from the model that the client was sent, with the client's own layers if some are personal.

If the scheme adds noise after each epoch, tasks are trained epoch by epoch, with noise after each but the last. Canary
clients that are left out upload an update of zero.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from asyncfl.algorithms.algorithm import declared, sent
from asyncfl.algorithms.local_task import LocalTask
from asyncfl.base.answers import numbers, require, with_state
from asyncfl.base.arrays import Bools, Vector
from asyncfl.base.client_state import NOTHING, ClientState
from asyncfl.client.batch import Assignment, Batch, PathComponents, Stage
from asyncfl.client.poison import Poison
from asyncfl.learning import Job, Learner, Training
from asyncfl.learning.job import Deadline, NoEpochError
from asyncfl.learning.optimizer import OptimizerState, kept_names
from asyncfl.learning.personal_layers import PERSONAL, PersonalLayers, SharedPartLearner
from asyncfl.learning.seeded import seeded
from asyncfl.privacy import Contribution


class Trained(NamedTuple):
    """Result of one task's training."""

    model: Any
    """(n_parameters,) float32, or the path of a file where a worker has left it."""
    loss: float
    """Mean training loss of the last local epoch."""
    carried: ClientState
    """Entries of the client's state that the training changed."""
    payloads: Mapping[str, Vector]
    """Vectors that the algorithm uploads beside the update."""
    seconds: float = 0.0
    """Wall-clock seconds that the training took."""


class Trainers(Protocol):
    """Trainers of tasks elsewhere."""

    def train(
        self, tasks: Sequence[Assignment], attacked: Bools, carried: Sequence[ClientState], rows: Vector
    ) -> list[Trained]:
        """Train tasks and write their models into `rows` (n, n_parameters). `carried`: the part of the state of each
        task's client that its training reads (`Train.reads`)."""


class Train(Stage):
    """Stage that trains the tasks of a batch."""

    trainers: Trainers | None = None
    """Trainers elsewhere; None to train here."""

    def __init__(self, facts: PathComponents, poison: Poison) -> None:
        super().__init__(facts)
        self._poison = poison
        learner = facts.learner
        self.personal = PersonalLayers(learner, facts.states) if isinstance(learner, SharedPartLearner) else None
        """Personal layers of each client; None if all layers are shared."""
        self._by_its_algorithm = facts.algorithm.changes_training
        self.payloads = declared(facts.algorithm, learner.n_parameters)
        self._trained_uploads = tuple(one for one in self.payloads.uploads if not one.of_update)
        self._kept = kept_names(facts.training)
        carries = facts.algorithm.carries if self.personal is None else (PERSONAL,)
        self.reads: tuple[str, ...] = (*carries, *self._kept)
        """Names of the entries of a client's state that its training reads and changes."""

    def run(self, batch: Batch) -> None:
        if self.trainers is None:
            self._run_here(batch)
        else:
            clients = [one.client for one in batch.assignments]
            made = self.trainers.train(batch.assignments, batch.attacked, list(map(self.carried, clients)), batch.rows)
            batch.losses = np.array([one.loss for one in made])
            self._put(batch, [one.payloads for one in made])
            for client, one in zip(clients, made, strict=True):
                self.facts.states.update(client, one.carried)

    def carried(self, client: int) -> ClientState:
        """Return the part of a client's state that its training reads."""
        return self.facts.states.of(client).part(self.reads) if self.reads else NOTHING

    def _run_here(self, batch: Batch) -> None:
        batch.jobs = [
            self._poison.job(one, bad) for one, bad in zip(batch.assignments, batch.attacked.tolist(), strict=True)
        ]
        if self._kept:
            batch.jobs = [
                replace(job, optimizer=OptimizerState.of(self.facts.states.of(one.client), self.facts.training))
                for job, one in zip(batch.jobs, batch.assignments, strict=True)
            ]
        if self._by_its_algorithm:
            self._by_algorithm(batch)
        elif self.facts.scheme.noise_each_epoch:
            batch.losses = self._by_epochs(batch)
        else:
            batch.losses = self._learn(batch.rows, batch.jobs, batch.assignments)
            zeroed = self.facts.data.zeroed_clients
            for row, one in enumerate(batch.assignments if zeroed else ()):
                if one.client in zeroed:
                    batch.rows[row] = one.base
        for job, one in zip(batch.jobs, batch.assignments, strict=True):
            if job.optimizer is not None:
                self.facts.states.update(one.client, job.optimizer.entries())
        # Raises NoEpochError if none was done before the deadline.
        batch.assignments = [
            one if one.deadline is None else replace(one, epochs=self._epochs_in_time(one.deadline, job))
            for one, job in zip(batch.assignments, batch.jobs, strict=True)
        ]

    def _epochs_in_time(self, deadline: Deadline, job: Job) -> int | None:
        """Return how many epochs were completed by the deadline, or None for all. Raises NoEpochError for zero, and
        where a number of steps was asked for and not reached."""
        training = self.facts.training
        if training.steps is not None and deadline.epochs_done < len(job.order):
            raise NoEpochError("not all steps were taken by the deadline")
        return deadline.epochs_in_time(len(job.order) if training.steps is not None else training.epochs)

    def _by_algorithm(self, batch: Batch) -> None:
        """Train the tasks with the algorithm's corrections, and store what it uploads and what clients carry."""
        facts, algorithm = self.facts, self.facts.algorithm
        downloads, uploads, jobs = self.payloads.downloads, list[Mapping[str, Vector]](), list(batch.jobs)
        received = [sent(algorithm, "download", one.download, downloads) for one in batch.assignments]
        states = [facts.states.of(one.client).part(algorithm.carries) for one in batch.assignments]
        size = batch.rows.shape[1]
        for row, (state, download) in enumerate(zip(states, received, strict=True)):
            constant = algorithm.correction(state, download)
            if constant is not None:
                constant = numbers(algorithm, "correction", constant, (size,)).astype(np.float32, copy=False)
                jobs[row] = replace(jobs[row], correction=constant)
        if algorithm.replaces_training:
            whole = zip(batch.rows, jobs, states, received, strict=True)
            made = [self._by_own_code(*one) for one in whole]
            batch.losses, carried = np.array([loss for loss, _ in made]), [state for _, state in made]
        else:
            batch.losses, carried = self._learn(batch.rows, jobs, batch.assignments), [NOTHING] * len(jobs)
        for row, (one, state, download) in enumerate(zip(batch.assignments, states, received, strict=True)):
            epochs = len(jobs[row].order)
            if one.deadline is not None:
                epochs = one.deadline.epochs_in_time(epochs) or epochs
            steps = facts.training.steps_of(jobs[row].samples, epochs)
            # A copy: later stages change the row.
            trained = batch.rows[row].copy()
            answer = algorithm.after_training(
                state.updated(carried[row]), download, one.base, trained, steps, facts.training.lr
            )
            vectors, after = with_state(algorithm, "after_training", answer, dict)
            require(isinstance(after, ClientState), algorithm, "after_training", "must return a ClientState", after)
            unknown = {*after.arrays, *after.scalars} - {*algorithm.carries}
            require(not unknown, algorithm, "after_training: state", f"must have {algorithm.carries} only", unknown)
            uploads.append(sent(algorithm, "after_training", vectors, self._trained_uploads))
            facts.states.update(one.client, carried[row].updated(after))
        self._put(batch, uploads)

    def _by_own_code(
        self, row: Vector, job: Job, state: ClientState, download: Mapping[str, Vector]
    ) -> tuple[float, ClientState]:
        """Train a task by the algorithm's own code, and write the model into `row`; return the loss and the entries of
        the client's state."""
        algorithm, learner = self.facts.algorithm, self.facts.learner
        task = local_task(learner, self.facts.training, job, state, download)
        with seeded(job.seed, learner.device):
            update = numbers(algorithm, "train", algorithm.train(task), row.shape)
        np.add(job.base, update, out=row, casting="unsafe")
        unknown = {*task.carried.arrays, *task.carried.scalars} - {*algorithm.carries}
        require(not unknown, algorithm, "train: carried", f"must have {algorithm.carries} only", unknown)
        loss = float(task.loss)
        if math.isnan(loss):
            loss = learner.evaluate(row, job.images, job.labels)[0]
        return loss, task.carried

    def _put(self, batch: Batch, uploads: Sequence[Mapping[str, Vector]]) -> None:
        batch.payloads = {one.name: np.stack([of[one.name] for of in uploads]) for one in self._trained_uploads}

    def _learn(self, rows: Vector, jobs: Sequence[Job], assignments: Sequence[Assignment]) -> NDArray[np.float64]:
        if self.personal is None:
            return self.facts.learner.train(rows, jobs)
        return self.personal.train(rows, jobs, [one.client for one in assignments])

    def _by_epochs(self, batch: Batch) -> NDArray[np.float64]:
        facts, rows, jobs, assignments = self.facts, batch.rows, batch.jobs, batch.assignments
        streams = [facts.streams.generator("epoch_noise", one.client, one.turn) for one in assignments]
        noised = ~batch.attacked | (facts.attackers is not None and facts.attackers.threats.attackers_add_noise)
        losses, bases, whole = np.empty(len(jobs)), [job.base for job in jobs], rows.copy()
        for epoch in range(facts.training.epochs):
            going = [row for row, job in enumerate(jobs) if epoch < len(job.order) and not _stopped(job, epoch)]
            made = np.empty((len(going), rows.shape[1]), dtype=np.float32)
            parts = [jobs[row].epoch(epoch, bases[row]) for row in going]
            found = self._learn(made, parts, [assignments[row] for row in going])
            for row, model, loss in zip(going, made, found, strict=True):
                if _stopped(jobs[row], epoch + 1):
                    # The upload adds the noise of the last epoch.
                    rows[row] = whole[row]
                    continue
                rows[row] = whole[row] = model
                losses[row] = loss
                if noised[row] and epoch + 1 < len(jobs[row].order):
                    client, turn = assignments[row].client, assignments[row].turn
                    one = Contribution(client, facts.data.samples(client), turn)
                    std = np.float32(facts.scheme.upload_noise(facts.context, None, one).std)
                    rows[row] += std * streams[row].standard_normal(rows.shape[1], dtype=np.float32)
                bases[row] = rows[row].copy()
        return losses

    def scores(self, client: int, turn: int, models: Vector, state: ClientState | None = None) -> NDArray[np.float64]:
        """Compute the (n,) scores that an honest client reports of models (n, n_parameters): accuracies on its data,
        plus the scheme's noise on scores. `turn`: number of its requests before; `state`: see `accuracies`."""
        facts = self.facts
        scores, noise = np.asarray(self.accuracies(client, models, state), dtype=np.float64), facts.scheme.scores
        if noise is None:
            return scores
        std = noise.std_of(len(scores), facts.data.samples(client), facts.context.personal)
        return scores + std * facts.streams.generator("score_noise", client, turn).standard_normal(len(scores))

    def accuracies(self, client: int, models: Vector, state: ClientState | None = None) -> NDArray[np.float64]:
        """Compute the (n,) accuracies of models (n, n_parameters) on the client's data, with its personal layers.
        `state`: the client's state to use; None for the current one."""
        samples = self.facts.data.client(client)
        if self.personal is None:
            return self.facts.learner.accuracies(models, *samples)
        own = self.personal.part_of(self.facts.states.of(client) if state is None else state)
        learner = self.personal.learner
        return learner.whole.accuracies(learner.scored(models, own), *samples)


def local_task(
    learner: Learner, training: Training, job: Job, state: ClientState, download: Mapping[str, Vector]
) -> LocalTask:
    """Return a job as the task of an algorithm that trains by code of its own."""
    import torch

    module = learner.module_with(job.base).train()
    inputs, labels = (torch.tensor(np.asarray(one)).to(learner.device) for one in (job.images, job.labels))
    batches = [
        [torch.from_numpy(np.asarray(one, np.int64)).to(learner.device) for one in epoch]
        for epoch in job.batches(training.batch_of(job.samples))
    ]
    rates = training.rates(sum(map(len, batches)), job.rate)
    return LocalTask(module, inputs, labels, batches, rates, training, job.base, state, download)


def _stopped(job: Job, epochs: int) -> bool:
    """Whether a job was stopped before `epochs` epochs were done."""
    return job.deadline is not None and job.deadline.epochs_done < epochs
