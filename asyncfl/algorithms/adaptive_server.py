"""Adaptive learning rates of the server (FedAdagrad, FedAdam, FedYogi).

With d, the step that rule and protocol make of the updates, and all operations by component:

    m <- beta1 m + (1 - beta1) d;   v <- v + d^2                               Adagrad
                                    v <- beta2 v + (1 - beta2) d^2             Adam
                                    v <- v - (1 - beta2) d^2 sign(v - d^2)     Yogi
    w <- w + server_lr m / (sqrt(v) + tau)                                            m is 0 at first, v is tau^2

d has the server's noise already: guarantees of published models hold as with FedAvg.
"""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from asyncfl.algorithms.algorithm import AcceptedUpdates, Algorithm, ServerState
from asyncfl.base.arrays import Vector
from asyncfl.base.quantities import MeasuredIn


class AdaptiveServer(Algorithm):
    """Base class of servers whose learning rate follows from the squares of earlier steps."""

    server_lr: Annotated[float, Field(gt=0, allow_inf_nan=False), MeasuredIn("1")] = 0.03
    """Learning rate of the server, above 0; the paper's best for EMNIST with Adam and Yogi is 10^-1.5."""
    beta1: Annotated[float, Field(ge=0, lt=1), MeasuredIn("share")] = 0.9
    """Share of the earlier mean of steps that stays, 0 <= beta1 < 1."""
    beta2: Annotated[float, Field(ge=0, lt=1), MeasuredIn("share")] = 0.99
    """Share of the earlier mean of squares that stays, 0 <= beta2 < 1. FedAdagrad does not use it."""
    tau: Annotated[float, Field(gt=0, allow_inf_nan=False), MeasuredIn("1")] = 1e-3
    """Smallest divisor of a step, above 0: the larger, the less steps differ from FedAvg's."""

    def server_vectors(self, clients: int) -> float:
        return 2

    def start(self, n_parameters: int, clients: int) -> ServerState:
        squares = np.full(n_parameters, self.tau**2, dtype=np.float32)
        return {"mean": np.zeros(n_parameters, dtype=np.float32), "squares": squares}

    def apply(self, state: ServerState, step: Vector, accepted: AcceptedUpdates) -> tuple[Vector, ServerState]:
        beta1 = np.float32(self.beta1)
        mean = beta1 * state["mean"] + (1 - beta1) * step
        after = {"mean": mean, "squares": self.squares(state["squares"], np.square(step))}
        divisor, after = self.divisor(state, after)
        return np.float32(self.rate(accepted)) * mean / (np.sqrt(divisor) + np.float32(self.tau)), after

    def squares(self, before: Vector, square: Vector) -> Vector:
        """Return the next v (n_parameters,). `square`: the square of the step."""
        raise NotImplementedError

    def divisor(self, before: ServerState, after: dict[str, Vector]) -> tuple[Vector, dict[str, Vector]]:
        """Return the squares (n_parameters,) whose root divides a step, and the state `after` it."""
        return after["squares"], after

    def rate(self, accepted: AcceptedUpdates) -> float:
        """Return the learning rate of a step."""
        return self.server_lr


class FedAdagrad(AdaptiveServer):
    """The server's learning rate falls with the sum of the squares of all earlier steps.

    Source: Reddi et al. 2021, algorithm 2.
    """

    kind: Literal["fedadagrad"] = "fedadagrad"

    def squares(self, before: Vector, square: Vector) -> Vector:
        return before + square


class AdamSquares(AdaptiveServer):
    """Base class of servers whose v is a mean of squares in which older ones count less."""

    def squares(self, before: Vector, square: Vector) -> Vector:
        beta2 = np.float32(self.beta2)
        return np.asarray(beta2 * before + (1 - beta2) * square)


class FedAdam(AdamSquares):
    """The server's steps are those of Adam, without a correction of the first ones' bias.

    Source: Reddi et al. 2021, algorithm 2.
    """

    kind: Literal["fedadam"] = "fedadam"


class FedYogi(AdaptiveServer):
    """The server's learning rate follows from squares whose mean changes by at most (1 - beta2) of a square a version.

    Source: Reddi et al. 2021, algorithm 2.
    """

    kind: Literal["fedyogi"] = "fedyogi"

    def squares(self, before: Vector, square: Vector) -> Vector:
        return np.asarray(before - (1 - np.float32(self.beta2)) * square * np.sign(before - square))
