"""Facts about a run and an upload that noise depends on, one release as accountants see it, and the records of uploads
and published models that a seed keeps.

Noise is given as the standard deviation on each parameter; Laplace noise of scale b has standard deviation sqrt(2) b.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Distribution = Literal["gaussian", "laplace"]
"""Distribution of the noise. The matching sensitivity is L2 for `gaussian` and L1 for `laplace`."""

Unit = Literal["sample", "client", "none"]
"""Data in which neighbouring data sets differ: one sample of one client | all data of one client | nothing is
stated."""

Status = Literal["proven", "heuristic", "disproved", "invalid", "none"]
"""Foundation of a sensitivity: a proof | an argument that does not hold for this training | the same, refuted by an
audit of the run | a wrong formula | no noise. Whether there is enough noise for the sensitivity is a separate question:
`privacy.flags`."""


@dataclass(frozen=True, slots=True)
class PrivacyContext:
    """Facts about a run that noise is calibrated to, fixed before training.

    Defences get a view of their own (`asyncfl.defences.DefenceContext`), with the server's root set, which no client
    may see, and the size of each client's data set. This one holds numbers that every client may know, and calculators
    make one without data.
    """

    clients: int  # N: number of clients, >= 1
    participants: int  # K: number of updates in one aggregation, 1..clients
    rounds: int  # T: number of aggregations, >= 1; each of them publishes the global model once
    smallest_samples: int  # m: number of samples in the smallest local data set, >= 1
    exposures: int  # L: number of uploads of one client that an eavesdropper is assumed to hold, 0..rounds
    batch_size: int = 0  # samples per training step; 0: all samples of the client
    epochs: int = 1  # passes over a client's samples that a task begins, at most
    lr: float = 1.0  # learning rate of the clients
    plain_sgd: bool = True  # whether a step is lr times a gradient, without momentum or a proximal term
    clips_samples: bool = False
    """Whether a step takes the mean of the clipped gradients of all samples (`training.gradient_step: printed`)."""
    n_parameters: int = 1  # d: number of parameters of the model
    rate: float = 1.0  # server learning rate: factor of the mean update when it is added to the model
    equal_weights: bool = True
    """Whether no update weighs more than 1/n in a mean of n and no weight depends on data."""
    fixed_weights: bool = True
    """Whether the weights of the updates in a version are independent of all data: a weighted mean without a
    detector."""
    min_separation: int = 1
    """Fewest versions between two that updates of one client enter, >= 1 (`protocol.min_separation`)."""
    max_participations: int | None = None
    """Most versions that updates of one client enter; None: any number (`protocol.max_participations`)."""
    once_each: bool = True
    """Whether every version is a uniform mean of updates from different clients, so that the clients' noise hides all
    of them equally well."""
    personal: bool = False  # whether clients keep layers of their own, which carry their data from task to task
    steps: int | None = None  # gradient steps of a task; None: those of `epochs` passes
    poisson_sizes: tuple[int, ...] = ()
    """Different numbers of samples of the clients whose batches are Poisson samples; empty: batches are shuffled."""

    def epochs_of(self, contribution: Contribution) -> int:
        """Return the local epochs behind an upload: fewer than `epochs` if the client was stopped early. With `steps`
        those that were begun."""
        if self.steps is not None:
            return math.ceil(self.steps / self._steps_of_epoch(contribution.samples))
        return self.epochs if contribution.epochs is None else contribution.epochs

    def steps_of(self, samples: int, epochs: int | None = None) -> int:
        """Return the gradient steps of a client with `samples` samples in a task; in `epochs` epochs if given."""
        if self.steps is not None:
            return self.steps
        return (self.epochs if epochs is None else epochs) * self._steps_of_epoch(samples)

    def _steps_of_epoch(self, samples: int) -> int:
        return math.ceil(samples / (min(self.batch_size, samples) if self.batch_size else samples))


@dataclass(frozen=True, slots=True)
class Contribution:
    """Properties of one upload that its noise depends on."""

    client: int  # client number, >= 0; -1: a typical client
    samples: int  # number of training samples of the client
    turn: int = 0  # number of tasks that the client was assigned before
    epsilon: float | None = None  # budget of this upload if budgets differ between uploads; None: the scheme's own
    weight: float | None = None
    """Weight of the update in the model that it entered, server learning rate included; None: unknown, rate/n is
    assumed."""
    epochs: int | None = None  # passes over the client's samples; None: all epochs of a task


@dataclass(frozen=True, slots=True)
class BitNoise:
    """Noise on the bits behind an adaptive clip norm: one bit for each collected update, of which the sum is known."""

    std: float  # standard deviation of the noise on each bit, or on the sum of the bits (`by_server`), > 0
    sensitivity: float  # largest change of one bit between neighbouring data sets
    by_server: bool
    """Whether the server adds the noise to the sum, multiplied by the most updates of one client in the collection."""


@dataclass(frozen=True, slots=True)
class Release:
    """One upload or one published model as accountants see it."""

    distribution: Distribution
    std: float  # standard deviation of the noise on each parameter, >= 0
    sensitivity: float
    """Largest change between neighbouring data sets, L2 (Gaussian) or L1 (Laplace); infinite if nothing bounds it. If
    the noise was calibrated to a wrong sensitivity (`status` invalid), the true one."""
    count: int  # number of mechanisms with this noise: 1, or the epochs of a task that adds noise in each
    epsilon: float  # epsilon claimed for this release alone; infinite if nothing is claimed
    rate: float = 1.0
    """Probability with which a sample enters each mechanism, in secret and on its own (Poisson batches); 1: always."""

    @property
    def multiplier(self) -> float:
        """Noise multiplier: std (Gaussian) or scale (Laplace) over sensitivity; 0 if the sensitivity is infinite."""
        scale = self.std if self.distribution == "gaussian" else self.std / math.sqrt(2)
        return math.inf if self.sensitivity == 0 else scale / self.sensitivity


@dataclass(frozen=True, slots=True)
class Upload:
    """One upload at the end of a task, or the upload that a trained but never collected task would have made."""

    task: int  # task number
    base_version: int  # model version that the task started from
    contribution: Contribution  # client, inputs of the noise, and the weight in the model that the upload entered
    release: Release  # the upload as accountants see it: noise and sensitivity
    clip_norm: float | None  # norm that the upload was clipped to; None: no clipping
    loss: float | None  # mean training loss of the last local epoch; None: not reported
    attacked: bool  # whether the client attacked in this task
    added_std: float  # standard deviation of the noise added to each parameter after training
    copy_of: int | None = None  # task whose noised update this upload copies before adding its own noise; None: no copy
    computed_from: tuple[int, ...] = ()  # tasks of other clients that this upload was computed from in any other way

    @property
    def client(self) -> int:
        return self.contribution.client

    @property
    def turn(self) -> int:
        return self.contribution.turn

    @property
    def weight(self) -> float | None:
        """Weight in the aggregation, server learning rate included; None: the upload entered no published model."""
        return self.contribution.weight


@dataclass(frozen=True, slots=True)
class ModelRelease:
    """A published model that aggregated at least one update."""

    version: int
    uploads: tuple[Upload, ...]  # the aggregated updates, at least one, each with its weight
    clip_norm: float | None  # norm that the updates were clipped to; None: no clipping
    server_std: float
    """Standard deviation of the server's noise on each parameter; where it is correlated over versions
    (`Scheme.correlation`), that of its unit, before the correlation."""

    @property
    def contributions(self) -> tuple[Contribution, ...]:
        """(n_uploads,) contributions of the aggregated updates."""
        return tuple(one.contribution for one in self.uploads)
