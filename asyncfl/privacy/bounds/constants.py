"""Inputs of NbAFL's bounds: constants of the loss and settings of the noise."""

from __future__ import annotations

import math
from typing import Annotated

from pydantic import Field

from asyncfl.base.component import Described
from asyncfl.privacy.accounting.gaussian import classical_constant
from asyncfl.privacy.ranges import within

_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False), within(1e-50, 1e50)]
"""A positive number. The bounds multiply up to six of them without overflow."""


class LossConstants(Described):
    """Constants of assumption 1 and of the local training. The paper gives no values; these allow the bounds to be
    drawn."""

    initial_gap: _Positive = math.log(10)
    """Theta: F(w_0) - F(w*); ln 10 is the loss of guessing one of ten classes."""
    polyak_lojasiewicz: _Positive = 0.5
    """l: F(w) - F(w*) <= |grad F(w)|^2/(2 l) in the paper's notation."""
    lipschitz: _Positive = 1.0
    """beta: |F_i(w) - F_i(w')| <= beta |w - w'|."""
    smoothness: _Positive = 0.5
    """rho: |grad F_i(w) - grad F_i(w')| <= rho |w - w'|."""
    dissimilarity: _Positive = 1.0
    """B: |grad F_i(w)| <= B |grad F(w)|; 1 if all clients have the same data distribution."""
    proximal_mu: _Positive = 1.0
    """mu of the local proximal term."""


class BoundSettings(Described):
    """Settings of the noise in the bounds."""

    epsilon: _Positive = 60.0
    """Privacy budget of the run."""
    delta: Annotated[float, Field(gt=0, lt=1)] = 0.01
    """Probability with which the budget may be broken, 0..1, exclusive."""
    constant: _Positive = 1.25
    """Factor on c1 = sqrt(2 ln(1.25/delta))."""
    clients: Annotated[int, Field(ge=1)] = 50
    """N: number of clients."""
    clip_norm: _Positive = 20.0
    """C: L2 norm that models are clipped to."""
    samples: Annotated[int, Field(ge=1)] = 100
    """m: samples of the smallest local data set."""

    @property
    def noise_constant(self) -> float:
        """c = constant c1."""
        return self.constant * classical_constant(self.delta)
