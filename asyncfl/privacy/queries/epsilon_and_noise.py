"""Epsilon of a noise multiplier, composition of releases, and noise for a budget, without a run."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator

from asyncfl.privacy.accounting import (
    ACCOUNTANTS,
    MechanismEvent,
    MechanismName,
    Neighbours,
    epsilon_by,
    epsilons_of,
    multiplier_for,
    parse_event,
)
from asyncfl.privacy.accounting.accountants import notes
from asyncfl.privacy.accounting.events import LARGEST, MOST_RELEASES, SMALLEST
from asyncfl.privacy.accounting.gaussian import classical_constant, classical_limit, exact_epsilon, squared_mu_of
from asyncfl.privacy.flags import CLASSICAL
from asyncfl.privacy.queries import Count, Question
from asyncfl.privacy.ranges import Delta, Factor, within

_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False), within(SMALLEST, LARGEST)]


class _ReleasesQuestion(Question):
    delta: Delta = 1e-5
    """Probability with which the budget may be broken, 0..1, exclusive."""
    neighbours: Neighbours = "add_remove"
    """Neighbouring relation: one record added or removed, or one replaced."""


class _EqualReleasesQuestion(_ReleasesQuestion):
    releases: Count = 1
    """Number of releases of the same data, all with the same noise."""
    laplace: bool = False
    """Laplace noise for an L1 sensitivity instead of Gaussian noise for an L2 sensitivity."""
    sampling_rate: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Probability with which each record enters a release, sampled anew and in secret; 1: all records."""

    @field_validator("sampling_rate")
    @classmethod
    def _gaussian_only(cls, value: float, info: ValidationInfo) -> float:
        if value < 1 and info.data.get("laplace"):
            raise ValueError(
                "must be 1 with Laplace noise: sampled releases are accounted for with Gaussian noise only"
            )
        return value

    @property
    def mechanism(self) -> MechanismName:
        """Distribution of the noise."""
        return "laplace" if self.laplace else "gaussian"


class EpsilonQuestion(_EqualReleasesQuestion):
    """Question for the epsilon of a noise multiplier."""

    noise_multiplier: _Positive
    """Noise (Gaussian: standard deviation, Laplace: scale) over the contribution of one record to a release."""

    def answer(self) -> dict[str, Any]:
        """Return epsilon by each accountant."""
        event = MechanismEvent(self.mechanism, self.noise_multiplier, self.releases, self.sampling_rate)
        return _epsilons([event], self.delta, self.neighbours)


def _event(written: Any) -> Any:
    return parse_event(written) if isinstance(written, str) else written


class ComposeQuestion(_ReleasesQuestion):
    """Question for the epsilon of several kinds of releases of the same data together."""

    releases: tuple[Annotated[MechanismEvent, BeforeValidator(_event)], ...]
    """Each as an event or as text, `mechanism:multiplier[@rate][xcount]`."""

    def answer(self) -> dict[str, Any]:
        """Return the epsilon of all releases by each accountant, and the exact epsilon of each event by itself."""
        alone = [
            {"releases": str(event), "exact_epsilon": epsilon_by("exact", [event], self.delta, self.neighbours)}
            for event in self.releases
        ]
        return {"alone": alone, **_epsilons(self.releases, self.delta, self.neighbours)}


def _epsilons(events: Iterable[MechanismEvent], delta: float, neighbours: Neighbours) -> dict[str, Any]:
    listed = list(events)
    found = epsilons_of(listed, delta, neighbours)
    rows = [{"accountant": name, "epsilon": getattr(found, name)} for name in ACCOUNTANTS]
    return {"accountants": rows, "notes": notes(any(event.rate < 1 for event in listed), neighbours)}


