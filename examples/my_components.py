"""Components of one's own: a staleness function, an attack, a rule and a detector. `my_scenario.yaml` names them.

Each is one class: its fields are what the YAML may set, its methods do the work.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from asyncfl.defences import Buffer, DefenceContext, Detector, Rule, Verdict
from asyncfl.messages import Vector
from asyncfl.server.staleness import Staleness
from asyncfl.threats import Attack, AttackView


class LinearStaleness(Staleness):
    """1 - tau / lifetime: an update loses the same weight with each version, until it has none."""

    kind: str = "my_components:LinearStaleness"
    lifetime: Annotated[int, Field(ge=1)] = 10
    """Versions after which an update counts for nothing."""

    def weight(self, staleness: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.maximum(0.0, 1.0 - staleness / self.lifetime)


class FlipLargest(Attack):
    """Turns round only the largest parameters of an update: most of its direction is lost, most of it looks honest."""

    kind: str = "my_components:FlipLargest"
    share: Annotated[float, Field(gt=0, le=1)] = 0.2
    """Share of the parameters that are negated."""

    def craft(self, view: AttackView) -> Vector:
        crafted = view.honest.copy()  # what one is shown is read-only
        number = max(1, round(self.share * crafted.shape[1]))
        largest = np.argsort(-np.abs(crafted), axis=1, kind="stable")[:, :number]
        for row, columns in zip(crafted, largest, strict=True):
            row[columns] *= -1
        return crafted


class AgreedMean(Rule):
    """The weighted mean, but a parameter moves only where enough clients agree on its direction."""

    kind: str = "my_components:AgreedMean"
    agreement: Annotated[float, Field(ge=0.5, le=1)] = 0.7
    """Share of the weight that must point the same way."""

    def aggregate(self, updates: Vector, weights: NDArray[np.float64]) -> Vector:
        mass = weights.sum()
        if mass == 0:
            return np.zeros(updates.shape[1], dtype=np.float32)
        up, down = weights @ (updates > 0), weights @ (updates < 0)
        agreed = np.maximum(up, down) >= self.agreement * mass * (1 - 1e-9)
        return np.where(agreed, weights @ updates, 0).astype(np.float32)


@dataclass(frozen=True)
class Course:
    """What `AgainstTheCourse` remembers."""

    direction: Vector
    """(n_parameters,) running mean of the updates that were accepted."""


class AgainstTheCourse(Detector):
    """Flags updates that point away from where the accepted updates of the past have gone."""

    kind: str = "my_components:AgainstTheCourse"
    least_cosine: Annotated[float, Field(ge=-1, le=1)] = 0.0
    """An update whose cosine with the course is lower is flagged."""
    memory: Annotated[float, Field(ge=0, lt=1)] = 0.5
    """Share of the old course in the next; 0 remembers the last buffer alone."""

    def start(self, context: DefenceContext, random: np.random.Generator) -> Course:
        return Course(np.zeros(context.n_parameters, dtype=np.float32))

    def judge(self, state: Course, buffer: Buffer, scores: NDArray[np.float64] | None) -> tuple[Verdict, Course]:
        course = state.direction if state.direction.any() else np.median(buffer.deltas, axis=0)
        lengths = np.linalg.norm(buffer.deltas, axis=1) * np.linalg.norm(course)
        cosines = np.divide(buffer.deltas @ course, lengths, out=np.ones(len(buffer)), where=lengths > 0)
        flagged = cosines < self.least_cosine
        verdict = Verdict(
            flagged,
            strikes=flagged,
            details=tuple(f"cosine {cosine:.2f}" if bad else "" for cosine, bad in zip(cosines, flagged, strict=True)),
            notes={"lowest_cosine": float(cosines.min())},
        )
        if flagged.all():
            return verdict, state
        accepted = buffer.deltas[~flagged].mean(axis=0)
        # A new state: the old one is never changed, so that a run can be replayed.
        return verdict, Course(np.asarray(self.memory * state.direction + (1 - self.memory) * accepted, np.float32))
