"""Formulas by which the aggregate of a buffer enters the global model (aggregation modes).

Notation: w is the global model, w_i the model of the i-th update, b_i the version it was trained from, s_i its
staleness weight, |D_i| the number of its client's samples. `delta` and `mix` do not change w if every w_i equals it,
the fixed point that any averaging must have. The literal modes of SAFL (algorithm 4, equation 6) lack that fixed point,
and are kept to measure its effect.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.answers import numbers, with_state
from asyncfl.base.arrays import Vector
from asyncfl.base.component import kind_of
from asyncfl.base.errors import Fault
from asyncfl.defences import Aggregate, Buffer, Rule

AggregationMode: TypeAlias = Literal["delta", "mix", "normalised", "alg4_literal", "eq6_literal"]
Divisor: TypeAlias = Literal["buffer", "weight_sum"]
Partial: TypeAlias = Literal["whole", "work", "normalised"]

WITH_RATE: tuple[AggregationMode, ...] = ("delta", "mix")
"""Modes with a server rate. The others replace the model by the aggregate, or add it whole."""
WITHOUT_RULE: tuple[AggregationMode, ...] = ("alg4_literal", "eq6_literal")
"""Modes that are a weighted sum and cannot use another aggregation rule."""


def weights(
    samples: NDArray[np.int64] | NDArray[np.float64], staleness_weight: NDArray[np.float64], divisor: Divisor = "buffer"
) -> NDArray[np.float64]:
    """Compute the factor of each update in the aggregate.

    `samples`: (n,) |D_i|, times the work done where that counts; `staleness_weight`: (n,) s_i. With divisor `buffer`,
    s_i |D_i| is divided by the sum of |D_i|: a buffer of stale updates moves the model less. With `weight_sum` it is
    divided by the sum of s_i |D_i|: stale updates move the model as far as fresh ones.
    """
    weighed = staleness_weight * samples
    total = float(samples.sum() if divisor == "buffer" else weighed.sum())
    # All updates may be too stale to count: then the model does not move.
    return weighed / total if total else weighed


def partial_weights(
    factors: NDArray[np.float64], samples: NDArray[np.int64], work: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Adjust the factors of updates of unequal work, so that a client has no more influence for doing more epochs.

    FedNova (Wang et al. 2020, section 4) with epochs in place of steps: each update is divided by its own number of
    epochs, and the mean is multiplied by the mean number, tau = sum_i |D_i| work_i / sum_i |D_i|. `factors`: (n,) from
    `weights`; `samples`: (n,) |D_i|; `work`: (n,) share of a task's epochs that was done, above 0 to 1. Equal work
    changes nothing.
    """
    mean = float((samples * work).sum() / samples.sum())
    return factors * (mean / work)


@dataclass(frozen=True)
class ModelStep:
    """The next global model, with the weights that it was computed with."""

    model: Vector
    """(n_parameters,) float32."""
    weights: NDArray[np.float64]
    """(n_updates,) weight of each update in the aggregate."""
    state: Any
    """State of the rule after this step."""
    notes: tuple[str, ...] = ()
    """Unusual observations of the rule."""


