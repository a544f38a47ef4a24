"""Gaussian noise on every upload, calibrated to the clipped gradient: the local privacy of SAFL.

The client trains with gradients clipped to C and adds noise once per upload, sigma = c Delta/epsilon with Delta =
2C/|D_i|. Source: SAFL, algorithm 2, equations 4 and 5. An index in the algorithm suggests one draw per epoch (`noise:
epoch`), but the noise is calibrated for one draw per upload, and so is the claim. An upload with several draws may
exceed its claim (a flag says so) and is accounted for with all of them. The sensitivity is that of one mean of clipped
gradients of single samples: it is proven for the printed client (`training.gradient_step: printed`) with one epoch and
lr <= 1, since its step moves by at most lr Delta if one sample is replaced. After several epochs, or a step per batch,
which is our reading, it is heuristic. The server adds no noise. Over T versions the source claims (T epsilon, T delta).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from asyncfl.base.errors import Fault
from asyncfl.base.quantities import MeasuredIn
from asyncfl.learning.training import Training
from asyncfl.privacy.accounting.calibrate import ClassicalRelease, noise_multiplier
from asyncfl.privacy.accounting.gaussian import exact_epsilon, squared_mu_of
from asyncfl.privacy.client_weights import clipped_sgd_sensitivity
from asyncfl.privacy.flags import OVERDRAWN
from asyncfl.privacy.ranges import Budget, Delta, Factor
from asyncfl.privacy.release import Contribution, PrivacyContext, Status
from asyncfl.privacy.scheme import Guarantee, Noise, Scheme


class GaussianUpload(Scheme):
    """Gaussian noise on each upload, in proportion to the gradient clip norm and to 1/|D_i|."""

    kind: Literal["local_gaussian"] = "local_gaussian"
    alongside: ClassVar[Mapping[str, Any]] = {"training.gradient_clip": 1.0}
    epsilon: Annotated[Budget, MeasuredIn("epsilon"), Field(examples=[6.0])]
    """Privacy budget of each upload or of the run (`budget`); .inf: no noise. Source: SAFL, equation 5."""
    delta: Annotated[Delta, MeasuredIn("probability")] = 1e-5
    """Probability with which the budget may be broken, 0..1, exclusive."""
    clip_norm: Annotated[Factor, MeasuredIn("L2 norm")] = 1.0
    """C: L2 norm that gradients are clipped to in training; must equal `training.gradient_clip`. Source: SAFL,
    algorithm 2, line 4."""
    constant: Annotated[Factor, MeasuredIn("factor")] = 1.0
    """Factor on c1 = sqrt(2 ln(1.25/delta))."""
    budget: Literal["upload", "total"] = "upload"
    """epsilon for each upload, as in equation 5, so that T versions cost (T epsilon, T delta) | for all T versions
    together, epsilon/T each, as the captions of SAFL's figures 3 and 4 may be read (global budget). The second is not
    the default because nothing can be learnt with T times the noise."""
    noise: Literal["upload", "epoch"] = "upload"
    """One draw on each upload | one draw after each local epoch, from which the next epoch continues. Both are the same
    with one epoch per task. Source: SAFL, equation 5."""

    @property
    def noise_each_epoch(self) -> bool:
        return self.noise == "epoch" and not self.off

    @property
    def clips_gradients(self) -> bool:
        return not self.off

    @property
    def off(self) -> bool:
        return math.isinf(self.epsilon)

    def faults(self, clients: int, rounds: int, training: Training | None) -> Iterator[Fault]:
        if training is None:
            return
        if not self.off and training.gradient_clip != self.clip_norm:
            message = f"must equal training.gradient_clip ({training.gradient_clip}), got {self.clip_norm:g}"
            yield Fault("clip_norm", f"{message}; the noise is calibrated to this norm")
        if self.noise_each_epoch and (training.momentum or training.proximal_mu):
            got = f"momentum {training.momentum:g} and proximal_mu {training.proximal_mu:g}"
            yield Fault(
                "noise",
                f"epoch continues from a noised model without momentum or proximal term; both must be 0, got {got}",
            )

    def _releases(self, context: PrivacyContext) -> int:
        return 1 if self.budget == "upload" else context.rounds  # uploads that epsilon covers

    def _multiplier(self, context: PrivacyContext) -> float:
        return noise_multiplier(self._releases(context), self.epsilon, self.delta, self.constant)

    def _overdrawn(self, context: PrivacyContext) -> bool:
        """Return whether the uploads that epsilon covers exceed it because each epoch adds noise."""
        draws = self._releases(context) * context.epochs
        several = self.noise_each_epoch and context.epochs > 1
        return (
            several and float(exact_epsilon(squared_mu_of(self._multiplier(context), draws), self.delta)) > self.epsilon
        )

    def upload_noise(self, context: PrivacyContext, clip_norm: float | None, contribution: Contribution) -> Noise:
        """Return noise of standard deviation c 2C/(samples epsilon) for the sensitivity 2C/samples, once or in each
        epoch."""
        if self.off:
            return Noise(0.0)
        sensitivity = 2 * self.clip_norm / contribution.samples
        std = self._multiplier(context) * 2 * self.clip_norm / contribution.samples
        return Noise(std, sensitivity, context.epochs_of(contribution) if self.noise_each_epoch else 1)

    def _is_proven(self, context: PrivacyContext) -> bool:
        """Whether the noise follows a single step on the mean of clipped gradients of all samples, with lr <= 1."""
        one_step = context.clips_samples and (context.epochs == 1 or self.noise_each_epoch)
        return one_step and context.plain_sgd and context.lr <= 1

    def proven_sensitivity(self, context: PrivacyContext, clip_norm: float | None, contribution: Contribution) -> float:
        """Return `clipped_sgd_sensitivity` of the steps before a draw of noise."""
        epochs = 1 if self.noise_each_epoch else context.epochs_of(contribution)
        return clipped_sgd_sensitivity(context, self.clip_norm, contribution.samples, epochs)

    def upload_guarantee(self, context: PrivacyContext, client: int | None = None) -> Guarantee | None:
        """Return (epsilon, delta) for one or T uploads and one replaced sample, also if each epoch draws noise."""
        if self.off:
            return None
        status: Status = "proven" if self._is_proven(context) else "heuristic"
        return Guarantee("sample", "replace", status, self.epsilon, self.delta, self._releases(context))

    def flags(self, context: PrivacyContext, epsilon: float, of_models: bool = False) -> list[str]:
        return [OVERDRAWN] if self._overdrawn(context) else []

    def classical(self, context: PrivacyContext, epsilon: float, of_models: bool = False) -> ClassicalRelease:
        return ClassicalRelease(epsilon, self.delta, self.constant)

    def notes(self, context: PrivacyContext) -> list[str]:
        if self.off or self.budget == "total":
            return []
        return [f"epsilon {self.epsilon:g} is spent on every upload; the ledger shows the total of each client"]