class NoiseQuestion(_EqualReleasesQuestion):
    """Question for the noise that a budget needs."""

    epsilon: _Positive
    """Budget of all releases together."""
    sensitivity: Factor = 1.0
    """Contribution of one record to a release: L2 norm (Laplace: L1)."""

    def answer(self) -> dict[str, Any]:
        """Return noise multiplier and noise by each accountant, and by the classical calibration where it exists."""
        rows = []
        for name in ACCOUNTANTS:
            arguments = (self.epsilon, self.delta, "laplace" if self.laplace else "gaussian", self.releases)
            found = multiplier_for(*arguments, self.sampling_rate, self.neighbours, name)
            rows.append(self._row(name, found))
        sentences = notes(self.sampling_rate < 1, self.neighbours)
        if not self.laplace and self.sampling_rate == 1:
            moved = 2 if self.neighbours == "replace" else 1
            z = moved * classical_constant(self.delta) * self.releases / self.epsilon
            rows.append(self._row("classical", z))
            real = exact_epsilon(squared_mu_of(z / moved, self.releases), self.delta)
            sentences.append(
                f"classical: sqrt(2 ln(1.25/delta)) releases/epsilon, proven for one release and epsilon < 1 only; "
                f"true epsilon {real:.4g}"
            )
            if real > self.epsilon * (1 + 1e-9):
                sentences.append(
                    f"{CLASSICAL}: too little noise for epsilon {self.epsilon:g}; for one release it is enough up to "
                    f"epsilon {classical_limit(self.delta):.4g}"
                )
        return {"accountants": rows, "notes": sentences}

    def _row(self, name: str, multiplier: float | None) -> dict[str, Any]:
        noise = None if multiplier is None else multiplier * self.sensitivity
        return {"accountant": name, "noise_multiplier": multiplier, "scale" if self.laplace else "sigma": noise}


class ExposureQuestion(Question):
    """Question for the number of uploads that may be overheard, and for the L that NbAFL must assume."""

    epsilon: _Positive = 60.0
    """Budget of a client."""
    delta: Delta = 0.01
    """Probability with which the budget may be broken, 0..1, exclusive."""
    noise_multiplier: _Positive | None = None
    """Noise of one upload over its sensitivity; null: NbAFL's for one overheard upload, constant c1/epsilon."""
    constant: _Positive = 1.25
    """Factor on c1 = sqrt(2 ln(1.25/delta)) in NbAFL's noise."""
    exposures: Count = 1
    """Number of uploads of one client that an eavesdropper really holds."""

    def answer(self) -> dict[str, Any]:
        """Return by each accountant: uploads within the budget, epsilon of the held uploads, and the smallest
        sufficient L."""
        c = self.constant * classical_constant(self.delta)
        z = c / self.epsilon if self.noise_multiplier is None else self.noise_multiplier
        rows = []
        for name in ACCOUNTANTS:

            def spent(count: int, name: Any = name) -> float:
                found = epsilon_by(name, [MechanismEvent("gaussian", z, count)], self.delta)
                return math.inf if found is None else found

            most = _most(lambda count: spent(count) <= self.epsilon * (1 + 1e-12))
            needed = multiplier_for(self.epsilon, self.delta, releases=self.exposures, accountant=name)
            rows.append(
                {
                    "accountant": name,
                    "exposures_within_budget": MOST_RELEASES if most is None else most,
                    "or_more": most is None,
                    "epsilon_of_exposures": spent(self.exposures),
                    # NbAFL's multiplier grows linearly with L.
                    "needed_L": None if needed is None else max(math.ceil(needed * self.epsilon / c - 1e-9), 1),
                }
            )
        sentences = [
            f"needed_L: the L that NbAFL must assume, as its noise grows with L/epsilon, so that {self.exposures} "
            f"overheard uploads of a client together have at most epsilon {self.epsilon:g}"
        ]
        uncounted = [str(row["accountant"]) for row in rows if row["or_more"]]
        if uncounted:
            sentences.append(
                f"exposures_within_budget: more than {MOST_RELEASES} uploads are within the budget by "
                f"{', '.join(uncounted)}; no more are counted"
            )
        return {"noise_multiplier": z, "accountants": rows, "notes": sentences}


def _most(fits: Callable[[int], bool]) -> int | None:
    """Return the largest count for which `fits` (monotone) holds; 0 if none; None: more than `MOST_RELEASES`."""
    most = bisect_left(range(1, MOST_RELEASES + 2), True, key=lambda count: not fits(count))
    return None if most > MOST_RELEASES else most