def next_model(
    buffer: Buffer,
    factors: NDArray[np.float64],
    rule: Rule,
    state: Any = None,
    mode: AggregationMode = "delta",
    rate: float = 1.0,
) -> ModelStep:
    """Compute the next global model from the updates in `buffer`.

    `factors`: (n_updates,) from `weights`. `state`: the rule's state. `mode`: the formula. `rate`: server rate
    (FedBuff's eta_g, FedAsync's mixing rate alpha). Nothing is changed in place.

    `delta` (default): w + rate * rule(w_i - b_i). `mix`: the same with w in place of b_i; a stale update then pulls the
    model back towards its base. `normalised`: the rule applied to the models themselves, without w. The literal modes
    are weighted sums only. `mode_faults` refuses the rules that a mode cannot use.
    """
    models, current = buffer.models, buffer.current
    if rule.is_linear and not len(current) and mode in WITH_RATE:
        return ModelStep(current.copy(), factors, state)  # only the clock is simulated
    if mode == "alg4_literal":
        # Algorithm 4 adds whole models to w: with everything equal to w the result is 2 w.
        return ModelStep(current + _sum(factors, models), factors, state)
    if mode == "eq6_literal":
        # Equation 6 omits w, and its weights do not add up to one: stale buffers shrink the model.
        return ModelStep(_sum(factors, models), factors, state)
    if mode == "normalised":
        # The rule takes models as if they were differences from zero.
        if not factors.any():
            return ModelStep(current.copy(), factors, state)
        shares = factors / factors.sum()
        if rule.is_linear:
            return ModelStep(_sum(shares, models), shares, state)
        aggregate, state = _stepped(rule, state, replace(buffer, origin=np.zeros_like(current)), shares)
        return ModelStep(aggregate.update, aggregate.weights, state, aggregate.notes)
    if rule.is_linear:
        # The weighted sum needs no matrix of differences: sum f_i (w_i - b_i) = sum f_i w_i - sum over bases.
        step = _sum(factors, models)
        if mode == "mix":
            step -= np.float32(factors.sum()) * current
        else:
            for index, base in enumerate(buffer.bases):
                step -= np.float32(factors[buffer.base_of == index].sum()) * base
        return ModelStep(_moved(current, step, rate), factors, state)
    if mode == "mix":
        buffer = replace(buffer, origin=current)
    aggregate, state = _stepped(rule, state, buffer, factors)
    return ModelStep(_moved(current, aggregate.update, rate), aggregate.weights, state, aggregate.notes)


def model_of_sum(
    buffer: Buffer,
    total: NDArray[np.float64],
    integers: NDArray[np.int64],
    factors: NDArray[np.float64],
    mode: AggregationMode = "delta",
    rate: float = 1.0,
) -> ModelStep:
    """Compute the next global model from a securely aggregated sum, `delta` or `mix` (see `next_model`).

    `total`: (n_parameters,) sum of `integers`[i] (w_i - b_i); `integers`: (n_updates,) the weights in the field;
    `factors`: (n_updates,) from `weights`. The integers are scaled so that they add up to as much as the factors.
    """
    whole = int(integers.sum())
    unit = float(factors.sum()) / whole if whole else 0.0
    used, step = np.asarray(unit * integers, dtype=np.float64), (unit * total).astype(np.float32)
    if mode == "mix":
        for index, base in enumerate(buffer.bases):
            step += np.float32(used[buffer.base_of == index].sum()) * (base - buffer.current)
    return ModelStep(_moved(buffer.current, step, rate), used, None)


def partial_faults(partial_work: Partial, rule: Rule, field: str = "rule") -> Iterator[Fault]:
    """Yield a fault for normalised partial work with a rule that is not linear: its factors may exceed those of a mean.
    Fields are named relative to the protocol. `field`: the defence's field that holds the rule."""
    if partial_work == "normalised" and not rule.is_linear:
        yield Fault(
            "partial_work",
            f"must be whole or work with {field} {kind_of(rule)}, got normalised, which makes updates longer than they "
            f"were sent; set it, or defence.{field} to mean",
        )


def mode_faults(mode: AggregationMode, rule: Rule, field: str = "rule") -> Iterator[Fault]:
    """Yield a fault if `mode` would not use the rule in `field`. Fields are named relative to the defence."""
    if mode in WITHOUT_RULE and not rule.is_linear:
        yield Fault(
            field,
            f"must be mean with protocol.aggregation {mode}, got {kind_of(rule)}: that mode is a weighted sum; "
            "set protocol.aggregation to delta, mix or normalised",
        )


def _stepped(rule: Rule, state: Any, buffer: Buffer, factors: NDArray[np.float64]) -> tuple[Aggregate, Any]:
    """Apply `rule` to `buffer`. Raises ComponentError for an unusable result; a sum may overflow."""
    aggregate, state = with_state(rule, "step", rule.step(state, buffer, factors), Aggregate)
    numbers(rule, "aggregate", aggregate.update, buffer.current.shape)
    numbers(rule, "weigh", aggregate.weights, factors.shape, finite=True)
    return aggregate, state


def _sum(factors: NDArray[np.float64], models: Vector) -> Vector:
    return np.asarray(factors.astype(np.float32) @ models)


def _moved(current: Vector, step: Vector, rate: float) -> Vector:
    return np.asarray(current + np.float32(rate) * step, dtype=np.float32)
