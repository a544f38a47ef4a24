"""How the aggregate of a buffer enters the global model: five readings of one paper, and the rates of its rivals.

Notation: w the global model, w_i the i-th update's model, b_i the version it was trained from, s_i its staleness
weight, |D_i| the number of its client's samples. `delta` and `mix` leave w alone when every w_i equals it (the fixed
point that any averaging must have); the literal readings of SAFL (algorithm 4, equation 6) do not, and are kept to
show what that costs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from asyncfl.answers import numbers, with_state
from asyncfl.component import kind_of
from asyncfl.defences import Aggregate, Buffer, Rule
from asyncfl.errors import Fault
from asyncfl.messages import Vector

AggregationMode: TypeAlias = Literal["delta", "mix", "normalised", "alg4_literal", "eq6_literal"]
Divisor: TypeAlias = Literal["buffer", "weight_sum"]
Partial: TypeAlias = Literal["whole", "work", "normalised"]

WITH_RATE: tuple[AggregationMode, ...] = ("delta", "mix")
"""Readings that know a server rate; the others put what they compute in place of the model, or add it whole."""
WITHOUT_RULE: tuple[AggregationMode, ...] = ("alg4_literal", "eq6_literal")
"""Readings that are a weighted sum, and leave no place for another rule."""


def weights(
    samples: NDArray[np.int64] | NDArray[np.float64], staleness_weight: NDArray[np.float64], divisor: Divisor = "buffer"
) -> NDArray[np.float64]:
    """Factor of each update in the aggregate.

    `samples`: (n,) |D_i|, times the work done where that counts; `staleness_weight`: (n,) s_i. `buffer` divides
    s_i |D_i| by the sum of |D_i|: a buffer of stale updates then moves the model less. `weight_sum` divides by the sum
    of s_i |D_i|: it moves as far as fresh ones.
    """
    weighed = staleness_weight * samples
    total = float(samples.sum() if divisor == "buffer" else weighed.sum())
    # Nothing but updates that are too old to count: they move nothing.
    return weighed / total if total else weighed


def partial_weights(
    factors: NDArray[np.float64], samples: NDArray[np.int64], work: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Factors of updates that come of unequal work, so that nobody counts for more by having done more.

    FedNova (Wang et al. 2020, section 4) with epochs for steps: each update is divided by its own number of them, and
    their mean multiplied by the mean number, tau = sum_i |D_i| work_i / sum_i |D_i|. `factors`: (n,) from `weights`;
    `samples`: (n,) |D_i|; `work`: (n,) share of a task's epochs that was done, above 0 to 1. Where all have the same,
    nothing changes.
    """
    mean = float((samples * work).sum() / samples.sum())
    return factors * (mean / work)


@dataclass(frozen=True)
class ModelStep:
    """The next global model and how it came about."""

    model: Vector
    """(n_parameters,) float32."""
    weights: NDArray[np.float64]
    """(n_updates,) what each update weighed in the aggregate."""
    state: Any
    """What the rule remembers from now on."""
    notes: tuple[str, ...] = ()
    """What the rule found unusual."""


def next_model(
    buffer: Buffer,
    factors: NDArray[np.float64],
    rule: Rule,
    state: Any = None,
    reading: AggregationMode = "delta",
    rate: float = 1.0,
) -> ModelStep:
    """The global model after `buffer`.

    `factors`: (n_updates,) from `weights`. `state`: what `rule` remembers. `rate`: server rate (FedBuff's eta_g,
    FedAsync's mixing rate alpha). Nothing is changed in place.

    `delta` (default): w + rate * rule(w_i - b_i). `mix`: the same against w instead of b_i; an old update then pulls
    the model back to where it started. `normalised`: the rule on the models themselves, forgetting w. The literal
    readings take the weighted sum only, since they say nothing of other rules. `reading_faults` refuses what a reading
    has no place for.
    """
    models, current = buffer.models, buffer.current
    if reading == "alg4_literal":
        # Algorithm 4 adds whole models to w: with everything equal to w the result is 2 w.
        return ModelStep(current + _sum(factors, models), factors, state)
    if reading == "eq6_literal":
        # Equation 6 forgets w and its weights do not add up to one: stale buffers shrink the model.
        return ModelStep(_sum(factors, models), factors, state)
    if reading == "normalised":
        # Models are averaged (or put through the rule) as if they were differences from nothing.
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
        if reading == "mix":
            step -= np.float32(factors.sum()) * current
        else:
            for index, base in enumerate(buffer.bases):
                step -= np.float32(factors[buffer.base_of == index].sum()) * base
        return ModelStep(_moved(current, step, rate), factors, state)
    if reading == "mix":
        buffer = replace(buffer, origin=current)
    aggregate, state = _stepped(rule, state, buffer, factors)
    return ModelStep(_moved(current, aggregate.update, rate), aggregate.weights, state, aggregate.notes)


def partial_faults(partial_work: Partial, rule: Rule, field: str = "rule") -> Iterator[Fault]:
    """Factors above a mean's, with a rule that is none, fields named relative to the protocol.

    `field`: of the defence, that holds the rule.
    """
    if partial_work == "normalised" and not rule.is_linear:
        yield Fault(
            "partial_work",
            f"must be whole or work with {field} {kind_of(rule)}, got normalised, which makes updates longer than they "
            f"were sent; set it, or defence.{field} to mean",
        )


def reading_faults(reading: AggregationMode, rule: Rule, field: str = "rule") -> Iterator[Fault]:
    """A rule, of `field`, that `reading` would not use, fields named relative to the defence."""
    if reading in WITHOUT_RULE and not rule.is_linear:
        yield Fault(
            field,
            f"must be mean with protocol.aggregation {reading}, got {kind_of(rule)}: that reading is a weighted sum; "
            "set protocol.aggregation to delta, mix or normalised",
        )


def _stepped(rule: Rule, state: Any, buffer: Buffer, factors: NDArray[np.float64]) -> tuple[Aggregate, Any]:
    """What `rule` makes of `buffer`. Raises ComponentError for what cannot be used; a sum may overflow."""
    aggregate, state = with_state(rule, "step", rule.step(state, buffer, factors), Aggregate)
    numbers(rule, "aggregate", aggregate.update, buffer.current.shape)
    numbers(rule, "weigh", aggregate.weights, factors.shape, finite=True)
    return aggregate, state


def _sum(factors: NDArray[np.float64], models: Vector) -> Vector:
    return np.asarray(factors.astype(np.float32) @ models)


def _moved(current: Vector, step: Vector, rate: float) -> Vector:
    return np.asarray(current + np.float32(rate) * step, dtype=np.float32)
