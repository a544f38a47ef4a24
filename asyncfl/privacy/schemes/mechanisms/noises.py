"""Gaussian noise scaled to the L2 sensitivity and Laplace noise scaled to the L1 sensitivity, each with its own budget.

Laplace noise of scale b on a value with L1 sensitivity D is (D/b)-private, without a delta. The source uses it with the
L2 norm and without the factor 2 of a replaced client, and on the server also without the 1/n of a mean
(`seed_literal`). The L1 norm of d numbers may be sqrt(d) times their L2 norm, so the claimed guarantee does not hold.
The true guarantee follows from D/b with the true D: for an upload 2 sqrt(d) times the claimed epsilon. Accountants use
the true D.
"""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from asyncfl.base.component import Component
from asyncfl.base.quantities import MeasuredIn
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

ReleaseCount = Annotated[int, Field(ge=1)] | Literal["rounds"]


class Mechanism(Component):
    """A rule for the noise that a clipped value needs."""

    logged: ClassVar[tuple[str, ...]] = (
        "rounds.sigma_u",
        "rounds.sigma_d",
        "ledger.distribution",
        "ledger.noise_multiplier",
    )

    epsilon: Annotated[Budget, MeasuredIn("epsilon"), Field(examples=[10.0])]
    """Privacy budget of `releases` releases together; .inf: no noise."""
    composition: Sharing = "naive_delta_split"
    """Rule by which the releases share the budget; readings in `accounting.composition`."""
    releases: Annotated[ReleaseCount, MeasuredIn("releases")] = 1
    """Number of releases that share the budget: 1 (each release has its own budget), a number, or `rounds` (one per
    version)."""

    def count(self, rounds: int) -> int:
        """Return the number of releases that share the budget in a run of `rounds` versions."""
        return rounds if self.releases == "rounds" else self.releases

    @property
    def distribution(self) -> Distribution:
        """Distribution of the noise."""
        raise NotImplementedError

    @property
    def stated_delta(self) -> float:
        """delta of the claim; 0: a pure claim."""
        raise NotImplementedError

    @property
    def divides_by_n(self) -> bool:
        """Whether the mechanism uses that each update counts 1/n in a mean of n."""
        return True

    @property
    def miscalibrated(self) -> bool:
        """Whether the assumed sensitivity differs from the true one."""
        return False

    @property
    def reading(self) -> str:
        """Field that decides the norm of the sensitivity, for messages; empty: none."""
        return ""

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

    def status(self, rounds: int) -> Status:
        """Return the status of the sensitivity, given that the distance between neighbours is proven."""
        return "proven"

    def classical(self, rounds: int) -> ClassicalRelease | None:
        """Return the calibration of one release if it is classical; otherwise None."""
        return None

    def notes(self, where: str, rounds: int) -> list[str]:
        """Return sentences on claims that do not hold. `where`: name of the field that holds this mechanism."""
        return []


class GaussianNoise(Mechanism):
    """Gaussian noise in proportion to the L2 sensitivity.

    Source: Dwork and Roth 2014, theorem A.1; Balle and Wang 2018, theorem 8 (analytic).
    """

    kind: Literal["gaussian"] = "gaussian"
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
    def distribution(self) -> Distribution:
        """Gaussian."""
        return "gaussian"

    @property
    def stated_delta(self) -> float:
        """`delta`."""
        return self.delta

    def clip_orders(self) -> tuple[int, ...]:
        """Return both norms: an L1 norm is never smaller than the L2 norm."""
        return (1, 2)

    def sensitivity(self, distance: float, n_parameters: int) -> float:
        """Return `distance`."""
        return distance

    def std(self, sensitivity: float, rounds: int) -> float:
        """Return the noise multiplier times the sensitivity."""
        multiplier = gaussian_multiplier(
            self.epsilon, self.delta, self.count(rounds), self.calibration, self.composition
        )
        return multiplier * sensitivity

    def classical(self, rounds: int) -> ClassicalRelease | None:
        """Return the calibration of one release with its share of the budget if it is classical; otherwise None."""
        if self.calibration != "classical" or math.isinf(self.epsilon):
            return None
        return classical_share(self.count(rounds), self.epsilon, self.delta, self.composition)

    def notes(self, where: str, rounds: int) -> list[str]:
        """Return a sentence on a classical calibration past its limit; none within it."""
        one = self.classical(rounds)
        found = [] if one is None else one.notes()
        return [f"{where}: {note}; calibration: analytic repairs this" for note in found]


class LaplaceNoise(Mechanism):
    """Laplace noise in proportion to the L1 sensitivity, without a delta unless its composition needs one.

    Source: Dwork and Roth 2014, definition 3.3.
    """

    kind: Literal["laplace"] = "laplace"
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
    def distribution(self) -> Distribution:
        """Laplace."""
        return "laplace"

    @property
    def stated_delta(self) -> float:
        """`delta` if the composition spends it; otherwise 0."""
        return 0.0 if self.composition == "naive_delta_split" else self.delta

    @property
    def divides_by_n(self) -> bool:
        """Whether each update counts 1/n; false only for the source's reading."""
        return not self.miscalibrated

    @property
    def miscalibrated(self) -> bool:
        """Whether the source's reading is used."""
        return self.sensitivity_from == "seed_literal"

    @property
    def reading(self) -> str:
        """The field `sensitivity_from` and its value."""
        return f"sensitivity_from: {self.sensitivity_from}"

    def clip_orders(self) -> tuple[int, ...]:
        """Return 1 for `l1`, otherwise 2."""
        return (1,) if self.sensitivity_from == "l1" else (2,)

    def sensitivity(self, distance: float, n_parameters: int) -> float:
        """Return `distance` if it is in L1, sqrt(n_parameters) times an L2 distance, or half the L2 distance (the clip
        norm) in the source's reading."""
        return distance / 2 if self.miscalibrated else self.true_sensitivity(distance, n_parameters)

    def true_sensitivity(self, distance: float, n_parameters: int) -> float:
        """Return `distance` if it is in L1, or sqrt(n_parameters) times an L2 distance."""
        return distance if self.sensitivity_from == "l1" else distance * math.sqrt(n_parameters)

    def std(self, sensitivity: float, rounds: int) -> float:
        """Return sqrt(2) times the scale."""
        multiplier = laplace_multiplier(self.epsilon, self.delta, self.count(rounds), self.composition)
        return math.sqrt(2) * multiplier * sensitivity

    def status(self, rounds: int) -> Status:
        """Return `invalid` for the source's reading, otherwise `proven`."""
        return "invalid" if self.miscalibrated else "proven"

    def notes(self, where: str, rounds: int) -> list[str]:
        """Return a sentence on what the source's reading leaves out; none for other readings."""
        if not self.miscalibrated:
            return []
        return [
            f"{where}: sensitivity_from: seed_literal is invalid: Laplace noise needs the L1 sensitivity, which is up "
            "to sqrt(parameters) times the L2 norm, and neighbours differ by up to twice the clip norm; the ledger has "
            "the epsilon that the noise achieves; use l1 or from_l2"
        ]
