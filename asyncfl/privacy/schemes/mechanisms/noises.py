"""The two mechanisms, each with a budget of its own: Gaussian noise by L2, Laplace noise by L1 sensitivity.

Laplace noise of scale b on a value of L1 sensitivity D is (D/b)-private, with no delta. The source uses it with the L2
norm and without the 2 of a replaced client, on the server moreover without the 1/n of a mean (`seed_literal`): the L1
norm of d numbers may be sqrt(d) times their L2 norm, so that is not the guarantee it claims. What such noise really
gives is known all the same, D/b with the true D: for an upload 2 sqrt(d) times the claim. That is what accountants get.
"""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from asyncfl.component import Component
from asyncfl.privacy.accounting.composition import (
    Calibration,
    ClassicalRelease,
    Sharing,
    classical_share,
    gaussian_multiplier,
    laplace_multiplier,
)
from asyncfl.privacy.ranges import LEAST, Budget, Delta, within
from asyncfl.privacy.release import Distribution, Status
from asyncfl.quantities import MeasuredIn

ReleaseCount = Annotated[int, Field(ge=1)] | Literal["rounds"]


class Mechanism(Component):
    """Says how much noise a clipped value needs."""

    logged: ClassVar[tuple[str, ...]] = (
        "rounds.sigma_u",
        "rounds.sigma_d",
        "ledger.distribution",
        "ledger.noise_multiplier",
    )

    epsilon: Annotated[Budget, MeasuredIn("epsilon"), Field(examples=[10.0])]
    """Privacy budget of `releases` releases together; .inf: no noise."""
    composition: Sharing = "naive_delta_split"
    """How the budget is shared among them; readings in `accounting.composition`."""
    releases: Annotated[ReleaseCount, MeasuredIn("releases")] = 1
    """Releases that the budget is for: 1, each has a budget of its own; a number; or `rounds`, one in each version."""

    def count(self, rounds: int) -> int:
        """Releases that the budget is for, in a run of `rounds` versions."""
        return rounds if self.releases == "rounds" else self.releases

    @property
    def distribution(self) -> Distribution:
        """What the noise is drawn from."""
        raise NotImplementedError

    @property
    def stated_delta(self) -> float:
        """delta of the claim; 0: a pure one."""
        raise NotImplementedError

    @property
    def divides_by_n(self) -> bool:
        """Whether it knows that in a mean of n each counts 1/n."""
        return True

    @property
    def miscalibrated(self) -> bool:
        """Whether what it takes for its sensitivity is not what neighbours can differ by."""
        return False

    @property
    def reading(self) -> str:
        """The field that decides which norm it needs, for messages; empty: none does."""
        return ""

    def clip_orders(self) -> tuple[int, ...]:
        """Norms that the value may have been clipped in."""
        raise NotImplementedError

    def sensitivity(self, distance: float, n_parameters: int) -> float:
        """What the mechanism takes for its sensitivity, where neighbours differ by `distance` in the clipped norm."""
        raise NotImplementedError

    def true_sensitivity(self, distance: float, n_parameters: int) -> float:
        """What it would have to take for that to hold; the same unless it is `miscalibrated`."""
        return self.sensitivity(distance, n_parameters)

    def std(self, sensitivity: float, rounds: int) -> float:
        """Standard deviation of the noise on each parameter."""
        raise NotImplementedError

    def status(self, rounds: int) -> Status:
        """What is behind the sensitivity, given that the distance between neighbours is proven."""
        return "proven"

    def classical(self, rounds: int) -> ClassicalRelease | None:
        """One release, where it is calibrated classically."""
        return None

    def notes(self, where: str, rounds: int) -> list[str]:
        """What does not hold; `where` names the field that holds it."""
        return []


