"""How the aggregate of a buffer enters the global model: five readings of one paper, and the rates of its rivals.

Notation: w the global model, w_i the i-th update's model, b_i the version it was trained from, s_i its staleness
weight, |D_i| the number of its client's samples. `delta` and `mix` leave w alone when every w_i equals it (the fixed
point that any averaging must have); the literal readings of SAFL (algorithm 4, equation 6) do not, and are kept to
show what that costs.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from asyncfl.defences.mean import Mean
from asyncfl.defences.rule import Rule
from asyncfl.messages import Vector

Reading: TypeAlias = Literal["delta", "mix", "normalised", "alg4_literal", "eq6_literal"]
Divisor: TypeAlias = Literal["buffer", "weight_sum"]


def weights(
    samples: NDArray[np.int64], staleness_weight: NDArray[np.float64], divisor: Divisor = "buffer"
) -> NDArray[np.float64]:
    """Factor of each update in the aggregate.

    `samples`: (n,) |D_i|; `staleness_weight`: (n,) s_i. `buffer` divides s_i |D_i| by the sum of |D_i|: a buffer of
    stale updates then moves the model less. `weight_sum` divides by the sum of s_i |D_i|: it moves as far as fresh
    ones.
    """
    weighed = staleness_weight * samples
    total = float(samples.sum() if divisor == "buffer" else weighed.sum())
    return weighed / total


def apply_updates(
    current: Vector,
    models: Vector,
    bases: list[Vector],
    base_of: NDArray[np.int64],
    factors: NDArray[np.float64],
    rule: Rule,
    *,
    reading: Reading = "delta",
    rate: float = 1.0,
) -> Vector:
    """The next global model.

    `current`: (d,) w. `models`: (n, d) w_i as uploaded. `bases`: the distinct versions they were trained from, each
    (d,); `base_of`: (n,) index into `bases`. `factors`: (n,) from `weights`. `rate`: server rate (FedBuff's eta_g,
    FedAsync's mixing rate alpha). Returns (d,) float32; nothing is changed in place.

    `delta` (default): w + rate * rule(w_i - b_i). `mix`: the same against w instead of b_i; an old update then pulls
    the model back to where it started. `normalised`: the mean of the models themselves, forgetting w. The literal
    readings take the weighted sum only, since they say nothing of other rules.
    """
    if reading == "alg4_literal":
        # Algorithm 4 adds whole models to w: with everything equal to w the result is 2 w.
        return current + factors.astype(np.float32) @ models
    if reading == "eq6_literal":
        # Equation 6 forgets w and its weights do not add up to one: stale buffers shrink the model.
        return factors.astype(np.float32) @ models
    if reading == "normalised":
        return np.asarray((factors / factors.sum()).astype(np.float32) @ models)
    if isinstance(rule, Mean):
        # The weighted sum needs no matrix of differences: sum f_i (w_i - b_i) = sum f_i w_i - sum over bases.
        step = factors.astype(np.float32) @ models
        if reading == "mix":
            step -= np.float32(factors.sum()) * current
        else:
            for index, base in enumerate(bases):
                step -= np.float32(factors[base_of == index].sum()) * base
    else:
        step = rule.aggregate(differences(models, [current] if reading == "mix" else bases, base_of), factors)
    return np.asarray(current + np.float32(rate) * step, dtype=np.float32)


def differences(models: Vector, bases: list[Vector], base_of: NDArray[np.int64]) -> Vector:
    """What each client changed: (n, d) float32, `models` less the base each was trained from."""
    updates = np.empty_like(models)
    for row, model in enumerate(models):
        np.subtract(model, bases[int(base_of[row]) if len(bases) > 1 else 0], out=updates[row])
    return updates
