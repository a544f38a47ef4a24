"""Noise mechanisms on the client, on the server, or on both, each with a budget of its own.

A payload clipped to S changes by at most 2 S if its client's data are replaced. That is proven, for models and for
updates. In a version the change is 2 S times the total weight of the client's updates (`noise.client_weights`): in a
mean of n updates of n clients 2 S/n (times the server learning rate), which the source forgets. The server's noise is
calibrated to the client that weighs most. If the gradients of batches are clipped instead, the trained model is
unbounded; then 2 S/|D_i|, the change of one mean gradient when one sample is replaced, is heuristic.

A mechanism calibrated to a wrong sensitivity (`Mechanism.miscalibrated`) adds the noise for that sensitivity.
Accountants use the true one, so their epsilons say what the noise achieves, infinite where no true sensitivity is
proven.

The two budgets concern two adversaries. An adversary that sees uploads has the client's budget. An adversary that sees
published models has the server's, or together with the uploads at most the sum of both per version. The source states
that sum for the whole run, but it grows with the number of versions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from asyncfl.base.component import Described, choice
from asyncfl.base.errors import Fault
from asyncfl.base.quantities import MeasuredIn
from asyncfl.privacy.accounting.composition import ClassicalRelease
from asyncfl.privacy.context import Contribution, LocalTraining, PrivacyContext
from asyncfl.privacy.noise.client_weights import UNEVEN_WEIGHTS, client_sensitivities, planned_contributions
from asyncfl.privacy.ranges import Factor
from asyncfl.privacy.release import Status, Unit
from asyncfl.privacy.scheme import (
    ClipTarget,
    FixedNorm,
    Guarantee,
    ModelNoise,
    Noise,
    Scheme,
    State,
    model_without_noise,
)
from asyncfl.privacy.schemes.mechanisms.noises import GaussianNoise, LaplaceNoise, Mechanism
from asyncfl.privacy.sgd_sensitivity import clipped_sgd_sensitivity

AnyMechanism: Any = choice(Mechanism, GaussianNoise, LaplaceNoise)
"""Type of a field that holds a mechanism, chosen by `kind`."""


class Clip(Described):
    """The vector that is clipped, and its largest norm."""

    target: Literal["model", "update", "gradient"] = "update"
    """Clipped vector: the uploaded model | its difference from the model that the client was sent | the gradient of
    each batch, through `training.gradient_clip`."""
    norm: Annotated[Factor, MeasuredIn("norm")] = 1.0
    """S: largest norm."""
    order: Literal[1, 2] | None = None
    """L1 or L2 norm; null: the norm that the mechanisms need, L2 if both work."""

    @model_validator(mode="after")
    def _check_order(self) -> Clip:
        if self.target == "gradient" and self.order == 1:
            raise ValueError("order: 1 is for target model or update; gradients are clipped in L2")
        return self


class Mechanisms(Scheme):
    """Gaussian or Laplace noise on uploads, on published models, or on both.

    Source: Dwork and Roth 2014, definition 3.3 and theorem A.1.
    """

    kind: Literal["mechanisms"] = "mechanisms"
    clip: Clip = Clip()
    """Clipped vector and clip norm."""
    in_examples: ClassVar[tuple[str, ...]] = ("client",)
    client: AnyMechanism | None = Field(default=None, examples=[{"kind": "gaussian", "epsilon": 10.0}])
    """Noise on each upload; null: none."""
    server: AnyMechanism | None = None
    """Noise on each published model; null: none."""

    @model_validator(mode="after")
    def _check_mechanisms(self) -> Mechanisms:
        if self.client is None and self.server is None:
            raise ValueError("client or server must be given: without both there is no mechanism")
        for name, mechanism in self._mechanisms():
            if self._order not in mechanism.clip_orders():
                raise ValueError(f"{name}: {self._in_the_wrong_norm(mechanism)}")
        return self

    def _in_the_wrong_norm(self, mechanism: Any) -> str:
        which = f"{mechanism.kind} ({mechanism.reading})" if mechanism.reading else mechanism.kind
        needed = mechanism.clip_orders()[0]
        if self.clip.target == "gradient":
            return (
                f"{which} needs a clip in L{needed}, which clip.target: gradient does not give: gradients are clipped "
                "in L2; use clip.target: update or model"
            )
        return f"{which} needs clip.order {needed}, got {self._order}"

    def _mechanisms(self) -> Iterator[tuple[str, Any]]:
        both = (("client", self.client), ("server", self.server))
        yield from ((name, one) for name, one in both if one is not None)

    # --- clipping --------------------------------------------------------------------------------------------------

    @property
    def clip_target(self) -> ClipTarget:
        """The update or the model, in the norm of `clip.order` or the norm that the mechanisms need. With clipped
        gradients, models are uploaded unclipped."""
        return ClipTarget("update" if self.clip.target == "update" else "model", self._order)

    @property
    def bounds_uploads(self) -> bool:
        """Whether models or updates are clipped and some noise is added."""
        return self.clip.target != "gradient" and not all(math.isinf(one.epsilon) for _, one in self._mechanisms())

    @property
    def _order(self) -> Literal[1, 2]:
        if self.clip.order is not None:
            return self.clip.order
        needs_l1 = any(one.clip_orders() == (1,) for _, one in self._mechanisms())
        return 1 if needs_l1 and self.clip.target != "gradient" else 2

    def start(self, context: PrivacyContext) -> State:
        """Create the state with the clip norm S, or without one if gradients are clipped."""
        return FixedNorm(None if self.clip.target == "gradient" else self.clip.norm)

    def faults(self, clients: int, rounds: int, training: LocalTraining | None) -> Iterator[Fault]:
        """Yield a fault if `clip.target: gradient` and `training.gradient_clip` disagree."""
        if training is not None and self.clip.target == "gradient" and training.gradient_clip != self.clip.norm:
            message = f"must equal training.gradient_clip ({training.gradient_clip}), got {self.clip.norm:g}"
            yield Fault("clip.norm", f"{message}; with clip.target: gradient the training does the clipping")

    # --- noise -----------------------------------------------------------------------------------------------------

    def _distance(self, samples: int) -> float:
        """Return the largest distance between payloads of neighbouring data sets, in the norm of the clipping."""
        return 2 * self.clip.norm / (samples if self.clip.target == "gradient" else 1)

    def upload_noise(self, context: PrivacyContext, clip_norm: float | None, contribution: Contribution) -> Noise:
        """Return the noise of the client's mechanism for a distance of 2 S in its norm; none without a client
        mechanism."""
        if self.client is None:
            return Noise(0.0)
        distance = self._distance(contribution.samples)
        std = float(self.client.std(self.client.sensitivity(distance, context.n_parameters), context.rounds))
        sensitivity = self._accounted(self.client, distance, context, proven=True)
        return Noise(std, sensitivity, distribution=self.client.distribution)

    def _accounted(self, mechanism: Any, distance: float, context: PrivacyContext, proven: bool) -> float:
        """Return the sensitivity that accountants use. `proven`: whether `distance` is a proven bound given the
        clipping. A heuristic distance cannot repair an invalid calibration, so the result is then infinite."""
        if mechanism.miscalibrated and not (proven and self.clip.target != "gradient"):
            return math.inf
        return float(mechanism.true_sensitivity(distance, context.n_parameters))

    def proven_sensitivity(self, context: PrivacyContext, clip_norm: float | None, contribution: Contribution) -> float:
        """Return 2 S for clipped payloads, and 2 lr S per step for clipped gradients."""
        if self.client is None or (self.client.miscalibrated and self.clip.target == "gradient"):
            return math.inf
        if self.clip.target == "gradient":
            distance = clipped_sgd_sensitivity(context, self.clip.norm, contribution.samples)
        else:
            distance = 2 * self.clip.norm
        return float(self.client.true_sensitivity(distance, context.n_parameters))

    def model_noise(
        self, context: PrivacyContext, clip_norm: float | None, contributions: Sequence[Contribution] = ()
    ) -> ModelNoise:
        """Return the noise of the server's mechanism, calibrated to the client that weighs most (the source's reading
        ignores weights); none without a server mechanism.

        The sensitivity of a client is 2 S times the total weight of its updates, in the mechanism's norm.
        """
        if self.server is None:
            return model_without_noise(context, contributions)
        entered = contributions or planned_contributions(context)
        distances = self._distances(context, entered)
        if self.server.divides_by_n:
            distance = max(distances.values())
        else:
            distance = context.rate * self._distance(min(one.samples for one in entered))
        std = float(self.server.std(self.server.sensitivity(distance, context.n_parameters), context.rounds))
        sensitivities = {
            client: self._accounted(self.server, own, context, context.equal_weights)
            for client, own in distances.items()
        }
        return ModelNoise(std, sensitivities, self.server.distribution)

    def model_multiplier(self, context: PrivacyContext) -> float | None:
        """Return the multiplier of the server's mechanism, which is calibrated to the client that weighs most; None if
        it ignores weights."""
        if self.server is None or not self.server.divides_by_n or math.isinf(self.server.epsilon):
            return None
        made = self.model_noise(context, None)
        scale = made.std if made.distribution == "gaussian" else made.std / math.sqrt(2)
        return scale / made.sensitivity

    def _distances(self, context: PrivacyContext, contributions: Sequence[Contribution]) -> dict[int, float]:
        """Return, for each client, the largest change of the model between neighbouring data sets in the norm of the
        clipping."""
        return client_sensitivities(context, contributions, lambda one: self._distance(one.samples))

    # --- claims ------------------------------------------------------------------------------------------

    def _guarantee(self, mechanism: Any, context: PrivacyContext, proven: bool) -> Guarantee | None:
        if mechanism is None or math.isinf(mechanism.epsilon):
            return None
        status: Status = mechanism.status(context.rounds)
        if status == "proven" and not (proven and self.clip.target != "gradient"):
            status = "heuristic"
        unit: Unit = "sample" if self.clip.target == "gradient" else "client"
        releases = mechanism.count(context.rounds)
        return Guarantee(unit, "replace", status, mechanism.epsilon, mechanism.stated_delta, releases)

    def upload_guarantee(self, context: PrivacyContext, client: int | None = None) -> Guarantee | None:
        """Return the claim of the client's mechanism; None without noise."""
        return self._guarantee(self.client, context, proven=True)

    def model_guarantee(self, context: PrivacyContext) -> Guarantee | None:
        """Return the claim of the server's mechanism; None without noise."""
        return self._guarantee(self.server, context, proven=context.equal_weights)

    def classical(self, context: PrivacyContext, epsilon: float, of_models: bool = False) -> ClassicalRelease | None:
        """Return the calibration of one release of the client's, or (`of_models`) the server's, mechanism if it is
        classical."""
        mechanism: Mechanism | None = self.server if of_models else self.client
        return None if mechanism is None else mechanism.classical(context.rounds)

    def with_epsilon(self, epsilon: float, epochs: int, length: float) -> tuple[Scheme, dict[str, float]]:
        """Return the scheme whose client mechanism has the budget `epsilon`, with the same composition; no training
        field changes."""
        if math.isinf(epsilon):
            return self.model_copy(update={"client": None}), {}
        if self.client is None:
            raise ValueError("privacy.client is null: clients add no noise that an epsilon could set")
        return self.model_copy(update={"client": self.client.model_copy(update={"epsilon": epsilon})}), {}

    def notes(self, context: PrivacyContext) -> list[str]:
        """Return sentences on claims that do not hold, for each mechanism by name."""
        notes = []
        for name, mechanism in self._mechanisms():
            if not math.isinf(mechanism.epsilon):
                notes += mechanism.notes(f"privacy.{name}", context.rounds)
        if notes or not all(math.isinf(one.epsilon) for _, one in self._mechanisms()):
            notes += self._clip_notes(context)
        return notes

    def _clip_notes(self, context: PrivacyContext) -> list[str]:
        notes = []
        if self.clip.target == "gradient":
            notes.append(
                "sensitivity 2S/|D_i| is heuristic: it holds for one mean gradient, not for a model after many steps; "
                "clip.target: update is proven"
            )
        if self.server is not None and not context.equal_weights:
            notes.append(f"privacy.server: {UNEVEN_WEIGHTS}; the sensitivity of published models is heuristic")
        if self.client is not None and self.server is not None and context.rounds > 1:
            notes.append(
                "epsilon of client and server together is stated for one version; it grows with the number of "
                "versions, see the ledger"
            )
        return notes
