"""What every privacy scheme answers: what is clipped, how much noise a client adds, how much the server adds.

A scheme draws nothing. It says standard deviations; the path of a task and the server draw the noise from
their own streams. One scheme serves all clients of a run, so per-client quantities come in as arguments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from asyncfl.component import Component

Payload = Literal["model", "update"]
Status = Literal["proven", "heuristic", "invalid", "none"]
"""What stands behind a sensitivity: a proof | an argument that does not hold for this training | a wrong
formula | no noise at all."""


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


@dataclass(frozen=True, slots=True)
class Guarantee:
    """What a scheme states about one kind of release."""

    neighbours: str
    """The data sets that are to be indistinguishable."""
    status: Status
    """How well the sensitivity is founded, see `Status`."""
    epsilon: float
    """Claimed epsilon for `releases` releases together; infinite where nothing is claimed."""
    delta: float
    """Claimed delta; 0 where nothing is claimed."""
    releases: int
    """Number of releases that the claim is made for."""


class Scheme(Component):
    """Says what is clipped and how much noise is added where."""

    payload: ClassVar[Payload] = "model"
    """What is clipped and noised: the uploaded model, or its difference from the model the client was sent."""

    @property
    def off(self) -> bool:
        """Whether nothing is clipped and nothing noised: such a run is the same as one without privacy."""
        return False

    def resolve_exposures(self, rounds: int, participants: int, clients: int) -> int | None:
        """L, the uploads of one client an eavesdropper is assumed to hold; None: measure it on the clock first.

        Raises ScenarioError where the assumption is impossible for that many rounds.
        """
        return 0

    def clip_norm_of(self, norms: NDArray[np.floating]) -> float | None:
        """L2 norm that payloads are clipped to; None: no clipping.

        `norms`: (n,) unclipped, finite L2 norms of the payloads of one aggregation, n >= 1.
        """
        return None

    def upload_std(self, context: PrivacyContext, clip_norm: float | None, samples: int) -> float:
        """Standard deviation of the noise on each parameter of one upload, >= 0.

        `clip_norm`: what `clip_norm_of` returned; `samples`: number of samples of this client.
        """
        return 0.0

    def server_std(self, context: PrivacyContext, clip_norm: float | None) -> float:
        """Standard deviation of the noise that the server adds to each parameter before it publishes, >= 0."""
        return 0.0

    def upload_sensitivity(self, context: PrivacyContext, clip_norm: float | None, samples: int) -> float:
        """L2 sensitivity of one upload that the scheme calibrates to; infinite where it has none."""
        return np.inf

    def model_sensitivity(self, context: PrivacyContext, clip_norm: float | None) -> float:
        """L2 sensitivity of one published model that the scheme calibrates to; infinite where it has none."""
        return np.inf

    def upload_guarantee(self, context: PrivacyContext) -> Guarantee | None:
        """What the scheme states about uploads; None: nothing."""
        return None

    def model_guarantee(self, context: PrivacyContext) -> Guarantee | None:
        """What the scheme states about published models; None: nothing."""
        return None

    def notes(self, context: PrivacyContext, n_parameters: int) -> list[str]:
        """Sentences that a reader of the run's results must see: what is assumed, what does not hold."""
        return []
