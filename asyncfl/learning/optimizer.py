"""Optimizer: the step that follows a gradient, for training with more than plain SGD.

With the gradient g of a step (clipped, with noise, proximal term and an algorithm's constant), the learning rate lr of
that step, weight decay d, momentum m, betas b1 and b2, and k steps so far, this one included:

    sgd     g <- g + d w;   v <- m v + g;   w <- w - lr v
    adam    g <- g + d w;   a <- b1 a + (1 - b1) g;   s <- b2 s + (1 - b2) g^2
            w <- w - lr a / (1 - b1^k) / (sqrt(s / (1 - b2^k)) + eps)
    adamw   w <- w - lr d w, then as adam without d

as `torch.optim` does. Sources: Kingma and Ba 2015 (Adam), algorithm 1; Loshchilov and Hutter 2019 (AdamW), algorithm 2.
With DP-SGD the gradient has been clipped and noised before: all of this is post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from asyncfl.base.client_state import ClientState
from asyncfl.learning.layout import Vector
from asyncfl.learning.training import Training

if TYPE_CHECKING:
    import torch

STEPS = "optimizer_steps"
"""Name of the number of steps so far in a client's state."""


def slots_of(training: Training) -> tuple[str, ...]:
    """Return the names of the optimiser's vectors (n_parameters,), by which a client's state holds them."""
    if training.optimizer == "sgd":
        return ("velocity",) if training.momentum else ()
    return "mean_gradient", "mean_square"


def kept_names(training: Training) -> tuple[str, ...]:
    """Return the names of the entries of a client's state that training keeps from task to task."""
    return (*slots_of(training), STEPS) if training.state == "kept" else ()


@dataclass(eq=False)
class OptimizerState:
    """The optimiser's vectors before a task, which training replaces by those after it."""

    arrays: Mapping[str, Vector] = field(default_factory=dict)
    """Name -> (n_parameters,), of the whole model; a name that is missing stands for zeros."""
    steps: int = 0
    """Steps so far."""

    @classmethod
    def of(cls, state: ClientState, training: Training) -> OptimizerState:
        """Return what a client's state holds."""
        part = state.part(slots_of(training))
        return cls(dict(part.arrays), int(state.scalars.get(STEPS, 0)))

    def entries(self) -> ClientState:
        """Return the entries of the client's state. Vectors that are not finite, which would spoil all later tasks,
        are replaced by those of a first task."""
        if all(np.isfinite(one).all() for one in self.arrays.values()):
            return ClientState(self.arrays, {STEPS: self.steps})
        return ClientState({name: np.zeros_like(one) for name, one in self.arrays.items()}, {STEPS: 0})


class Optimizer:
    """Steps on tensors, with the optimiser's vectors in `slots`: name -> tensors with the shapes of the weights."""

    def __init__(self, training: Training, slots: Mapping[str, Sequence[torch.Tensor]]) -> None:
        self.slots = slots
        self.steps = 0
        self._training = training

    def step(self, weights: Sequence[torch.Tensor], gradient: list[torch.Tensor], lr: float) -> None:
        """Change the weights in place, without tracking gradients; `gradient` is overwritten. `lr`: of this step."""
        import torch

        t = self._training
        self.steps += 1
        if t.weight_decay and t.optimizer != "adamw":
            torch._foreach_add_(gradient, list(weights), alpha=t.weight_decay)
        if t.optimizer == "sgd":
            if t.momentum:
                velocity = list(self.slots["velocity"])
                torch._foreach_mul_(velocity, t.momentum)
                torch._foreach_add_(velocity, gradient)
                gradient = velocity
            torch._foreach_add_(list(weights), gradient, alpha=-lr)
            return
        if t.weight_decay and t.optimizer == "adamw":
            torch._foreach_mul_(list(weights), 1 - lr * t.weight_decay)
        (first, second), k = t.betas, self.steps
        mean, square = list(self.slots["mean_gradient"]), list(self.slots["mean_square"])
        torch._foreach_mul_(mean, first)
        torch._foreach_add_(mean, gradient, alpha=1 - first)
        torch._foreach_mul_(square, second)
        torch._foreach_addcmul_(square, gradient, gradient, 1 - second)
        divisor = torch._foreach_sqrt(square)
        torch._foreach_div_(divisor, math.sqrt(1 - second**k))
        torch._foreach_add_(divisor, t.eps)
        torch._foreach_addcdiv_(list(weights), mean, divisor, -lr / (1 - first**k))
