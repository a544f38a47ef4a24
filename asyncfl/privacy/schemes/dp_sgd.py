"""DP-SGD on the client: gradients clipped per example to C, and noise on every step (Abadi et al. 2016).

The noise is drawn during training (`training.example_clip`, `training.example_noise`); this scheme accounts for it.
Noise of standard deviation z C is added to the sum of a batch's clipped gradients. Each sample of a client is in
exactly one batch of an epoch, so one replaced sample changes one sum per epoch, by at most 2 C. An epoch is therefore
one Gaussian release with multiplier z/2, and a task of E epochs is E releases; with `training.steps` an epoch counts
where it is begun. Everything after that (the step,
momentum, the other noised batches) is post-processing. The guarantee is proven without assumptions about training and
without amplification by subsampling: shuffled batches are not a Poisson sample.

With `training.batches: poisson` each sample enters each of a task's steps with probability q = batch_size / samples, on
its own and in secret. A task is then one Poisson-sampled Gaussian release for each step, with multiplier z and rate q,
for neighbours of which one sample counts as zero (`zero_out`; the epsilon is that of an added or removed sample). The
claim is by Renyi accounting (Mironov, Talwar, Zhang 2019), as in Opacus and TensorFlow Privacy.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from asyncfl.base.errors import Fault
from asyncfl.base.quantities import MeasuredIn
from asyncfl.learning.training import Training
from asyncfl.privacy.accounting.accountants import renyi_epsilon
from asyncfl.privacy.accounting.gaussian import analytic_multiplier, exact_epsilon, squared_mu_of
from asyncfl.privacy.accounting.mechanism_events import MechanismEvent
from asyncfl.privacy.ranges import Delta, Factor
from asyncfl.privacy.release import Contribution, PrivacyContext
from asyncfl.privacy.scheme import Guarantee, Noise, Scheme
from asyncfl.privacy.schemes.none import NoPrivacy

TOLERANCE = 1e-6  # relative, for a multiplier typed by hand


class DpSgd(Scheme):
    """Per-example clipping and noise on each step of the clients' training.

    Source: Abadi et al. 2016, algorithm 1.
    """

    kind: Literal["dp_sgd"] = "dp_sgd"
    accounts_for_training: ClassVar[bool] = True
    alongside: ClassVar[Mapping[str, Any]] = {"training.example_clip": 1.0, "training.example_noise": 1.1}
    clip_norm: Annotated[Factor, MeasuredIn("L2 norm")] = 1.0
    """C: L2 norm that the gradient of each example is clipped to; must equal `training.example_clip`."""
    in_examples: ClassVar[tuple[str, ...]] = ("noise_multiplier",)
    noise_multiplier: Annotated[Factor | None, MeasuredIn("clip norms"), Field(examples=[1.1])] = None
    """z: standard deviation of the noise on the sum of a batch divided by C; must equal `training.example_noise`. Give
    either this or `epsilon`."""
    epsilon: Annotated[Factor, MeasuredIn("epsilon")] | None = None
    """Budget of a client that takes part in every version; the multiplier that spends exactly this is used. Give either
    this or `noise_multiplier`."""
    delta: Annotated[Delta, MeasuredIn("probability")] = 1e-5
    """Probability with which epsilon may be broken, 0..1, exclusive."""

    @model_validator(mode="after")
    def _check_noise(self) -> DpSgd:
        if (self.noise_multiplier is None) == (self.epsilon is None):
            got = "neither" if self.epsilon is None else "both"
            raise ValueError(f"give either noise_multiplier or epsilon, got {got}")
        return self

    def multiplier(self, epochs: int, rounds: int) -> float:
        """Return z; if an epsilon is given, the z that spends it in `rounds` tasks of `epochs` epochs."""
        if self.noise_multiplier is not None:
            return self.noise_multiplier
        return 2 * math.sqrt(epochs * rounds) * analytic_multiplier(self.epsilon or math.inf, self.delta)

    def faults(self, clients: int, rounds: int, training: Training | None) -> Iterator[Fault]:
        if training is None:
            return
        if training.example_clip != self.clip_norm:
            message = f"must equal training.example_clip ({training.example_clip}), got {self.clip_norm:g}"
            yield Fault("clip_norm", f"{message}; the noise is proportional to this norm")
        if training.batches == "poisson" and self.epsilon is not None:
            message = f"must be null with training.batches: poisson, got {self.epsilon:g}; give noise_multiplier"
            yield Fault("epsilon", f"{message} (`asyncfl privacy noise --sampling-rate` finds it)")
            return
        if training.steps is not None and self.epsilon is not None:
            message = f"must be null with training.steps, got {self.epsilon:g}; give noise_multiplier"
            yield Fault("epsilon", f"{message}: how often a sample is used depends on the size of the client")
            return
        z = self.multiplier(training.epochs, rounds)
        if not math.isclose(training.example_noise, z, rel_tol=TOLERANCE):
            field = "epsilon" if self.noise_multiplier is None else "noise_multiplier"
            message = f"needs training.example_noise: {z:.9g}, got {training.example_noise:g}"
            yield Fault(field, f"{message}; the noise is drawn during training")

    def upload_noise(self, context: PrivacyContext, clip_norm: float | None, contribution: Contribution) -> Noise:
        """Return one release per epoch, each with noise z C for the sensitivity 2 C of a batch's sum of gradients; with
        Poisson batches one per step, for the sensitivity C."""
        z, epochs = self.multiplier(context.epochs, context.rounds), context.epochs_of(contribution)
        if context.poisson_sizes:
            event = self._sampled(context, contribution.samples, context.steps_of(contribution.samples, epochs))
            claim = renyi_epsilon([event], self.delta)
            std = z * self.clip_norm
            return Noise(std, self.clip_norm, event.count, epsilon=claim, in_training=True, rate=event.rate)
        epsilon = float(exact_epsilon(squared_mu_of(z / 2, epochs), self.delta))
        return Noise(z * self.clip_norm, 2 * self.clip_norm, epochs, epsilon=epsilon, in_training=True)

    def upload_guarantee(self, context: PrivacyContext, client: int | None = None) -> Guarantee:
        """Return (epsilon, delta) for one upload in each version and one replaced sample; with Poisson batches for one
        sample that counts as zero, of the client for which it is largest."""
        if context.poisson_sizes:
            # Of the clients with as many steps, the one with the fewest samples draws each of them most often.
            fewest = {-(-size // context.batch_size): size for size in sorted(context.poisson_sizes, reverse=True)}
            rounds = context.rounds
            events = (self._sampled(context, size, rounds * context.steps_of(size)) for size in fewest.values())
            largest = max(renyi_epsilon([event], self.delta) or 0.0 for event in events)
            return Guarantee("sample", "zero_out", "proven", largest, self.delta, context.rounds)
        z = self.multiplier(context.epochs, context.rounds)
        epsilon = float(exact_epsilon(squared_mu_of(z / 2, context.rounds * context.epochs), self.delta))
        return Guarantee("sample", "replace", "proven", epsilon, self.delta, context.rounds)

    def _sampled(self, context: PrivacyContext, samples: int, steps: int) -> MechanismEvent:
        """Return so many steps on Poisson batches as releases."""
        batch = min(context.batch_size, samples)
        z = self.multiplier(context.epochs, context.rounds)
        return MechanismEvent("gaussian", z, steps, batch / samples)

    def with_epsilon(self, epsilon: float, epochs: int, length: float) -> tuple[Scheme, dict[str, float]]:
        """Return the scheme with the z that is exact for one upload of `epochs` epochs, and set the same z in the
        training."""
        if math.isinf(epsilon):
            return NoPrivacy(), {"example_noise": 0.0}
        z = 2 * math.sqrt(epochs) * analytic_multiplier(epsilon, self.delta)
        return self.model_copy(update={"noise_multiplier": z, "epsilon": None}), {"example_noise": z}

    def notes(self, context: PrivacyContext) -> list[str]:
        if context.poisson_sizes:
            return [
                "each step on a Poisson batch counts as one sampled Gaussian release, for neighbours of which one "
                "sample counts as zero; the credit needs batches that no adversary knows"
            ]
        if context.steps is not None:
            return [
                f"each upload of {context.steps} steps counts as one Gaussian release of the sum of one batch for each "
                "epoch that it begins; random batches get no amplification credit"
            ]
        return [
            f"each upload counts as {context.epochs} Gaussian release(s) of the sum of one batch; random batches "
            "get no amplification credit"
        ]
