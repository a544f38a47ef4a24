"""NbAFL's noise and its epsilon, without a run."""

from __future__ import annotations

import math
from typing import Annotated, Any

from pydantic import Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from asyncfl.privacy.accounting.accountants import renyi_epsilon
from asyncfl.privacy.accounting.calibrate import Composition
from asyncfl.privacy.accounting.events import MechanismEvent
from asyncfl.privacy.accounting.gaussian import classical_limit, exact_epsilon, squared_mu_of
from asyncfl.privacy.context import Contribution, PrivacyContext
from asyncfl.privacy.queries import Count, Question
from asyncfl.privacy.ranges import Delta, Factor
from asyncfl.privacy.schemes.nbafl import BRule, Nbafl, Sensitivity, model_std


def _at_most(value: int | None, info: ValidationInfo, other: str) -> int | None:
    largest = info.data.get(other)
    if value is not None and largest is not None and value > largest:
        message = "must be at most {other} ({largest}), got {value}; lower {field} or raise {other}"
        context = {"other": other, "largest": largest, "value": value, "field": str(info.field_name)}
        raise PydanticCustomError("too_many", message, context)
    return value


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

    @field_validator("participants")
    @classmethod
    def _no_more_participants_than_clients(cls, value: int | None, info: ValidationInfo) -> int | None:
        return _at_most(value, info, "clients")

    @field_validator("exposures")
    @classmethod
    def _no_more_exposures_than_rounds(cls, value: int | None, info: ValidationInfo) -> int | None:
        return _at_most(value, info, "rounds")

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
            "notes": scheme.notes(context),
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