class GaussianNoise(Mechanism):
    """Gaussian noise, in proportion to the L2 sensitivity.

    Source: Dwork and Roth 2014, theorem A.1; Balle and Wang 2018, theorem 8 (analytic).
    """

    kind: Literal["gaussian"] = "gaussian"
    delta: Annotated[Delta, MeasuredIn("probability")] = 1e-5
    """Probability with which the budget may be broken, 0..1, exclusive; shared like epsilon."""
    calibration: Calibration = "analytic"
    """How one release is calibrated: exactly (Balle, Wang 2018), or by sqrt(2 ln(1.25/delta))/epsilon, which is proven
    for epsilon < 1, holds some way beyond, and then fails."""

    @model_validator(mode="after")
    def _check_calibration(self) -> GaussianNoise:
        if self.calibration == "classical" and self.composition in ("analytic", "rdp"):
            raise ValueError(
                f"calibration: classical has no meaning with composition: {self.composition}, which calibrates all "
                "releases at once; use composition naive_delta_split or advanced, or calibration: analytic"
            )
        return self

    @property
    def distribution(self) -> Distribution:
        """Gaussian."""
        return "gaussian"

    @property
    def stated_delta(self) -> float:
        """`delta`."""
        return self.delta

    def clip_orders(self) -> tuple[int, ...]:
        """Either: an L1 norm is never below the L2 norm."""
        return (1, 2)

    def sensitivity(self, distance: float, n_parameters: int) -> float:
        """`distance`."""
        return distance

    def std(self, sensitivity: float, rounds: int) -> float:
        """Multiplier times sensitivity."""
        multiplier = gaussian_multiplier(
            self.epsilon, self.delta, self.count(rounds), self.calibration, self.composition
        )
        return multiplier * sensitivity

    def classical(self, rounds: int) -> ClassicalRelease | None:
        """One release with its share of the budget, where `calibration` is classical."""
        if self.calibration != "classical" or math.isinf(self.epsilon):
            return None
        return classical_share(self.count(rounds), self.epsilon, self.delta, self.composition)

    def notes(self, where: str, rounds: int) -> list[str]:
        """The classical calibration past its limit."""
        one = self.classical(rounds)
        said = [] if one is None else one.notes()
        return [f"{where}: {note}; calibration: analytic repairs that" for note in said]


class LaplaceNoise(Mechanism):
    """Laplace noise, in proportion to the L1 sensitivity; without a delta unless its composition needs one.

    Source: Dwork and Roth 2014, definition 3.3.
    """

    kind: Literal["laplace"] = "laplace"
    delta: Annotated[float, Field(ge=0, lt=1), within(LEAST, 1, zero=True), MeasuredIn("probability")] = 0.0
    """Probability with which the budget may be broken, 0..1; above 0 unless the composition is `naive_delta_split`."""
    sensitivity_from: Literal["l1", "from_l2", "seed_literal"] = "l1"
    """Where the L1 sensitivity comes from: a clip in L1 | an L2 clip times sqrt(parameters), far more noise | the L2
    norm itself, as the source has it: not private, and not the default for it."""

    @model_validator(mode="after")
    def _check_delta(self) -> LaplaceNoise:
        if self.composition != "naive_delta_split" and self.delta == 0:
            raise ValueError(
                f"composition: {self.composition} needs delta > 0, got 0; set delta or use naive_delta_split"
            )
        return self

    @property
    def distribution(self) -> Distribution:
        """Laplace."""
        return "laplace"

    @property
    def stated_delta(self) -> float:
        """`delta` where the composition spends it."""
        return 0.0 if self.composition == "naive_delta_split" else self.delta

    @property
    def divides_by_n(self) -> bool:
        """Not in the source."""
        return not self.miscalibrated

    @property
    def miscalibrated(self) -> bool:
        """In the source."""
        return self.sensitivity_from == "seed_literal"

    @property
    def reading(self) -> str:
        """`sensitivity_from`."""
        return f"sensitivity_from: {self.sensitivity_from}"

    def clip_orders(self) -> tuple[int, ...]:
        """L1 for `l1`, else L2."""
        return (1,) if self.sensitivity_from == "l1" else (2,)

    def sensitivity(self, distance: float, n_parameters: int) -> float:
        """`distance` in L1; sqrt(n_parameters) times a distance in L2; or half that distance, the source's norm."""
        return distance / 2 if self.miscalibrated else self.true_sensitivity(distance, n_parameters)

    def true_sensitivity(self, distance: float, n_parameters: int) -> float:
        """`distance` in L1, or sqrt(n_parameters) times a distance in L2."""
        return distance if self.sensitivity_from == "l1" else distance * math.sqrt(n_parameters)

    def std(self, sensitivity: float, rounds: int) -> float:
        """sqrt(2) times the scale."""
        multiplier = laplace_multiplier(self.epsilon, self.delta, self.count(rounds), self.composition)
        return math.sqrt(2) * multiplier * sensitivity

    def status(self, rounds: int) -> Status:
        """Invalid for the source's reading."""
        return "invalid" if self.miscalibrated else "proven"

    def notes(self, where: str, rounds: int) -> list[str]:
        """What the source's reading leaves out."""
        if not self.miscalibrated:
            return []
        return [
            f"{where}: sensitivity_from: seed_literal is invalid: Laplace noise needs the L1 sensitivity, which is up "
            "to sqrt(parameters) times the L2 norm, and what neighbours differ by twice the norm that is clipped to; "
            "the ledger says what the noise is really worth; use l1 or from_l2"
        ]
