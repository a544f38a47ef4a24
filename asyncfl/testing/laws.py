"""Checks that rules, detectors, attacks and staleness functions keep the laws of their base classes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
from msgspec import Struct
from msgspec.structs import asdict
from numpy.typing import ArrayLike, NDArray
from pydantic import ValidationError

from asyncfl.base.arrays import Floats, Vector
from asyncfl.base.component import Component
from asyncfl.defences import Buffer, DefenceContext, Detector, Rule, Verdict
from asyncfl.extras.stress.stress_test import stress
from asyncfl.extras.stress.trials import Trial
from asyncfl.protocol.staleness import Staleness
from asyncfl.testing.builders import buffer, context, random, updates, view, weights
from asyncfl.testing.detector_behaviour import Dependence, faults, judged
from asyncfl.threats import Attack, AttackView

Scores: TypeAlias = Callable[[int, Vector], ArrayLike | None]
"""(client, models (n_models, n_parameters)) -> (n_models,) scores; None: the client does not answer."""

SIZES = ((1, 1), (5, 1), (8, 4), (13, 3), (20, 7))
"""(n_updates, n_parameters) of the buffers that a rule is checked with."""
CLIENTS = 12
CLASSES = 10


def require(condition: bool | np.bool_, component: Component, law: str, seen: object = None) -> None:
    """Raise AssertionError unless `condition`, with the message "<class>: <law>; <seen>"."""
    if not condition:
        raise AssertionError(f"{type(component).__name__}: {law}{'' if seen is None else f'; {seen}'}")


@contextmanager
def unchanged(component: Component, law: str, *values: Any) -> Iterator[None]:
    """Raise AssertionError if the component changes one of `values` inside the context."""
    before = copy.deepcopy(values)
    yield
    require(same(values, before), component, law)


def close(one: NDArray[np.floating], other: NDArray[np.floating]) -> bool:
    """Return whether two float32 vectors are equal up to rounding."""
    return np.allclose(one, other, rtol=1e-4, atol=1e-5)


def same(left: Any, right: Any) -> bool:
    """Return whether two values are equal: arrays, dataclasses and structs by content, generators by their state."""
    if isinstance(left, np.random.Generator) and isinstance(right, np.random.Generator):
        return same(left.bit_generator.state, right.bit_generator.state)
    if isinstance(left, np.ndarray) or isinstance(right, np.ndarray):
        left, right = np.asarray(left), np.asarray(right)
        return left.dtype == right.dtype and np.array_equal(left, right, equal_nan=left.dtype.kind in "fc")
    if type(left) is not type(right):
        return False
    if is_dataclass(left):
        return all(same(getattr(left, one.name), getattr(right, one.name)) for one in fields(left))
    if isinstance(left, Struct):
        return same(asdict(left), asdict(right))
    if isinstance(left, Mapping):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right) or (left != left and right != right)


def check_description(component: Component, base: type[Component]) -> None:
    """Raise AssertionError unless the component derives from `base`, has a kind, is frozen, and survives writing."""
    require(isinstance(component, base), component, f"must derive from {base.__name__}")
    kind = getattr(component, "kind", None)
    require(isinstance(kind, str) and bool(kind), component, "must have a field kind: str", f"got {kind!r}")
    require(type(component).model_config.get("frozen") is True, component, "must stay frozen; keep memory in a state")
    try:
        again = type(component).model_validate(component.model_dump(mode="json"))
    except ValidationError as error:
        law = "must be readable from its own description"
        raise AssertionError(f"{type(component).__name__}: {law}; {error}") from None
    law = "must be the same after it is written and read"
    require(same(again, component), component, law, f"{component} -> {again}")


def check_staleness(
    staleness: Staleness,
    *,
    like: Mapping[int, float] = MappingProxyType({}),
    within: float = 0.01,
    oldest: int = 1000,
    falling: bool = True,
) -> None:
    """Raise AssertionError with the first law that `staleness` violates.

    The laws: it is frozen and can be written and read; a fresh update has weight 1; weights are (n_updates,) float64 in
    0..1; each weight depends only on the staleness of its update; the argument is not changed. `falling`: whether a
    staler update must not weigh more. `oldest`: largest staleness up to which each is checked, versions; beyond it some
    are, up to a thousand million. `like`: staleness -> weight by the formula, at least at the boundaries of its pieces
    and at one age of each piece, since no law knows the formula: `like={1: 0.71, 4: 0.45}` for (1 + s)^-1/2. `within`:
    how far a weight may be from it.
    """
    check_description(staleness, Staleness)
    much_older = np.geomspace(oldest + 1, max(1e9, oldest + 1), 200).astype(np.int64)
    ages = np.unique(np.concatenate([np.arange(oldest + 1), much_older]))
    ages.flags.writeable = False
    weight = staleness.weight(ages)
    right = isinstance(weight, np.ndarray) and weight.shape == ages.shape and weight.dtype == np.float64
    seen = f"got {getattr(weight, 'shape', type(weight).__name__)} {getattr(weight, 'dtype', '')}"
    require(right, staleness, f"weights of {ages.shape} updates must be {ages.shape} float64", seen)
    require(weight[0] == 1, staleness, "a fresh update must weigh 1", f"it weighs {weight[0]}")
    for place in np.flatnonzero(~((weight >= 0) & (weight <= 1))).tolist():
        require(
            False, staleness, "weights must be 0..1", f"an update {ages[place]} versions old weighs {weight[place]}"
        )
    for place in (np.flatnonzero(np.diff(weight) > 0) + 1).tolist() if falling else ():
        seen = f"{weight[place - 1]} at {ages[place - 1]} versions, {weight[place]} at {ages[place]}"
        require(False, staleness, "an older update must not weigh more", seen)
    for age, wanted in like.items():
        [got] = staleness.weight(np.array([age]))
        seen = f"it weighs {got:.6g}"
        require(abs(got - wanted) <= within, staleness, f"an update {age} versions old must weigh {wanted:g}", seen)
    mixed = np.array([3, 0, oldest, 3, 1])
    alone = np.concatenate([staleness.weight(mixed[place : place + 1]) for place in range(len(mixed))])
    together = staleness.weight(mixed)
    law = "each weight must depend on its own age alone"
    require(np.array_equal(together, alone), staleness, law, f"{together}, {alone}")
    require(staleness.weight(ages[:0]).shape == (0,), staleness, "no update must give no weight")


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
        known = context(20, n_parameters) if federation is None else replace(federation, n_parameters=n_parameters)

        def step(held: Buffer, factors: Floats, known: DefenceContext = known) -> tuple[Vector, Floats]:
            aggregate, _ = rule.step(rule.start(known, random()), held, factors)
            return aggregate.update, aggregate.weights

        held = buffer(
            updates(n, n_parameters, poisoned=n // 4, seed=number),
            clients=[client % 20 for client in range(n)],
            staleness=[row % 3 for row in range(n)],
            samples=[50 + 10 * row for row in range(n)],
        )
        senders, ages, samples = held.clients.tolist(), held.staleness.tolist(), held.samples.tolist()
        factors = weights(held)
        factors.flags.writeable = False
        out, weighed = _check_call(rule, rule.start(known, random()), held, factors)
        again = step(held, factors)[0]
        require(same(again, out), rule, "equal calls must give equal aggregates", f"{out}, then {again}")
        if rule.is_linear:
            expected = factors @ held.deltas
            right = close(out, expected) and same(weighed, factors)
            require(right, rule, "is_linear: must be the weighted sum of the updates", f"{out}, not {expected}")
        if rule.is_coordinatewise:
            # Permute the values of each parameter between the updates, independently for each parameter.
            places, even = random(7), np.full(n, factors.sum() / n)
            mixed = np.stack([places.permutation(column) for column in held.deltas.T], axis=1)
            one, other = (step(buffer(rows, clients=senders), even)[0] for rows in (held.deltas, mixed))
            law = "is_coordinatewise: values of a parameter may be permuted between updates"
            require(close(one, other), rule, law, f"{one} or {other}")
        if any_order:
            order = random(number).permutation(n)
            other, _ = step(held.only(order), factors[order])
            seen = f"{n} updates: {out} or {other}"
            require(close(other, out), rule, "the order of the updates must not matter", seen)
        if n > least_updates:
            without, strange = factors.copy(), held.deltas.copy()
            without[-1], strange[-1] = 0.0, 50.0
            one, weighed = step(held, without)
            other, _ = step(buffer(strange, clients=senders, staleness=ages, samples=samples), without)
            law = "an update of weight 0 must have no influence"
            require(close(one, other), rule, law, f"{one}, or {other} with another value")
            require(weighed[-1] == 0, rule, "an update of weight 0 must weigh nothing", f"it weighs {weighed[-1]}")
        none, _ = step(held, np.zeros(n))
        require(not none.any(), rule, "zero weights must give a zero aggregate", f"got {none}")
        if fixed_point:
            one, _ = step(buffer(np.tile(held.deltas[:1], (n, 1)), clients=senders), factors)
            expected = factors.sum() * held.deltas[0]
            law = "equal updates must give their value times the sum of the weights"
            require(close(one, expected), rule, law, f"{one}, not {expected}")


def _check_call(rule: Rule, state: Any, held: Buffer, factors: Floats) -> tuple[Vector, Floats]:
    """Check one call of the rule on a buffer, and return its aggregate and weights. `factors`: (n_updates,) weights."""
    with (
        unchanged(rule, "the state must not be changed but returned anew", state),
        unchanged(rule, "buffer and weights must not be changed", held, factors),
    ):
        aggregate, after = rule.step(state, held, factors)
        out, weighed, shape = aggregate.update, aggregate.weights, held.current.shape
        right = out.shape == shape and out.dtype == np.float32
        require(right, rule, f"the aggregate must be {shape} float32", f"got {out.shape} {out.dtype}")
        require(np.isfinite(out).all(), rule, "finite updates must give a finite aggregate", f"got {out}")
        require(weighed.shape == factors.shape, rule, "weights must be one per update", f"got {weighed.shape}")
        require((weighed >= 0).all(), rule, "weights must be >= 0", f"got {weighed.min()}")
        total, mass = float(weighed.sum()), float(factors.sum())
        law = "weights must not sum to more than the given weights"
        require(total <= mass * (1 + 1e-6), rule, law, f"{total} from {mass}")
    with unchanged(rule, "a ban must not change the state but return it anew", after):
        following = rule.forget_client(after, int(held.clients[0]))
    rule.step(following, held, factors)
    return out, weighed


def check_detector(
    detector: Detector,
    *,
    scores: Scores | None = None,
    federation: DefenceContext | None = None,
    trials: Iterable[Trial] = (),
    must_find: float | None = 0.5,
    depends_on: Collection[Dependence] = (),
) -> None:
    """Raise AssertionError with the first law that `detector` violates.

    The detector judges six buffers one after another: with one and with many updates, fresh and stale, honest and
    poisoned, several from one client; one client is banned in between. The laws: the detector is frozen and can be
    written and read; verdicts have one entry per update; buffers and states are not changed; equal histories give equal
    verdicts; a score request goes to a client that was not asked before, and requests end; the detector copes with
    clients that never answer. In eight buffers of all clients, whom it strikes depends neither on the order of updates,
    nor on the clients' numbers, nor on the place of the models, nor on their unit; honest updates are not left out for
    their age, up to 20 versions; and it finds a gross attack.

    `scores`: answers of clients to score requests, by default an accuracy that falls with the distance from 1.
    `federation`: context that the detector is started with, for 12 clients and 4 parameters; None: one without a root
    set. `trials`: small federations in which the detector must do no harm (`asyncfl.extras.stress.stress_test`), e.g.
    `stress_grid()`, which takes a minute. `must_find`: share 0..1 of the updates of a gross attack (a third of the
    clients send minus ten times what the others send) that must be flagged or struck; None: a detector that looks for
    something else. `depends_on`: what verdicts depend on by design, of `order`, `numbering`, `model`,
    `scale`, `age`; other names raise ValueError.
    """
    check_description(detector, Detector)
    known = context(CLIENTS) if federation is None else federation
    answer = scores or (lambda client, models: 1 / (1 + np.abs(models - 1).mean(axis=1)))
    verdicts, again = (_judged(detector, known, answer) for _ in range(2))
    require(same(verdicts, again), detector, "equal buffers and equal streams must give equal verdicts")
    _judged(detector, known, lambda client, models: None)
    behaviour = faults(
        *(detector, known, lambda one, state, held: _asked(one, state, held, answer)),
        must_find=must_find,
        depends_on=depends_on,
    )
    for law, seen in behaviour:
        require(False, detector, law, seen)
    if chosen := tuple(trials):
        report = stress(detector, trials=chosen)
        require(not report.violations, detector, "must do no harm", "; ".join(report.violations))


def _judged(detector: Detector, known: DefenceContext, answer: Scores) -> list[Verdict]:
    """Let the detector judge six buffers, check each verdict, and return the verdicts. `answer`: scores of clients."""
    state, verdicts = detector.start(known, random()), []
    sizes = ((1, 0, 0), (8, 0, 0), (8, 2, 2), (5, 0, 3), (12, 4, 1), (10, 1, 4))
    for number, (n, poisoned, oldest) in enumerate(sizes):
        ages = [min(row % (oldest + 1), number) for row in range(n)]
        # Some clients send twice. The last updates are poisoned.
        senders = [(row * 7 + number) % (CLIENTS - 2) for row in range(n)]
        deltas = updates(n, known.n_parameters, poisoned=poisoned, seed=number)
        held = buffer(deltas, clients=senders, staleness=ages, version=number, current=0.1 * number)
        state, given = _asked(detector, state, held, answer)
        with (
            unchanged(detector, "the state must not be changed but returned anew", state),
            unchanged(detector, "a buffer must not be changed", held),
        ):
            verdict, after = judged(detector, state, held, given)
        _check_verdict(detector, verdict, held)
        verdicts.append(verdict)
        state = after
        if number == 3:
            with unchanged(detector, "a ban must not change the state but return it anew", after):
                state = detector.forget_client(after, senders[0])
    return verdicts


def _asked(detector: Detector, state: Any, held: Buffer, answer: Scores) -> tuple[Any, Floats | None]:
    """Carry out the detector's score requests for `held` until a client answers or the detector asks no more.

    Returns the next state, and the scores; None: no client answered, or none was asked.
    """
    tried: tuple[int, ...] = ()
    while True:
        with (
            unchanged(detector, "the state must not be changed by a request but returned anew", state),
            unchanged(detector, "a buffer must not be changed", held),
        ):
            request, following = detector.request(state, held, tried)
        state = following
        if request is None:
            return state, None
        client, shape = request.client, request.models.shape
        require(0 <= client < CLIENTS, detector, f"must ask a client 0..{CLIENTS - 1}", f"asks {client}")
        require(client not in tried, detector, "must not ask a client again that did not answer", client)
        right = len(shape) == 2 and shape[1] == len(held.current)
        require(right, detector, f"models to be scored must be (n_models, {len(held.current)})", f"got {shape}")
        given = answer(client, request.models)
        if given is not None:
            return state, np.asarray(given, dtype=np.float64)
        tried = (*tried, client)  # each client once, so the loop ends


def _check_verdict(detector: Detector, verdict: Verdict, held: Buffer) -> None:
    n = len(held)
    for name in ("flagged", "strikes"):
        array = getattr(verdict, name)
        right = isinstance(array, np.ndarray) and array.shape == (n,) and array.dtype == bool
        seen = f"got {getattr(array, 'shape', type(array).__name__)} {getattr(array, 'dtype', '')}"
        require(right, detector, f"{name} must be ({n},) bool", seen)
    if verdict.unjudged is not None:
        right = verdict.unjudged.shape == (n,) and not bool((verdict.unjudged & verdict.strikes).any())
        require(right, detector, f"unjudged must be ({n},) and not struck", f"got {verdict.unjudged}")
        let_in = bool((verdict.unjudged & ~verdict.flagged).any())
        require(detector.abstains or not let_in, detector, "abstains must be True where unjudged updates are let in")
    if verdict.weights is not None:
        right = verdict.weights.shape == (n,) and bool((verdict.weights >= 0).all())
        require(right, detector, f"weights must be ({n},), each >= 0", f"got {verdict.weights}")
    if verdict.correction is not None:
        right = verdict.correction.shape == held.current.shape and bool(np.isfinite(verdict.correction).all())
        require(right, detector, f"correction must be {held.current.shape} and finite", f"got {verdict.correction}")
    require(len(verdict.details) in (0, n), detector, "details must be one text per update, or none")
    numbers = all(isinstance(name, str) and np.isscalar(value) for name, value in verdict.notes.items())
    require(numbers, detector, "notes must be numbers by name", f"got {verdict.notes}")


def check_attack(
    attack: Attack, *, finite: bool = True, any_order: bool = False, shape: tuple[int, int, int] = (1, 8, 8)
) -> None:
    """Raise AssertionError with the first law that `attack` violates.

    The laws: the attack is frozen and can be written and read; uploads are (n_attackers, n_parameters) float32, also
    without attackers; an algorithm's further vectors keep their shape; poisoned data have the shape, type and classes
    of the data; answers to score requests are scores 0..1; inputs are not changed; equal calls give equal results;
    attackers are at least as fast as honest clients.

    `finite`: whether uploads must be finite, also beside a diverged update in the buffer. `any_order`: whether the
    order of the attackers must not matter (not for attacks that draw). `shape`: (channels, height, width) of images.
    """
    check_description(attack, Attack)
    faults = list(attack.faults(CLASSES, shape))
    require(not faults, attack, f"must work on images of {shape}", "; ".join(map(str, faults)))
    require(attack.sees in ("own", "colluders", "buffer"), attack, "sees must be own, colluders or buffer", attack.sees)
    require(attack.rate >= 1, attack, "rate must be >= 1", f"got {attack.rate}")

    def seen(honest: Vector | None, others: Vector | None) -> AttackView:
        whole = view(honest, others, current=0.5)
        if attack.sees == "buffer":
            return whole
        known = whole.honest if attack.sees == "colluders" else np.empty((0, 4))
        return view(whole.honest, known, current=0.5, collected=whole.collected)

    def crafted(given: AttackView) -> Vector:
        made = attack.craft(given)
        return given.honest if made is None else made

    several = np.array([[1, 2, -3, 0.5], [2, 0, -1, 0.25], [0, 1, -2, 4]], dtype=np.float32)
    diverged = np.array([[1, 1, 1, 1], [np.nan, 1, np.inf, 1], [2, 1, 0, 1]], dtype=np.float32)
    for honest, others in ((None, None), (several, None), (several[:1], None), (several, diverged)):
        given = seen(honest, others)
        with unchanged(attack, "a view must not be changed", given.honest, given.known, given.bases, given.current):
            made = crafted(given)
        right = made.shape == given.honest.shape and made.dtype == np.float32
        require(right, attack, f"uploads must be {given.honest.shape} float32", f"got {made.shape} {made.dtype}")
        law = "equal views and equal streams must give equal uploads"
        require(same(made, crafted(seen(honest, others))), attack, law)
        require(not finite or bool(np.isfinite(made).all()), attack, "uploads must be finite", f"got {made}")
    if any_order:
        order = [2, 0, 1]
        one, other = crafted(seen(several, None))[order], crafted(seen(several[order], None))
        require(close(one, other), attack, "the order of the attackers must not matter", f"{one}, {other}")
    _check_poison(attack, shape)
    payload = several.copy()
    with unchanged(attack, "payloads must not be changed", payload):
        vectors = np.asarray(attack.craft_payload("name", payload))
    require(vectors.shape == payload.shape, attack, f"payloads must be {payload.shape}", f"got {vectors.shape}")
    law = "equal payloads must give equal payloads"
    require(same(vectors, np.asarray(attack.craft_payload("name", payload))), attack, law)
    truth = np.linspace(0.1, 0.9, 7)
    truth.flags.writeable = False
    answers = np.asarray(attack.lie(truth, random()))
    right = answers.shape == truth.shape and bool(((answers >= 0) & (answers <= 1)).all())
    require(right, attack, "lie must return one score 0..1 per model", f"got {answers}")
    require(attack.lies or same(answers, truth), attack, "must set its property lies")


def _check_poison(attack: Attack, shape: tuple[int, int, int]) -> None:
    images, labels = random().standard_normal((24, *shape)).astype(np.float32), np.arange(24) % CLASSES
    images.flags.writeable = labels.flags.writeable = False
    poisoned, given = attack.poison(images, labels, CLASSES, random(1))
    right = poisoned.shape == images.shape and poisoned.dtype == np.float32 and given.shape == labels.shape
    seen = f"images {poisoned.shape} {poisoned.dtype}, labels {given.shape}"
    require(right, attack, "poisoned data must have the shape and type of the data", seen)
    classes = bool(given.dtype.kind == "i" and given.min() >= 0 and given.max() < CLASSES)
    require(classes, attack, f"labels must be classes 0..{CLASSES - 1}", f"got {given}")
    again = attack.poison(images, labels, CLASSES, random(1))
    require(same(list(again), [poisoned, given]), attack, "equal data and equal streams must give equal poison")
    triggered, law = attack.triggered(images), "a trigger needs a target class, and a target a trigger"
    require((triggered is None) == (attack.target is None), attack, law)
    right = triggered is None or triggered.shape == images.shape
    require(right, attack, "triggered images must have the shape of images")
