"""DP-SGD on the client: each example's gradient clipped to C, noise on every step (Abadi et al. 2016).

The noise is drawn inside of training (`training.example_clip`, `training.example_noise`); this scheme says what it is
worth. Noise of standard deviation z C lies on the sum of a batch's clipped gradients. Each sample of a client is in
exactly one batch of an epoch, so one replaced sample changes one sum of it by at most 2 C: an epoch is one Gaussian
release of multiplier z/2, and a task of E epochs is E of them. What follows (step, momentum, the other batches, which
are noised as well) is post-processing. That is proven without any assumption about training, and without credit for
batches being drawn at random: shuffled batches are no Poisson sample.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from asyncfl.errors import Fault
from asyncfl.privacy.accounting.gaussian import analytic_multiplier, exact_epsilon, squared_mu_of
from asyncfl.privacy.context import Contribution, LocalTraining, PrivacyContext
from asyncfl.privacy.ranges import Delta, Factor
from asyncfl.privacy.scheme import Guarantee, Noise, Scheme
from asyncfl.privacy.schemes.none import NoPrivacy
from asyncfl.quantities import MeasuredIn

TOLERANCE = 1e-6  # relative, of a multiplier that was written down by hand


class DpSgd(Scheme):
    """Clipping of each example and noise on each step of the clients' training.

    Source: Abadi et al. 2016, algorithm 1.
    """

    kind: Literal["dp_sgd"] = "dp_sgd"
    alongside: ClassVar[Mapping[str, Any]] = {"training.example_clip": 1.0, "training.example_noise": 1.1}
    clip_norm: Annotated[Factor, MeasuredIn("L2 norm")] = 1.0
    """C: L2 norm that each example's gradient is clipped to; the same number as `training.example_clip`."""
    in_examples: ClassVar[tuple[str, ...]] = ("noise_multiplier",)
    noise_multiplier: Annotated[Factor | None, MeasuredIn("clip norms"), Field(examples=[1.1])] = None
    """z: noise on the sum of a batch over C; the same number as `training.example_noise`. Or give `epsilon`."""
    epsilon: Annotated[Factor, MeasuredIn("epsilon")] | None = None
    """Budget of one client that takes part in every version, instead of z: the multiplier that spends just that."""
    delta: Annotated[Delta, MeasuredIn("probability")] = 1e-5
    """Probability with which epsilon may be broken, 0..1, exclusive."""

    @model_validator(mode="after")
    def _check_noise(self) -> DpSgd:
        if (self.noise_multiplier is None) == (self.epsilon is None):
            got = "neither" if self.epsilon is None else "both"
            raise ValueError(f"give either noise_multiplier or epsilon, got {got}")
        return self

    def multiplier(self, epochs: int, rounds: int) -> float:
        """z, for tasks of `epochs` epochs in `rounds` versions where an epsilon is given."""
        if self.noise_multiplier is not None:
            return self.noise_multiplier
        return 2 * math.sqrt(epochs * rounds) * analytic_multiplier(self.epsilon or math.inf, self.delta)

    def faults(self, clients: int, rounds: int, training: LocalTraining | None) -> Iterator[Fault]:
        """The training must clip and noise as the scheme accounts for it."""
        if training is None:
            return
        if training.example_clip != self.clip_norm:
            message = f"must equal training.example_clip ({training.example_clip}), got {self.clip_norm:g}"
            yield Fault("clip_norm", f"{message}; the noise is in proportion to what examples are clipped to")
        z = self.multiplier(training.epochs, rounds)
        if not math.isclose(training.example_noise, z, rel_tol=TOLERANCE):
            field = "epsilon" if self.noise_multiplier is None else "noise_multiplier"
            message = f"needs training.example_noise: {z:.9g}, got {training.example_noise:g}"
            yield Fault(field, f"{message}; the noise is drawn in training")

    @property
    def accounts_for_training(self) -> bool:
        """All of it is."""
        return True

    def upload_noise(self, context: PrivacyContext, clip_norm: float | None, contribution: Contribution) -> Noise:
        """As many releases as epochs were done, each with the noise of a step, z C, on 2 C, a sum of a batch's
        gradients. Training has drawn it."""
        z, epochs = self.multiplier(context.epochs, context.rounds), context.epochs_of(contribution)
        epsilon = float(exact_epsilon(squared_mu_of(z / 2, epochs), self.delta))
        return Noise(z * self.clip_norm, 2 * self.clip_norm, epochs, epsilon=epsilon, in_training=True)

    def upload_guarantee(self, context: PrivacyContext, client: int | None = None) -> Guarantee:
        """(epsilon, delta) for an upload in each version, for one replaced sample."""
        z = self.multiplier(context.epochs, context.rounds)
        epsilon = float(exact_epsilon(squared_mu_of(z / 2, context.rounds * context.epochs), self.delta))
        return Guarantee("sample", "replace", "proven", epsilon, self.delta, context.rounds)

    def with_epsilon(self, epsilon: float, epochs: int, length: float) -> tuple[Scheme, dict[str, float]]:
        """z that is exact for one upload of so many epochs, in the training too."""
        if math.isinf(epsilon):
            return NoPrivacy(), {"example_noise": 0.0}
        z = 2 * math.sqrt(epochs) * analytic_multiplier(epsilon, self.delta)
        return self.model_copy(update={"noise_multiplier": z, "epsilon": None}), {"example_noise": z}

    def notes(self, context: PrivacyContext) -> list[str]:
        """What is counted."""
        return [
            f"each upload counts as {context.epochs} Gaussian release(s) of the sum of one batch; no credit is given "
            "for batches being drawn at random"
        ]
