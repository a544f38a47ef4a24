"""Mechanisms on the client, on the server, or on both, each with a budget of its own.

A payload clipped to S changes by at most 2 S, whatever its client's data are replaced by: that is proven, for models
and for updates. In a version it is 2 S times what the updates of its client weigh in it together (`noise.shares`): in
a mean of n updates of n clients 2 S/n (times the server's rate), which the source forgets. The server's noise is made
for the client that weighs most. Clipping the gradients of batches instead leaves the trained model unbounded:
2 S/|D_i|, the change of one mean gradient when one sample is replaced, is heuristic.

A mechanism that is calibrated to a wrong sensitivity (`Mechanism.miscalibrated`) adds the noise of that one, and
accountants are told the true one: its epsilons are what the noise gives, infinite where no true one is proven.

The two budgets are about two adversaries: who sees uploads has the client's, who sees published models the server's or,
together with the uploads, no more than the sum of both per version. The source states that sum for the whole run; it
grows with the versions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator

from asyncfl.component import Described, choice
from asyncfl.errors import Fault
from asyncfl.privacy.context import Contribution, LocalTraining, PrivacyContext
from asyncfl.privacy.noise.shares import UNEVEN, of_clients, planned
from asyncfl.privacy.ranges import Factor
from asyncfl.privacy.release import Distribution, Status
from asyncfl.privacy.scheme import Guarantee, Payload, Scheme, State
from asyncfl.privacy.schemes.mechanisms.noises import GaussianNoise, LaplaceNoise, Mechanism

AnyMechanism: Any = choice(Mechanism, GaussianNoise, LaplaceNoise)
"""Annotation of a field that holds a mechanism, chosen by `kind`."""


class Clip(Described):
    """What is scaled down where it is too long."""

    target: Literal["model", "update", "gradient"] = "update"
    """The uploaded model | its difference from the model the client was sent | the gradient of each batch, by
    `training.gradient_clip`."""
    norm: Factor = 1.0
    """S: largest norm."""
    order: Literal[1, 2] | None = None
    """L1 or L2 norm; null: the one that the mechanisms need, L2 where both would do."""

    @model_validator(mode="after")
    def _check_order(self) -> Clip:
        if self.target == "gradient" and self.order == 1:
            raise ValueError("order: 1 is for target model or update; gradients are clipped in L2")
        return self


class Mechanisms(Scheme):
    """Gaussian or Laplace noise on uploads, on published models, or on both."""

    kind: Literal["mechanisms"] = "mechanisms"
    clip: Clip = Clip()
    """What is clipped, and to what."""
    client: AnyMechanism | None = None
    """Noise on each upload; null: none."""
    server: AnyMechanism | None = None
    """Noise on each published model; null: none."""

    @model_validator(mode="after")
    def _check_mechanisms(self) -> Mechanisms:
        if self.client is None and self.server is None:
            raise ValueError("client or server must be given: without both there is no mechanism")
        for name, mechanism in self._mechanisms():
            if self.clip_order not in mechanism.clip_orders():
                raise ValueError(f"{name}: {self._in_the_wrong_norm(mechanism)}")
        return self

    def _in_the_wrong_norm(self, mechanism: Any) -> str:
        reading = getattr(mechanism, "sensitivity_from", None)
        which = mechanism.kind if reading is None else f"{mechanism.kind} (sensitivity_from: {reading})"
        needed = mechanism.clip_orders()[0]
        if self.clip.target == "gradient":
            return (
                f"{which} needs a clip in L{needed}, which clip.target: gradient does not give: gradients are clipped "
                "in L2; use clip.target: update or model"
            )
        return f"{which} needs clip.order {needed}, got {self.clip_order}"

    def _mechanisms(self) -> Iterator[tuple[str, Any]]:
        both = (("client", self.client), ("server", self.server))
        yield from ((name, one) for name, one in both if one is not None)

    # --- clipping --------------------------------------------------------------------------------------------------

    @property
    def clip_norm(self) -> float:
        """S."""
        return self.clip.norm

    @property
    def clip_order(self) -> Literal[1, 2]:
        """`clip.order`, or 1 where a mechanism needs that, else 2."""
        if self.clip.order is not None:
            return self.clip.order
        needs_l1 = any(one.clip_orders() == (1,) for _, one in self._mechanisms())
        return 1 if needs_l1 and self.clip.target != "gradient" else 2

    @property
    def payload(self) -> Payload:
        """`clip.target`; with clipped gradients whole models are uploaded as they are."""
        return "update" if self.clip.target == "update" else "model"

    def clip_norm_of(self, norms: NDArray[np.floating], state: State | None = None) -> float | None:
        """S; None where gradients are clipped instead."""
        return None if self.clip.target == "gradient" else self.clip.norm

    def training_faults(self, training: LocalTraining, rounds: int) -> Iterator[Fault]:
        """Target `gradient` and `training.gradient_clip` must be the same number."""
        if self.clip.target == "gradient" and training.gradient_clip != self.clip.norm:
            message = f"must equal training.gradient_clip ({training.gradient_clip}), got {self.clip.norm:g}"
            yield Fault("clip.norm", f"{message}; with clip.target: gradient the training clips")

    # --- noise -----------------------------------------------------------------------------------------------------

    @property
    def distribution(self) -> Distribution:
        """Of the client's mechanism."""
        return "gaussian" if self.client is None else self.client.distribution

    @property
    def server_distribution(self) -> Distribution:
        """Of the server's mechanism."""
        return "gaussian" if self.server is None else self.server.distribution

    def _distance(self, samples: int) -> float:
        """How far apart the payloads of two neighbours may be, in the norm that is clipped."""
        return 2 * self.clip.norm / (samples if self.clip.target == "gradient" else 1)

    def upload_std(self, context: PrivacyContext, clip_norm: float | None, contribution: Contribution) -> float:
        """What the client's mechanism needs."""
        if self.client is None:
            return 0.0
        sensitivity = self.client.sensitivity(self._distance(contribution.samples), context.n_parameters)
        return float(self.client.std(sensitivity, context.rounds))

    def upload_sensitivity(self, context: PrivacyContext, clip_norm: float | None, contribution: Contribution) -> float:
        """2 S in the norm that the client's mechanism needs; infinite without one."""
        if self.client is None:
            return math.inf
        return self._accounted(self.client, self._distance(contribution.samples), context, proven=True)

    def _accounted(self, mechanism: Any, distance: float, context: PrivacyContext, proven: bool) -> float:
        """Sensitivity that an accountant goes by. `proven`: whether neighbours are known to be no further apart than
        `distance` if clipped so; what is heuristic cannot mend what is invalid."""
        if mechanism.miscalibrated and not (proven and self.clip.target != "gradient"):
            return math.inf
        return float(mechanism.true_sensitivity(distance, context.n_parameters))

    def server_std(
        self,
        context: PrivacyContext,
        clip_norm: float | None,
        state: State | None = None,
        contributions: Sequence[Contribution] = (),
    ) -> float:
        """What the server's mechanism needs for the client that weighs most. The source's reading knows no weights."""
        if self.server is None:
            return 0.0
        entered = contributions or planned(context)
        if self.server.divides_by_n:
            distance = max(self._distances(context, entered).values())
        else:
            distance = context.rate * self._distance(min(one.samples for one in entered))
        return float(self.server.std(self.server.sensitivity(distance, context.n_parameters), context.rounds))

    def model_sensitivities(
        self, context: PrivacyContext, clip_norm: float | None, contributions: Sequence[Contribution]
    ) -> dict[int, float]:
        """2 S times what the client's updates weigh, in the norm that the server's mechanism needs; infinite without
        one."""
        if self.server is None:
            return super().model_sensitivities(context, clip_norm, contributions)
        return {
            client: self._accounted(self.server, distance, context, context.equal_weights)
            for client, distance in self._distances(context, contributions).items()
        }

    def _distances(self, context: PrivacyContext, contributions: Sequence[Contribution]) -> dict[int, float]:
        """Client -> how far apart neighbours of it may move the model, in the norm that is clipped."""
        return of_clients(context, contributions, lambda one: self._distance(one.samples))

    # --- what it is worth ------------------------------------------------------------------------------------------

    def _guarantee(self, mechanism: Any, context: PrivacyContext, proven: bool) -> Guarantee | None:
        if mechanism is None or math.isinf(mechanism.epsilon):
            return None
        status: Status = mechanism.status(context.rounds)
        if status == "proven" and not (proven and self.clip.target != "gradient"):
            status = "heuristic"
        neighbours = "one sample replaced" if self.clip.target == "gradient" else "one client's data replaced"
        releases = mechanism.count(context.rounds)
        return Guarantee(neighbours, status, mechanism.epsilon, mechanism.stated_delta, releases)

    def upload_guarantee(self, context: PrivacyContext) -> Guarantee | None:
        """The client's budget; None without noise."""
        return self._guarantee(self.client, context, proven=True)

    def model_guarantee(self, context: PrivacyContext) -> Guarantee | None:
        """The server's budget; None without noise."""
        return self._guarantee(self.server, context, proven=context.equal_weights)

    def notes(self, context: PrivacyContext, n_parameters: int) -> list[str]:
        """What does not hold, of each mechanism by name."""
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
                "sensitivity 2S/|D_i| is heuristic: it is that of one mean gradient, not of a model after many steps; "
                "clip.target: update is proven"
            )
        if self.server is not None and not context.equal_weights:
            notes.append(f"privacy.server: {UNEVEN}; the sensitivity of published models is heuristic")
        if self.client is not None and self.server is not None and context.rounds > 1:
            notes.append(
                "epsilon of client and server together is stated for one version; it grows with the versions, see the "
                "ledger"
            )
        return notes
