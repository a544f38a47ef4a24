"""Check that an aggregation rule keeps the laws of `asyncfl.defences.rule`."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np

from asyncfl.base.messages import Floats, Vector
from asyncfl.defences import Buffer, DefenceContext, Rule
from asyncfl.testing.builders import buffer, context, random, updates, weights
from asyncfl.testing.laws import check_description, close, deep_copies, require, same

SIZES = ((1, 1), (5, 1), (8, 4), (13, 3), (20, 7))
"""(n_updates, n_parameters) of the buffers that a rule is checked with."""


def check_rule(
    rule: Rule,
    *,
    any_order: bool = True,
    fixed_point: bool = True,
    least_updates: int = 1,
    federation: DefenceContext | None = None,
) -> None:
    """Raise AssertionError with the first law that `rule` violates.

    The laws of all rules: the rule is frozen and can be written and read; the aggregate is (n_parameters,) float32 and
    finite; the returned weights are (n_updates,), >= 0, and sum to at most the given weights; equal calls give equal
    results; buffer, weights and state are not changed; an update of weight 0 has no influence; zero weights give a zero
    aggregate; a rule with `is_linear` is the weighted sum, and one with `is_coordinatewise` treats each parameter
    separately.

    `any_order`: whether the order of arrival must not matter. `fixed_point`: whether equal updates u with weights w
    must give sum(w) u; False for rules that compare with something outside the buffer. `least_updates`: size of
    the smallest buffer to check. `federation`: context that the rule is started with, for 20 clients; None: one without
    a root set.
    """
    check_description(rule, Rule)
    for number, (n, n_parameters) in enumerate(size for size in SIZES if size[0] >= least_updates):
        defence_context = _sized(federation, n_parameters)
        held = buffer(
            updates(n, n_parameters, poisoned=n // 4, seed=number),
            clients=[client % 20 for client in range(n)],
            staleness=[row % 3 for row in range(n)],
            samples=[50 + 10 * row for row in range(n)],
        )
        factors = weights(held)
        factors.flags.writeable = False
        moved = _check_call(rule, defence_context, held, factors)
        _check_properties(rule, defence_context, held, factors, moved)
        if any_order:
            order = random(number).permutation(n)
            other, _ = _step(rule, defence_context, held.only(order), factors[order])
            alike = close(other, moved)
            require(alike, rule, "the order of the updates must not matter", f"{n} updates: {moved} or {other}")
        if n > least_updates:
            _check_absent(rule, defence_context, held, factors)
        none, _ = _step(rule, defence_context, held, np.zeros(n))
        require(not none.any(), rule, "zero weights must give a zero aggregate", f"got {none}")
        if fixed_point:
            equal = buffer(np.tile(held.deltas[:1], (n, 1)), clients=held.clients.tolist())
            out, _ = _step(rule, defence_context, equal, factors)
            expected = factors.sum() * held.deltas[0]
            law = "equal updates must give their value times the sum of the weights"
            require(close(out, expected), rule, law, f"{out}, not {expected}")


def _check_call(rule: Rule, defence_context: DefenceContext, held: Buffer, factors: Floats) -> Vector:
    """Check one call of the rule on a buffer, and return its aggregate. `factors`: (n_updates,) weights of updates."""
    state = rule.start(defence_context, random())
    before = deep_copies((state, held, factors))
    aggregate, after = rule.step(state, held, factors)
    out, weighed = aggregate.update, aggregate.weights
    shape = (held.models.shape[1],)
    require(
        out.shape == shape and out.dtype == np.float32,
        rule,
        f"the aggregate must be {shape} float32",
        f"got {out.shape} {out.dtype}",
    )
    require(np.isfinite(out).all(), rule, "finite updates must give a finite aggregate", f"got {out}")
    require(weighed.shape == factors.shape, rule, "weights must be one per update", f"got {weighed.shape}")
    require((weighed >= 0).all(), rule, "weights must be >= 0", f"got {weighed.min()}")
    total, mass = float(weighed.sum()), float(factors.sum())
    require(
        total <= mass * (1 + 1e-6), rule, "weights must not sum to more than the given weights", f"{total} from {mass}"
    )
    require(same(held, before[1]) and same(factors, before[2]), rule, "buffer and weights must not be changed")
    require(same(state, before[0]), rule, "the state must not be changed but returned anew")
    again, _ = rule.step(copy.deepcopy(before[0]), held, factors)
    require(same(again.update, out), rule, "equal calls must give equal aggregates", f"{out}, then {again.update}")
    kept = copy.deepcopy(after)
    following = rule.forget_client(after, int(held.clients[0]))
    require(same(after, kept), rule, "a ban must not change the state but return it anew")
    rule.step(following, held, factors)
    return out


def _check_properties(
    rule: Rule, defence_context: DefenceContext, held: Buffer, factors: Floats, moved: Vector
) -> None:
    """Check the laws that the server relies on where `is_linear` or `is_coordinatewise` is True.

    `factors`: (n_updates,) weights of updates. `moved`: aggregate of the rule for them.
    """
    if rule.is_linear:
        _, weighed = _step(rule, defence_context, held, factors)
        expected = factors @ held.deltas
        right = close(moved, expected) and same(weighed, factors)
        require(right, rule, "is_linear: must be the weighted sum of the updates", f"{moved}, not {expected}")
    if rule.is_coordinatewise:
        # Permute the values of each parameter between the updates, independently for each parameter.
        n, places = len(held), random(7)
        mixed = np.stack([places.permutation(column) for column in held.deltas.T], axis=1)
        even = np.full(n, factors.sum() / n)
        one, other = (
            _step(rule, defence_context, buffer(rows, clients=held.clients.tolist()), even)[0]
            for rows in (held.deltas, mixed)
        )
        law = "is_coordinatewise: values of a parameter may be permuted between updates"
        require(close(one, other), rule, law, f"{one} or {other}")


def _check_absent(rule: Rule, defence_context: DefenceContext, held: Buffer, factors: Floats) -> None:
    without = factors.copy()
    without[-1] = 0.0
    last = len(held) - 1
    out, weighed = _step(rule, defence_context, held, without)
    strange = held.deltas.copy()
    strange[-1] = 50.0
    other = buffer(
        strange,
        clients=held.clients.tolist(),
        staleness=held.staleness.tolist(),
        samples=held.samples.tolist(),
    )
    changed, _ = _step(rule, defence_context, other, without)
    law = "an update of weight 0 must have no influence"
    require(close(out, changed), rule, law, f"{out}, or {changed} with another value")
    require(weighed[last] == 0, rule, "an update of weight 0 must weigh nothing", f"it weighs {weighed[last]}")


def _step(rule: Rule, defence_context: DefenceContext, held: Buffer, factors: Floats) -> tuple[Vector, Floats]:
    aggregate, _ = rule.step(rule.start(defence_context, random()), held, factors)
    return aggregate.update, aggregate.weights


def _sized(federation: DefenceContext | None, n_parameters: int) -> DefenceContext:
    return context(20, n_parameters) if federation is None else replace(federation, n_parameters=n_parameters)
