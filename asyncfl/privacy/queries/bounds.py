"""Answers to questions about NbAFL's convergence bounds, without a run."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from asyncfl.privacy.bounds import (
    BoundSettings,
    FullParticipation,
    LossConstants,
    Optimum,
    PartialParticipation,
    optimum,
)
from asyncfl.privacy.queries.question import Count, Question


class BoundsQuestion(Question):
    """Question for NbAFL's convergence bounds, and for the rounds and participants at which they are smallest."""

    loss: LossConstants = LossConstants()
    """Constants of the loss."""
    noise: BoundSettings = BoundSettings()
    """Settings of the noise."""
    rounds: Count = 25
    """T at which the bound is evaluated."""
    participants: Count | None = None
    """K; null: all clients, theorem 2. Any number, also N itself, uses theorem 3."""
    lambda1: Literal["paper", "corrected"] = "paper"
    """Reading of kappa_1 in theorem 2."""
    largest_rounds: Count = 500
    """Largest T in the search for the best one."""

    @field_validator("participants")
    @classmethod
    def _no_more_participants_than_clients(cls, value: int | None, info: ValidationInfo) -> int | None:
        noise = info.data.get("noise")
        if value is not None and noise is not None and value > noise.clients:
            message = "must be at most noise.clients ({clients}), got {value}"
            raise PydanticCustomError("too_many", message, {"clients": noise.clients, "value": value})
        return value

    @property
    def bound(self) -> FullParticipation | PartialParticipation:
        """The bound in question."""
        if self.participants is None:
            return FullParticipation(self.loss, self.noise, self.lambda1)
        return PartialParticipation(self.loss, self.noise)

    def _over_rounds(self, rounds: ArrayLike) -> NDArray[np.float64]:
        bound = self.bound
        return bound(rounds) if isinstance(bound, FullParticipation) else bound(rounds, self.participants or 1)

    @property
    def value(self) -> float:
        """The bound on the expected gap at `rounds`; NaN if undefined."""
        return float(self._over_rounds(self.rounds))

    def answer(self) -> dict[str, Any]:
        """Return the bound's constants, its value or why it is undefined, and its minimum."""
        bound, K = self.bound, self.participants or 1
        at_rounds = _number(self.value)
        best_rounds = _found(optimum(self._over_rounds, self.largest_rounds))
        if isinstance(bound, FullParticipation):
            return {
                "theorem": 2,
                "P": bound.contraction,
                "kappa1": _number(bound.kappa1),
                "kappa0": _number(bound.kappa0),
                "bound": at_rounds,
                "undefined": bound.why_undefined(),
                "best_rounds": best_rounds,
            }
        return {
            "theorem": 3,
            "Q": float(bound.contraction(K)),
            "alpha0": float(bound.alpha0(K)),
            "alpha1": float(bound.alpha1(K)),
            "bound": at_rounds,
            "undefined": bound.why_undefined(self.rounds, K),
            "best_rounds": best_rounds,
            "best_participants": _found(optimum(lambda drawn: bound(self.rounds, drawn), self.noise.clients)),
        }

    def curve(self) -> dict[str, list[float | None]]:
        """Return the bound over 1..rounds, to be drawn next to a measured curve; None where it is undefined."""
        T = np.arange(1, self.rounds + 1)
        return {"rounds": [int(t) for t in T], "bound": [_number(value) for value in self._over_rounds(T)]}


def _number(value: Any) -> float | None:
    return None if math.isnan(value) else float(value)


def _found(best: Optimum | None) -> dict[str, Any] | None:
    return None if best is None else asdict(best)
