"""What a privacy scheme is told: the facts of a run, how its clients train, and which upload is being made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class PrivacyContext:
    """The facts of a run that noise is calibrated to; fixed before training."""

    clients: int
    """N, >= 1."""
    participants: int
    """K: updates that enter one aggregation, 1..clients."""
    rounds: int
    """T: aggregations, >= 1. Each publishes the global model once."""
    smallest_samples: int
    """m: number of samples of the smallest local data set, >= 1."""
    exposures: int
    """L: uploads of one client that an eavesdropper is assumed to hold, 0..rounds."""
    batch_size: int = 0
    """Samples per training step; 0: all that a client holds."""
    epochs: int = 1
    """Passes over a client's samples per task."""
    lr: float = 1.0
    """Learning rate of the clients."""
    plain_sgd: bool = True
    """Whether a step is lr times a gradient: no momentum, nothing that pulls back."""
    n_parameters: int = 1
    """d: parameters of the model."""
    rate: float = 1.0
    """Factor of the mean of the updates when it enters the model."""
    equal_weights: bool = True
    """Whether no update can weigh more than 1/n in a mean of n, and none weighs what depends on data."""
    fixed_weights: bool = True
    """Whether what updates weigh in a version depends on nobody's data: a weighted mean without a detector."""
    once_each: bool = True
    """Whether a version is always an even mean of updates of different clients, so that the clients' noise hides each
    of them as much as any other."""

    def epochs_of(self, contribution: Contribution) -> int:
        """Passes over the client's samples that an upload comes of: fewer than `epochs` where it was stopped."""
        return self.epochs if contribution.epochs is None else contribution.epochs


class LocalTraining(Protocol):
    """What a scheme may ask of how clients train."""

    @property
    def epochs(self) -> int:
        """Passes over the client's samples per task."""
        ...

    @property
    def momentum(self) -> float:
        """Share of the last step that a step repeats."""
        ...

    @property
    def proximal_mu(self) -> float:
        """Strength of the pull back to the model that was sent."""
        ...

    @property
    def gradient_clip(self) -> float | None:
        """Largest L2 norm of a batch's gradient; None: no clipping."""
        ...

    @property
    def example_clip(self) -> float | None:
        """Largest L2 norm of one example's gradient; None: no clipping."""
        ...

    @property
    def example_noise(self) -> float:
        """Standard deviation of the noise on the sum of a batch's clipped gradients, in units of `example_clip`."""
        ...


@dataclass(frozen=True, slots=True)
class Contribution:
    """One upload, as far as its noise depends on it."""

    client: int
    """Number of the client, >= 0; -1: of nobody in particular."""
    samples: int
    """Training samples that it holds."""
    turn: int = 0
    """Tasks that it was given before."""
    epsilon: float | None = None
    """Budget of this upload where budgets differ between uploads; None: the scheme's own."""
    weight: float | None = None
    """What the server multiplied it with when it entered a model, the server's rate included; None: not known, and
    taken to be rate/n."""
    epochs: int | None = None
    """Passes over its samples that it made; None: all of a task."""
