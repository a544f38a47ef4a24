"""Epsilon of a noise multiplier, composition of releases, noise for a budget, and NbAFL's noise, without a run."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Collection, Iterable
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from asyncfl.privacy.accounting import ACCOUNTANTS, MechanismEvent, Neighbours, parse_event
from asyncfl.privacy.accounting.accountants import epsilon_by, epsilons_of, notes, renyi_epsilon
from asyncfl.privacy.accounting.calibrate import Composition, multiplier_for
from asyncfl.privacy.accounting.gaussian import classical_constant, classical_limit, exact_epsilon, squared_mu_of
from asyncfl.privacy.accounting.mechanism_events import LARGEST, MOST_RELEASES, SMALLEST
from asyncfl.privacy.flags import CLASSICAL
from asyncfl.privacy.ledger.rows import scheme_notes
from asyncfl.privacy.queries import Count, Question
from asyncfl.privacy.ranges import Delta, Factor, within
from asyncfl.privacy.release import Contribution, Distribution, PrivacyContext
from asyncfl.privacy.schemes.nbafl import BRule, Nbafl, Sensitivity, model_std

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
    def mechanism(self) -> Distribution:
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


class ComposeQuestion(_ReleasesQuestion):
    """Question for the epsilon of several kinds of releases of the same data together."""

    releases: tuple[
        Annotated[MechanismEvent, BeforeValidator(lambda one: parse_event(one) if isinstance(one, str) else one)], ...
    ]
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
    sentences = [_terms(delta, neighbours, {event.mechanism for event in listed})]
    return {"accountants": rows, "notes": [*sentences, *notes(any(event.rate < 1 for event in listed), neighbours)]}


def _terms(delta: float, neighbours: Neighbours, mechanisms: Collection[str]) -> str:
    """Return a sentence on what epsilon and the noise multipliers of `mechanisms` are relative to."""
    differ = "added or removed" if neighbours == "add_remove" else "replaced, which moves a release twice as far"
    over = {"gaussian": "the standard deviation over the L2 norm", "laplace": "the scale over the L1 norm"}
    known = ", of Laplace noise ".join(words for name, words in over.items() if name in mechanisms)
    measured = f"; a noise multiplier is {known} of one record's contribution to a release" if known else ""
    return f"epsilon at delta {delta:g} for one record {differ}{measured}"


class NoiseQuestion(_EqualReleasesQuestion):
    """Question for the noise that a budget needs."""

    epsilon: _Positive
    """Budget of all releases together."""
    sensitivity: Factor = 1.0
    """Contribution of one record to a release: L2 norm (Laplace: L1)."""

    def answer(self) -> dict[str, Any]:
        """Return noise multiplier and noise by each accountant, and by the classical calibration where it exists."""
        asked = self.epsilon, self.delta, self.mechanism, self.releases, self.sampling_rate, self.neighbours
        rows = [self._row(name, multiplier_for(*asked, name)) for name in ACCOUNTANTS]
        sentences = [_terms(self.delta, self.neighbours, {self.mechanism})]
        sentences += notes(self.sampling_rate < 1, self.neighbours)
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
                return epsilon_by(name, [MechanismEvent("gaussian", z, count)], self.delta) or 0.0

            within_budget = self.epsilon * (1 + 1e-12)
            most = bisect_left(range(1, MOST_RELEASES + 2), True, key=lambda count: spent(count) > within_budget)
            needed = multiplier_for(self.epsilon, self.delta, releases=self.exposures, accountant=name) or 0.0
            rows.append(
                {
                    "accountant": name,
                    "exposures_within_budget": min(most, MOST_RELEASES),
                    "epsilon_of_exposures": spent(self.exposures),
                    # NbAFL's multiplier grows linearly with L.
                    "needed_L": max(math.ceil(needed * self.epsilon / c - 1e-9), 1),
                }
            )
        sentences = [
            f"needed_L: the L that NbAFL must assume, as its noise grows with L/epsilon, so that {self.exposures} "
            f"overheard uploads of a client together have at most epsilon {self.epsilon:g}"
        ]
        return {"noise_multiplier": z, "accountants": rows, "notes": sentences}


class NbaflQuestion(Question):
    """Question for the noise that NbAFL adds, and for its epsilon."""

    clients: Count = 50
    """N, all clients."""
    participants: Count | None = None
    """K, clients drawn in each round, 1..clients; null: all."""
    rounds: Count = 25
    """T, rounds of the run."""
    exposures: Annotated[int, Field(ge=0)] = 1
    """L, uploads of one client that are overheard, 0..rounds."""
    epsilon: Factor = 60.0
    """Privacy budget."""
    delta: Delta = 0.01
    """Probability with which the budget may be broken, 0..1, exclusive."""
    constant: Factor = 1.25
    """Factor on c1 = sqrt(2 ln(1.25/delta))."""
    clip_norm: Factor = 20.0
    """C, L2 norm that models are clipped to."""
    samples: Count = 100
    """m, samples of the smallest local data set."""
    sensitivity: Sensitivity = "2C/m"
    """Influence of one sample, or one client."""
    composition: Composition = "naive"
    """Growth of the noise with the number of releases."""
    b_rule: BRule = "paper"
    """Discount for drawing K of N clients."""
    parameters: Count | None = None
    """Number of parameters of the model; if given, the norm of the noise is reported."""

    @field_validator("participants", "exposures")
    @classmethod
    def _check_largest(cls, value: int | None, info: ValidationInfo) -> int | None:
        other = "clients" if info.field_name == "participants" else "rounds"
        largest = info.data.get(other)
        if value is not None and largest is not None and value > largest:
            message = "must be at most {other} ({largest}), got {value}; lower {field} or raise {other}"
            context = {"other": other, "largest": largest, "value": value, "field": str(info.field_name)}
            raise PydanticCustomError("too_many", message, context)
        return value

    @property
    def scheme(self) -> Nbafl:
        """The scheme in question."""
        return Nbafl(**self.model_dump(include=set(Nbafl.model_fields)))

    @property
    def context(self) -> PrivacyContext:
        """The run in question."""
        K = self.clients if self.participants is None else self.participants
        return PrivacyContext(
            self.clients, K, self.rounds, self.samples, self.exposures, n_parameters=self.parameters or 1
        )

    def answer(self) -> dict[str, Any]:
        """Return the noise of clients and server, its derivation, and its exact epsilon."""
        scheme, context = self.scheme, self.context
        noise = scheme.noise(context, self.clip_norm)
        sigma_model = model_std(noise, context.participants)
        upload = scheme.upload_noise(context, self.clip_norm, Contribution(0, self.samples))
        upload_z = upload.std / upload.sensitivity
        model_z = sigma_model / scheme.model_noise(context, self.clip_norm).sensitivity
        releases = [("upload", self.exposures, upload_z), ("upload", self.rounds, upload_z)]
        releases.append(("model", self.rounds, model_z))
        answer = {
            "sigma_u": noise.sigma_u,
            "sigma_a": noise.sigma_a,
            "sigma_d": noise.sigma_d,
            "sigma_model": sigma_model,
            "gamma": noise.gamma,
            "rounds_without_server_noise": None if noise.gamma is None else self.epsilon / noise.gamma,
            "b": noise.b,
            "server_rule": noise.server_rule,
            "classical_limit": classical_limit(self.delta, self.constant),
            # Twice the same number of uploads is one row.
            "worth": [_row(*release, self.delta) for release in dict.fromkeys(releases)],
            "notes": scheme_notes(scheme, context),
        }
        if self.parameters is not None:
            answer["upload_noise_norm"] = noise.sigma_u * math.sqrt(self.parameters)
            answer["model_noise_norm"] = sigma_model * math.sqrt(self.parameters)
        return answer


def _row(release: str, releases: int, multiplier: float, delta: float) -> dict[str, Any]:
    squared_mu = squared_mu_of(multiplier, releases)
    return {
        "release": release,
        "releases": releases,
        "noise_multiplier": multiplier,
        "delta": delta,
        "exact_epsilon": exact_epsilon(squared_mu, delta),
        "rdp_epsilon": renyi_epsilon([MechanismEvent("gaussian", multiplier, releases)], delta),
    }
