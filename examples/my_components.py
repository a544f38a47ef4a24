"""Components of your own: a staleness function, an attack, a rule, a detector and an algorithm; see `my_scenario.yaml`.

Each is one class: the YAML sets its fields, and its methods do the work.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from asyncfl.algorithms import AcceptedUpdates, Algorithm, Payload, Payloads
from asyncfl.algorithms.algorithm import ServerState
from asyncfl.base.arrays import Vector
from asyncfl.base.client_state import ClientState
from asyncfl.base.disclosure import Released
from asyncfl.defences import Buffer, DefenceContext, Detector, Rule, Verdict
from asyncfl.protocol.staleness import Staleness
from asyncfl.threats import Attack, AttackView


class LinearStaleness(Staleness):
    """Staleness weight max(0, 1 - tau / lifetime), which falls linearly with the staleness tau."""

    kind: str = "my_components:LinearStaleness"
    lifetime: Annotated[int, Field(ge=1)] = 10
    """Staleness from which an update has weight 0, in versions."""

    def weight(self, staleness: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.maximum(0.0, 1.0 - staleness / self.lifetime)


class FlipLargest(Attack):
    """Attack that negates the largest parameters of an honest update and leaves the others as they are."""

    kind: str = "my_components:FlipLargest"
    share: Annotated[float, Field(gt=0, le=1)] = 0.2
    """Share of the parameters that are negated."""

    def craft(self, view: AttackView) -> Vector:
        crafted = view.honest.copy()  # arguments are read-only
        number = max(1, round(self.share * crafted.shape[1]))
        largest = np.argsort(-np.abs(crafted), axis=1, kind="stable")[:, :number]
        for row, columns in zip(crafted, largest, strict=True):
            row[columns] *= -1
        return crafted


class AgreedMean(Rule):
    """Weighted mean that changes a parameter only where enough clients agree on the sign."""

    kind: str = "my_components:AgreedMean"
    agreement: Annotated[float, Field(ge=0.5, le=1)] = 0.7
    """Share of the weight that must have the same sign, .5..1."""

    def aggregate(self, updates: Vector, weights: NDArray[np.float64]) -> Vector:
        mass = weights.sum()
        if mass == 0:
            return np.zeros(updates.shape[1], dtype=np.float32)
        up, down = weights @ (updates > 0), weights @ (updates < 0)
        agreed = np.maximum(up, down) >= self.agreement * mass * (1 - 1e-9)
        return np.where(agreed, weights @ updates, 0).astype(np.float32)


@dataclass(frozen=True)
class DirectionState:
    """State of `OppositeDirection`."""

    direction: Vector
    """Running mean of the accepted updates, (n_parameters,)."""


class OppositeDirection(Detector):
    """Detector that flags updates whose direction is opposite to the mean of earlier accepted updates."""

    kind: str = "my_components:OppositeDirection"
    least_cosine: Annotated[float, Field(ge=-1, le=1)] = 0.0
    """Cosine with that mean below which an update is flagged, -1..1."""
    memory: Annotated[float, Field(ge=0, lt=1)] = 0.5
    """Share of the old mean in the new one, 0..1; 0 keeps only the last buffer."""

    def start(self, context: DefenceContext, random: np.random.Generator) -> DirectionState:
        return DirectionState(np.zeros(context.n_parameters, dtype=np.float32))

    def judge(
        self, state: DirectionState, buffer: Buffer, scores: NDArray[np.float64] | None
    ) -> tuple[Verdict, DirectionState]:
        mean = state.direction if state.direction.any() else np.median(buffer.deltas, axis=0)
        lengths = np.linalg.norm(buffer.deltas, axis=1) * np.linalg.norm(mean)
        cosines = np.divide(buffer.deltas @ mean, lengths, out=np.ones(len(buffer)), where=lengths > 0)
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
        return verdict, DirectionState(
            np.asarray(self.memory * state.direction + (1 - self.memory) * accepted, np.float32)
        )


class CommonDirection(Algorithm):
    """Algorithm whose clients lean towards a mean of the server's earlier steps, which they are sent with the model."""

    kind: str = "my_components:CommonDirection"
    weight: Annotated[float, Field(ge=0)] = 0.1
    """Factor of that mean in each gradient."""
    memory: Annotated[float, Field(ge=0, lt=1)] = 0.9
    """Share of the old mean in the new one, 0..1."""

    def payloads(self, n_parameters: int) -> Payloads:
        # It follows from published models, so that it tells nothing more than these.
        return Payloads(downloads=(Payload("direction", n_parameters, Released("of earlier models")),))

    def correction(self, state: ClientState, download: Mapping[str, Vector]) -> Vector:
        return np.float32(-self.weight) * download["direction"]

    def start(self, n_parameters: int, clients: int) -> ServerState:
        return {"direction": np.zeros(n_parameters, dtype=np.float32)}

    def apply(self, state: ServerState, step: Vector, accepted: AcceptedUpdates) -> tuple[Vector, ServerState]:
        memory = np.float32(self.memory)
        return step, {"direction": memory * state["direction"] + (1 - memory) * step}

    def download(self, state: ServerState) -> Mapping[str, Vector]:
        return {"direction": state["direction"]}
