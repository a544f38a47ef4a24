"""Formulas that a statement about numbers is judged on, beside NbAFL's convergence bounds: no run decides them.

Each is a function of named numbers and words; arguments without a default have to be given. The values are floats.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from asyncfl.defences.buffer import Buffer
from asyncfl.defences.mean import Mean
from asyncfl.privacy.accounting.gaussian import analytic_multiplier, classical_constant, log_delta
from asyncfl.protocol.model_step import next_model


def delta_of_release(
    mechanism: Literal["gaussian", "laplace"], epsilon: float, delta: float = 1e-5, calibration: str = "analytic"
) -> float:
    """Return the smallest delta with which one release of the mechanism, made for a budget `epsilon` > 0, keeps it.

    Laplace noise of scale sensitivity/epsilon keeps it with 0 (pure differential privacy; definition 1 of NbAFL).
    Gaussian noise never does; it is made for `delta`, by `calibration` `analytic` or `classical`.
    """
    if mechanism == "laplace":
        return 0.0
    if mechanism != "gaussian":
        raise ValueError(f"mechanism must be gaussian or laplace, got {mechanism}")
    noise = classical_constant(delta) / epsilon if calibration == "classical" else analytic_multiplier(epsilon, delta)
    return math.exp(float(log_delta(np.array([1 / noise]), np.array([epsilon]))[0]))


def adjustment_operations(adjustment: Literal["linear", "exponential"], exponential: float = 1.0) -> float:
    """Return the operations that adapt one client's budget for one round, as equations 6 and 7 of the adaptive paper
    print them: epsilon + k (loss_max - loss), and epsilon exp(k (loss_max - loss)).

    `exponential`: operations that one exponential counts for.
    """
    if adjustment == "linear":
        return 3.0  # a difference, a product, a sum
    if adjustment != "exponential":
        raise ValueError(f"adjustment must be linear or exponential, got {adjustment}")
    return 3.0 + exponential  # a difference, two products, and the exponential


def noise_operations_share(samples: float, epochs: float, batch_size: float = 1e9, draw: float = 50.0) -> float:
    """Return the operations of clipping a model and of adding noise to it, as a share of those of training it.

    Training costs 4 operations per parameter and sample, 2 forward and 2 for the gradient (that of a layer's inputs is
    left out: nearly all parameters of the paper's network lie in the first layer, which needs none), and 2 per
    parameter and step of SGD. Clipping costs 3 per parameter (norm and scale), noise 1 and a draw of `draw` operations.
    The number of parameters cancels out. No memory traffic is counted.
    """
    training = epochs * (samples * 4 + 2 * math.ceil(samples / batch_size))
    return (4 + draw) / training


def own_layer_probability(clients: int, swaps: int) -> float:
    """Return the probability that the layer under a client's name is its own after the shuffler's `swaps`.

    The adaptive paper's section 2.2: each swap exchanges a layer between two random ones of m `clients`:
    1/m + (1 - 1/m)(1 - 2/(m - 1))^swaps.
    """
    return 1 / clients + (1 - 1 / clients) * (1 - 2 / (clients - 1)) ** swaps


def aggregate_change(buffer: int, staleness: int, sizes: Literal["equal", "uneven"] = "equal") -> float:
    """Return how far one sample of a client can move SAFL's aggregate (equation 6), over what equation 7 says.

    A `buffer` of models, the first of them `staleness` versions old, the others fresh (s = (1 + tau)^-.5), of clients
    with equally many or (`uneven`) 1, 2, .. n times as many samples. One sample moves the model of client i by at most
    2C/|D_i| (equation 4); equation 6 is computed with and without that, for each client in turn, and the largest move
    is set beside max s 2C/|D_i|. At most 1: equation 7 is a bound.
    """
    samples = 100 * (np.ones(buffer) if sizes == "equal" else np.arange(1.0, buffer + 1))
    stale = np.ones(buffer)
    stale[0] = (1 + staleness) ** -0.5
    moves = np.diag(2 / samples).astype(np.float32)  # C = 1; row i: the parameters are moved by client i alone
    zero = np.zeros(buffer, dtype=np.float32)
    order = np.arange(buffer)
    held = Buffer(0, zero, moves, (zero,), np.zeros(buffer, dtype=int), -order, order, samples.astype(int), 0.0 * stale)
    aggregate = next_model(held, stale * samples / samples.sum(), Mean(), mode="eq6_literal").model
    return float(aggregate.max() / (stale * 2 / samples).max())


FORMULAS: dict[str, Callable[..., float]] = {
    function.__name__: function
    for function in (
        delta_of_release,
        adjustment_operations,
        noise_operations_share,
        own_layer_probability,
        aggregate_change,
    )
}
"""Name in an experiment's file -> formula."""


def arguments_of(name: str) -> dict[str, Any]:
    """Return the arguments of a formula with their defaults; None where one has to be given."""
    found = inspect.signature(FORMULAS[name]).parameters.values()
    return {one.name: None if one.default is inspect.Parameter.empty else one.default for one in found}


def formula_value(name: str, arguments: dict[str, Any]) -> float:
    """Return the value of a formula. Raises ValueError for a word that it does not know."""
    return float(FORMULAS[name](**arguments))
