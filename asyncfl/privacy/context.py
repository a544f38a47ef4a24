"""Inputs of a privacy scheme: facts about the run and about the upload in question."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PrivacyContext:
    """Facts about a run that noise is calibrated to, fixed before training."""

    clients: int
    """N: number of clients, >= 1."""
    participants: int
    """K: number of updates in one aggregation, 1..clients."""
    rounds: int
    """T: number of aggregations, >= 1. Each of them publishes the global model once."""
    smallest_samples: int
    """m: number of samples in the smallest local data set, >= 1."""
    exposures: int
    """L: number of uploads of one client that an eavesdropper is assumed to hold, 0..rounds."""
    batch_size: int = 0
    """Samples per training step; 0: all samples of the client."""
    epochs: int = 1
    """Passes over a client's samples per task."""
    lr: float = 1.0
    """Learning rate of the clients."""
    plain_sgd: bool = True
    """Whether a step is lr times a gradient, without momentum or a proximal term."""
    clips_samples: bool = False
    """Whether a step takes the mean of the clipped gradients of all samples (`training.local_steps: printed`)."""
    n_parameters: int = 1
    """d: number of parameters of the model."""
    rate: float = 1.0
    """Server learning rate: factor of the mean update when it is added to the model."""
    equal_weights: bool = True
    """Whether no update weighs more than 1/n in a mean of n and no weight depends on data."""
    fixed_weights: bool = True
    """Whether the weights of the updates in a version are independent of all data: a weighted mean without a
    detector."""
    once_each: bool = True
    """Whether every version is a uniform mean of updates from different clients, so that the clients' noise hides all
    of them equally well."""

    personal: bool = False
    """Whether clients keep layers of their own, which carry their data from task to task."""

    def epochs_of(self, contribution: Contribution) -> int:
        """Return the local epochs behind an upload: fewer than `epochs` if the client was stopped early."""
        return self.epochs if contribution.epochs is None else contribution.epochs


@dataclass(frozen=True, slots=True)
class Contribution:
    """Properties of one upload that its noise depends on."""

    client: int
    """Client number, >= 0; -1: a typical client."""
    samples: int
    """Number of training samples of the client."""
    turn: int = 0
    """Number of tasks that the client was assigned before."""
    epsilon: float | None = None
    """Budget of this upload if budgets differ between uploads; None: the scheme's own."""
    weight: float | None = None
    """Weight of the update in the model that it entered, server learning rate included; None: unknown, rate/n is
    assumed."""
    epochs: int | None = None
    """Passes over the client's samples; None: all epochs of a task."""
