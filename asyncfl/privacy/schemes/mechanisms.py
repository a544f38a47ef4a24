"""Gaussian or Laplace mechanisms on the client, on the server, or on both, each with a budget of its own.

A payload clipped to S changes by at most 2 S if its client's data are replaced, a version by 2 S times the total weight
of the client's updates (`client_weights`): both proven. If the gradients of batches are clipped instead, the trained
model is unbounded; then 2 S/|D_i|, the change of one mean gradient when one sample is replaced, is heuristic.

Laplace noise of scale b on a value with L1 sensitivity D is (D/b)-private. The source uses it with the L2 norm, without
the factor 2 of a replaced client and the 1/n of a mean (`seed_literal`), although the L1 norm of d numbers may be
sqrt(d) times their L2 norm: such a mechanism adds the noise for the wrong sensitivity, and accountants use the true
one, or an infinite epsilon where none is proven.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from asyncfl.base.component import Component, Described, choice
from asyncfl.base.errors import Fault
from asyncfl.base.quantities import MeasuredIn
from asyncfl.learning.training import Training
from asyncfl.privacy.accounting.calibrate import (
    Calibration,
    ClassicalRelease,
    Sharing,
    classical_share,
    noise_multiplier,
)
from asyncfl.privacy.client_weights import (
    UNEVEN_WEIGHTS,
    client_sensitivities,
    clipped_sgd_sensitivity,
    planned_contributions,
)
from asyncfl.privacy.ranges import LEAST, Budget, Delta, Factor, within
from asyncfl.privacy.release import Contribution, Distribution, PrivacyContext
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


class Mechanism(Component):
    """A rule for the noise that a clipped value needs."""

    distribution: ClassVar[Distribution]
    logged: ClassVar[tuple[str, ...]] = (
        "rounds.sigma_u",
        "rounds.sigma_d",
        "ledger.distribution",
        "ledger.noise_multiplier",
    )

    epsilon: Annotated[Budget, MeasuredIn("epsilon"), Field(examples=[10.0])]
    """Privacy budget of `releases` releases together; .inf: no noise."""
    composition: Sharing = "naive_delta_split"
    """Rule by which the releases share the budget; readings in `asyncfl.privacy.accounting.calibrate`."""
    releases: Annotated[Annotated[int, Field(ge=1)] | Literal["rounds"], MeasuredIn("releases")] = 1
    """Number of releases that share the budget: 1 (each release has its own budget), a number, or `rounds` (one per
    version)."""

    def count(self, rounds: int) -> int:
        """Return the number of releases that share the budget in a run of `rounds` versions."""
        return rounds if self.releases == "rounds" else self.releases

    @property
    def stated_delta(self) -> float:
        """delta of the claim; 0: a pure claim."""
        raise NotImplementedError

    @property
    def miscalibrated(self) -> bool:
        """Whether the noise is calibrated to a sensitivity below the true one: weights of updates are then ignored, and
        the claim is invalid."""
        return False

    def clip_orders(self) -> tuple[int, ...]:
        """Return the norms (1 or 2) in which the value may have been clipped."""
        raise NotImplementedError

    def sensitivity(self, distance: float, n_parameters: int) -> float:
        """Return the sensitivity that the noise is calibrated to, if payloads of neighbours differ by `distance` in the
        clipped norm and have `n_parameters` numbers."""
        raise NotImplementedError

    def true_sensitivity(self, distance: float, n_parameters: int) -> float:
        """Return the sensitivity for which the claim would hold; differs from `sensitivity` only if `miscalibrated`."""
        return self.sensitivity(distance, n_parameters)

    def std(self, sensitivity: float, rounds: int) -> float:
        """Return the standard deviation of the noise on each parameter for this `sensitivity`."""
        raise NotImplementedError

    def classical(self, rounds: int) -> ClassicalRelease | None:
        """Return the calibration of one release if it is classical; otherwise None."""
        return None


class GaussianNoise(Mechanism):
    """Gaussian noise in proportion to the L2 sensitivity.

    Source: Dwork and Roth 2014, theorem A.1; Balle and Wang 2018, theorem 8 (analytic).
    """

    kind: Literal["gaussian"] = "gaussian"
    distribution: ClassVar[Distribution] = "gaussian"
    delta: Annotated[Delta, MeasuredIn("probability")] = 1e-5
    """Probability with which the budget may be broken, 0..1, exclusive; shared among releases like epsilon."""
    calibration: Calibration = "analytic"
    """Calibration of one release: exact (Balle, Wang 2018), or sqrt(2 ln(1.25/delta))/epsilon, which is proven for
    epsilon < 1, holds somewhat beyond, and then fails."""

    @model_validator(mode="after")
    def _check_calibration(self) -> GaussianNoise:
        if self.calibration == "classical" and self.composition in ("analytic", "rdp"):
            raise ValueError(
                f"calibration: classical has no meaning with composition: {self.composition}, which calibrates all "
                "releases together; use composition naive_delta_split or advanced, or calibration: analytic"
            )
        return self

    @property
    def stated_delta(self) -> float:
        return self.delta

    def clip_orders(self) -> tuple[int, ...]:
        return (1, 2)  # an L1 norm is never smaller than the L2 norm

    def sensitivity(self, distance: float, n_parameters: int) -> float:
        return distance

    def std(self, sensitivity: float, rounds: int) -> float:
        n, how = self.count(rounds), self.composition
        return sensitivity * noise_multiplier(
            n, self.epsilon, self.delta, composition=how, calibration=self.calibration
        )

    def classical(self, rounds: int) -> ClassicalRelease | None:
        if self.calibration != "classical" or math.isinf(self.epsilon):
            return None
        return classical_share(self.count(rounds), self.epsilon, self.delta, self.composition)


class LaplaceNoise(Mechanism):
    """Laplace noise in proportion to the L1 sensitivity, without a delta unless its composition needs one.

    Source: Dwork and Roth 2014, definition 3.3.
    """

    kind: Literal["laplace"] = "laplace"
    distribution: ClassVar[Distribution] = "laplace"
    delta: Annotated[float, Field(ge=0, lt=1), within(LEAST, 1, zero=True), MeasuredIn("probability")] = 0.0
    """Probability with which the budget may be broken, 0..1; above 0 unless the composition is `naive_delta_split`."""
    sensitivity_from: Literal["l1", "from_l2", "seed_literal"] = "l1"
    """Origin of the L1 sensitivity: an L1 clip | an L2 clip times sqrt(parameters), far more noise | the L2 norm itself
    as in the source, which is not private and therefore not the default."""

    @model_validator(mode="after")
    def _check_delta(self) -> LaplaceNoise:
        if self.composition != "naive_delta_split" and self.delta == 0:
            raise ValueError(
                f"composition: {self.composition} needs delta > 0, got 0; set delta or use naive_delta_split"
            )
        return self

    @property
    def stated_delta(self) -> float:
        return 0.0 if self.composition == "naive_delta_split" else self.delta

    @property
    def miscalibrated(self) -> bool:
        return self.sensitivity_from == "seed_literal"

    def clip_orders(self) -> tuple[int, ...]:
        return (1,) if self.sensitivity_from == "l1" else (2,)

    def sensitivity(self, distance: float, n_parameters: int) -> float:
        # The source's reading takes the clip norm, half of the distance.
        return distance / 2 if self.miscalibrated else self.true_sensitivity(distance, n_parameters)

    def true_sensitivity(self, distance: float, n_parameters: int) -> float:
        return distance if self.sensitivity_from == "l1" else distance * math.sqrt(n_parameters)

    def std(self, sensitivity: float, rounds: int) -> float:
        n, how = self.count(rounds), self.composition
        scale = noise_multiplier(n, self.epsilon, self.delta, composition=how, mechanism="laplace")
        return math.sqrt(2) * scale * sensitivity


AnyMechanism: Any = choice(Mechanism, GaussianNoise, LaplaceNoise)


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
        if not self._mechanisms:
            raise ValueError("client or server must be given: without both there is no mechanism")
        for name, one in self._mechanisms.items():
            needed = one.clip_orders()
            if self._order not in needed:
                which = f"{name}: {one.kind}"
                if isinstance(one, LaplaceNoise):
                    which += f" (sensitivity_from: {one.sensitivity_from})"
                if self.clip.target != "gradient":
                    raise ValueError(f"{which} needs clip.order {needed[0]}, got {self._order}")
                raise ValueError(
                    f"{which} needs a clip in L{needed[0]}, which clip.target: gradient does not give: gradients are "
                    "clipped in L2; use clip.target: update or model"
                )
        return self

    @property
    def _mechanisms(self) -> dict[str, Any]:
        both = {"client": self.client, "server": self.server}
        return {name: one for name, one in both.items() if one is not None}

    @property
    def clips_gradients(self) -> bool:
        return self.clip.target == "gradient"

    @property
    def clip_target(self) -> ClipTarget:
        # With clipped gradients, models are uploaded unclipped.
        return ClipTarget("update" if self.clip.target == "update" else "model", self._order)

    @property
    def bounds_uploads(self) -> bool:
        return not self.clips_gradients and not all(math.isinf(one.epsilon) for one in self._mechanisms.values())

    @property
    def _order(self) -> Literal[1, 2]:
        if self.clip.order is not None:
            return self.clip.order
        needs_l1 = any(one.clip_orders() == (1,) for one in self._mechanisms.values())
        return 1 if needs_l1 and not self.clips_gradients else 2

    def start(self, context: PrivacyContext) -> State:
        return FixedNorm(None if self.clips_gradients else self.clip.norm)

    def faults(self, clients: int, rounds: int, training: Training | None) -> Iterator[Fault]:
        if training is not None and self.clips_gradients and training.gradient_clip != self.clip.norm:
            message = f"must equal training.gradient_clip ({training.gradient_clip}), got {self.clip.norm:g}"
            yield Fault("clip.norm", f"{message}; with clip.target: gradient the training does the clipping")

    def _distance(self, one: Contribution) -> float:
        """Return the largest distance between payloads of neighbouring data sets, in the norm of the clipping."""
        return 2 * self.clip.norm / (one.samples if self.clips_gradients else 1)

    def _accounted(self, mechanism: Mechanism, distance: float, context: PrivacyContext, proven: bool = True) -> float:
        """Return the sensitivity that accountants use. `proven`: whether `distance` is a proven bound given the
        clipping. A heuristic distance cannot repair an invalid calibration, so the result is then infinite."""
        if mechanism.miscalibrated and (self.clips_gradients or not proven):
            return math.inf
        return mechanism.true_sensitivity(distance, context.n_parameters)

    def upload_noise(self, context: PrivacyContext, clip_norm: float | None, contribution: Contribution) -> Noise:
        """Return the noise of the client's mechanism for a distance of 2 S in its norm; none without one."""
        if self.client is None:
            return Noise(0.0)
        distance = self._distance(contribution)
        std = self.client.std(self.client.sensitivity(distance, context.n_parameters), context.rounds)
        sensitivity = self._accounted(self.client, distance, context)
        return Noise(float(std), float(sensitivity), distribution=self.client.distribution)

    def proven_sensitivity(self, context: PrivacyContext, clip_norm: float | None, contribution: Contribution) -> float:
        """Return 2 S for clipped payloads, and 2 lr S per step for clipped gradients."""
        if self.client is None:
            return math.inf
        distance = 2 * self.clip.norm
        if self.clips_gradients:
            distance = clipped_sgd_sensitivity(context, self.clip.norm, contribution.samples)
        return float(self._accounted(self.client, distance, context))

    def model_noise(
        self, context: PrivacyContext, clip_norm: float | None, contributions: Sequence[Contribution] = ()
    ) -> ModelNoise:
        """Return the noise of the server's mechanism, calibrated to the client that weighs most (the source's reading
        ignores weights); none without a server mechanism."""
        if self.server is None:
            return model_without_noise(context, contributions)
        entered = contributions or planned_contributions(context)
        distances = client_sensitivities(context, entered, self._distance)
        distance = max(distances.values())
        if self.server.miscalibrated:
            distance = context.rate * max(map(self._distance, entered))
        std = self.server.std(self.server.sensitivity(distance, context.n_parameters), context.rounds)
        sensitivities = {
            client: float(self._accounted(self.server, own, context, context.equal_weights))
            for client, own in distances.items()
        }
        return ModelNoise(float(std), sensitivities, self.server.distribution)

    def model_multiplier(self, context: PrivacyContext) -> float | None:
        """Return the multiplier of the server's mechanism; None if it ignores weights."""
        if self.server is None or self.server.miscalibrated or math.isinf(self.server.epsilon):
            return None
        made = self.model_noise(context, None)
        scale = made.std if made.distribution == "gaussian" else made.std / math.sqrt(2)
        return scale / made.sensitivity

    def _guarantee(self, mechanism: Mechanism | None, context: PrivacyContext, proven: bool) -> Guarantee | None:
        if mechanism is None or math.isinf(mechanism.epsilon):
            return None
        return Guarantee(
            "sample" if self.clips_gradients else "client",
            "replace",
            "invalid" if mechanism.miscalibrated else "heuristic" if self.clips_gradients or not proven else "proven",
            mechanism.epsilon,
            mechanism.stated_delta,
            mechanism.count(context.rounds),
        )

    def upload_guarantee(self, context: PrivacyContext, client: int | None = None) -> Guarantee | None:
        return self._guarantee(self.client, context, proven=True)

    def model_guarantee(self, context: PrivacyContext) -> Guarantee | None:
        return self._guarantee(self.server, context, proven=context.equal_weights)

    def classical(self, context: PrivacyContext, epsilon: float, of_models: bool = False) -> ClassicalRelease | None:
        mechanism: Mechanism | None = self.server if of_models else self.client
        return None if mechanism is None else mechanism.classical(context.rounds)

    def with_epsilon(self, epsilon: float, epochs: int, length: float) -> tuple[Scheme, dict[str, float]]:
        """Return the scheme whose client mechanism has the budget `epsilon`, with the same composition."""
        if math.isinf(epsilon):
            return self.model_copy(update={"client": None}), {}
        if self.client is None:
            raise ValueError("privacy.client is null: clients add no noise that an epsilon could set")
        return self.model_copy(update={"client": self.client.model_copy(update={"epsilon": epsilon})}), {}

    def notes(self, context: PrivacyContext) -> list[str]:
        notes = []
        if self.server is not None and not context.equal_weights:
            notes.append(f"privacy.server: {UNEVEN_WEIGHTS}")
        if self.client is not None and self.server is not None and context.rounds > 1:
            notes.append(
                "epsilon of client and server together is stated for one version; it grows with the number of "
                "versions, see the ledger"
            )
        return notes
