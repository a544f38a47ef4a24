"""What a detector's verdicts may depend on, and whether it finds an attack that nobody could overlook.

Each check changes a history of buffers in a way that must not change whom the detector strikes, or not much: a reversed
comparison, memory by row in place of client, or differences that ignore the base models show up here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.arrays import Bools, Floats, Ints, Vector
from asyncfl.defences import Buffer, DefenceContext, Detector
from asyncfl.testing.builders import buffer, random, read_only, updates

Dependence: TypeAlias = Literal["order", "numbering", "model", "age"]
"""What verdicts may depend on: the order of updates in a buffer, the numbers of clients, the place of the models in the
space of parameters, the age of honest updates."""
Answers: TypeAlias = Callable[[Detector, Any, Buffer], tuple[Any, Floats | None]]
"""(detector, state, buffer) -> the next state and the scores that clients answered with; None: none."""

ROUNDS = 8
LEARNS = 4
"""Buffers after which a gross attack must be found: a detector may compare with what it saw before."""
SHIFT = 4.0
"""Number that is added to all parameters of all models. A power of two costs float32 few bits."""
MAJORITY = 0.5


def faults(
    detector: Detector,
    known: DefenceContext,
    answers: Answers,
    *,
    must_find: float | None,
    depends_on: Collection[Dependence],
) -> Iterator[tuple[str, str]]:
    """Yield each law that `detector` violates, and what was seen. See `asyncfl.testing.check_detector`."""
    told = list(_history(known, poisoned=known.clients // 3))
    verdicts = _struck(detector, known, answers, told)
    shuffled = np.random.default_rng(1)
    if "order" not in depends_on:
        orders = [shuffled.permutation(len(one)) for one in told]
        again = _struck(detector, known, answers, [_rows(one, order) for one, order in zip(told, orders, strict=True)])
        yield from _differences(
            [one[order] for one, order in zip(verdicts, orders, strict=True)],
            again,
            "the order of updates in a buffer must not matter; a memory must be of clients, not of rows",
        )
    if "numbering" not in depends_on:
        number = shuffled.permutation(known.clients)
        renamed = [replace(one, clients=read_only(number[one.clients], np.int64)) for one in told]
        again = _struck(detector, known, answers, renamed)
        yield from _differences(verdicts, again, "the numbers of equal clients must not matter")
    if "model" not in depends_on and known.root_gradient is None:
        again = _struck(detector, known, answers, [_moved(one) for one in told])
        law = "a number added to all parameters of all models must not matter: an update is its difference to its base"
        yield from _differences(verdicts, again, law)
    if "age" not in depends_on:
        yield from _age_faults(detector, known, answers)
    if must_find is not None:
        yield from _power_faults(known, told, verdicts, must_find)


def _power_faults(
    known: DefenceContext, told: Sequence[Buffer], verdicts: Sequence[Bools], must_find: float
) -> Iterator[tuple[str, str]]:
    attackers = known.clients - known.clients // 3
    found = np.concatenate([one[held.clients >= attackers] for one, held in zip(verdicts, told, strict=True)][LEARNS:])
    honest = np.concatenate([one[held.clients < attackers] for one, held in zip(verdicts, told, strict=True)][LEARNS:])
    seen = f"it flags or strikes {found.mean():.0%} of the attack's updates, and {honest.mean():.0%} of the honest ones"
    if found.mean() < must_find:
        yield f"must find {must_find:.0%} of a gross attack: a third of the clients send minus ten times the rest", seen
    if honest.mean() >= max(MAJORITY, found.mean()):
        yield "must not leave out more of the honest updates than of a gross attack's", seen


def _age_faults(detector: Detector, known: DefenceContext, answers: Answers) -> Iterator[tuple[str, str]]:
    aged = [*_history(known, poisoned=0, oldest=3)]
    struck = _struck(detector, known, answers, aged)
    stale = np.concatenate([one[held.staleness > 0] for one, held in zip(struck, aged, strict=True)])
    fresh = np.concatenate([one[held.staleness == 0] for one, held in zip(struck, aged, strict=True)])
    if stale.mean() > MAJORITY and fresh.mean() < MAJORITY:
        seen = f"it flags or strikes {stale.mean():.0%} of the stale ones, {fresh.mean():.0%} of the fresh ones"
        yield "must not leave out honest updates because they are stale", seen


def _history(known: DefenceContext, poisoned: int, oldest: int = 1) -> Iterator[Buffer]:
    """Yield buffers with one update of each client; the last `poisoned` clients attack in each."""
    for number in range(ROUNDS):
        ages = [min((row + number) % (oldest + 1), number) for row in range(known.clients)]
        current: Vector = np.full(known.n_parameters, 0.1 * number, np.float32)
        centre: NDArray[np.floating] = np.ones(known.n_parameters)
        if known.root_gradient is not None:
            # Honest clients go where the server's own samples point to.
            centre = -known.lr * float(np.mean(known.steps)) * known.root_gradient(current)
        spread = 0.1 * float(np.abs(centre).mean())
        deltas = updates(len(ages), len(centre), poisoned=poisoned, centre=centre, spread=spread, seed=number)
        yield buffer(deltas, staleness=ages, version=number, current=current)


def _struck(detector: Detector, known: DefenceContext, answers: Answers, told: Sequence[Buffer]) -> list[Bools]:
    """Return for each buffer the updates that are flagged or struck, (n_updates,) each."""
    state, struck = detector.start(known, random()), []
    for held in told:
        state, scores = answers(detector, state, held)
        verdict, state = detector.judge(state, held, scores)
        struck.append(verdict.flagged | verdict.strikes)
    return struck


def _differences(verdicts: Sequence[Bools], others: Sequence[Bools], law: str) -> Iterator[tuple[str, str]]:
    for number, (one, other) in enumerate(zip(verdicts, others, strict=True)):
        if not np.array_equal(one, other):
            yield law, f"of buffer {number}, updates {np.flatnonzero(one != other).tolist()} are judged otherwise"
            return


def _rows(held: Buffer, order: Ints) -> Buffer:
    """Return a buffer with its updates in another order."""
    names = ("models", "base_of", "base_versions", "clients", "samples", "upload_std")
    changed = {name: read_only(getattr(held, name)[order], getattr(held, name).dtype) for name in names}
    return replace(held, **changed, work=None if held.work is None else held.work[order])


def _moved(held: Buffer) -> Buffer:
    """Return a buffer with a number added to all parameters."""

    def moved(model: Vector) -> Vector:
        found: Vector = read_only(model + np.float32(SHIFT))
        return found

    bases = tuple(moved(one) for one in held.bases)
    return replace(held, current=moved(held.current), bases=bases, models=moved(held.models))
