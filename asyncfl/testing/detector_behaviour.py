"""What a detector's verdicts may depend on, and whether it finds an attack that nobody could overlook.

Each check changes a history of buffers in a way that must not change whom the detector strikes, or not much: a reversed
comparison, memory by row in place of client, or differences that ignore the base models show up here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.arrays import Bools, Floats, Ints, Vector
from asyncfl.defences import Buffer, DefenceContext, Detector, Verdict
from asyncfl.testing.builders import buffer, random, read_only, updates

Dependence: TypeAlias = Literal["order", "numbering", "model", "scale", "age"]
"""What verdicts may depend on: the order of updates in a buffer, the numbers of clients, the place of the models in the
space of parameters, the unit of parameters, the age of honest updates."""
Answers: TypeAlias = Callable[[Detector, Any, Buffer], tuple[Any, Floats | None]]
"""(detector, state, buffer) -> the next state and the scores that clients answered with; None: none."""

ROUNDS = 8
OLDEST = 20
"""Largest age of an honest update, versions."""
LEARNS = 4
"""Buffers after which a gross attack must be found: a detector may compare with what it saw before."""
SHIFT = 4.0
"""Number that is added to all parameters of all models. A power of two costs float32 few bits."""
SCALES = (2.0**-7, 2.0**7)
"""Factors on all models, updates and noise. Powers of two change no digit."""
MAJORITY = 0.5
Ages: TypeAlias = Callable[[int, int], list[int]]
"""(number of the buffer, clients) -> staleness of each client's update, versions."""


def faults(
    detector: Detector,
    known: DefenceContext,
    answers: Answers,
    *,
    must_find: float | None,
    depends_on: Collection[Dependence],
) -> Iterator[tuple[str, str]]:
    """Yield each law that `detector` violates, and what was seen. See `asyncfl.testing.check_detector`."""
    unknown = sorted({depends_on} if isinstance(depends_on, str) else set(depends_on) - set(get_args(Dependence)))
    if unknown:
        allowed = ", ".join(get_args(Dependence))
        raise ValueError(f"depends_on must be a collection of {allowed}; got {', '.join(map(repr, unknown))}")
    told = list(_history(known, poisoned=known.clients // 3))
    verdicts = _struck(detector, known, answers, told)
    honest = [list(_history(known, 0, ages, first)) for ages, first in ((_mixed, 0), (_two_late, OLDEST))]
    judged = [_struck(detector, known, answers, one) for one in honest]
    for one, first in zip(honest, judged, strict=True):
        again = _struck(detector, known, answers, one)
        yield from _differences(one, first, again, "equal buffers and equal streams must give equal verdicts")
    shuffled = np.random.default_rng(1)
    if "order" not in depends_on:
        orders = [shuffled.permutation(len(one)) for one in told]
        again = _struck(detector, known, answers, [_rows(one, order) for one, order in zip(told, orders, strict=True)])
        back = [one[np.argsort(order)] for one, order in zip(again, orders, strict=True)]
        law = "the order of updates in a buffer must not matter: is memory by row, or a sorted result not put back?"
        yield from _differences(told, verdicts, back, law)
    if "numbering" not in depends_on:
        number = shuffled.permutation(known.clients)
        renamed = [replace(one, clients=read_only(number[one.clients], np.int64)) for one in told]
        again = _struck(detector, known, answers, renamed)
        yield from _differences(told, verdicts, again, "the numbers of equal clients must not matter")
    if "model" not in depends_on and known.root_gradient is None:
        again = _struck(detector, known, answers, [_moved(one) for one in told])
        law = "a number added to all parameters of all models must not matter: an update is its difference to its base"
        yield from _differences(told, verdicts, again, law)
    if "scale" not in depends_on and known.root_gradient is None:
        for factor in SCALES:
            again = _struck(detector, known, answers, [_scaled(one, factor) for one in told])
            law = f"all models, updates and noise times {factor:g} must not matter: is a square compared with a length?"
            yield from _differences(told, verdicts, again, law)
    if "age" not in depends_on:
        for one, first in zip(honest, judged, strict=True):
            yield from _age_faults(one, first)
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


def _age_faults(told: Sequence[Buffer], verdicts: Sequence[Bools]) -> Iterator[tuple[str, str]]:
    stale = np.concatenate([one[held.staleness > 0] for one, held in zip(verdicts, told, strict=True)])
    fresh = np.concatenate([one[held.staleness == 0] for one, held in zip(verdicts, told, strict=True)])
    oldest = max(int(held.staleness.max()) for held in told)
    seen = f"it flags or strikes {stale.mean():.0%} of the stale ones, {fresh.mean():.0%} of the fresh ones"
    law = f"must not leave out honest updates because they are stale (at most {oldest} versions)"
    if stale.mean() > MAJORITY and fresh.mean() < MAJORITY:
        yield law, seen


def _alternating(number: int, clients: int) -> list[int]:
    return [min((row + number) % 2, number) for row in range(clients)]


def _mixed(number: int, clients: int) -> list[int]:
    return [min((row + number) % 4, number) for row in range(clients)]


def _two_late(number: int, clients: int) -> list[int]:
    """Return ages of which two, of other clients in each buffer, are so old that the model moved by a whole update."""
    ages = [0] * clients
    ages[number % clients], ages[(number + clients // 2) % clients] = OLDEST // 2, OLDEST
    return ages


def _history(known: DefenceContext, poisoned: int, ages: Ages = _alternating, first: int = 0) -> Iterator[Buffer]:
    """Yield buffers with one update of each client; the last `poisoned` clients attack in each. `first`: version of the
    first buffer."""
    for number in range(ROUNDS):
        current: Vector = np.full(known.n_parameters, 0.1 * (first + number), np.float32)
        centre: NDArray[np.floating] = np.ones(known.n_parameters)
        if known.root_gradient is not None:
            # Honest clients go where the server's own samples point to.
            centre = -known.lr * float(np.mean(known.steps)) * known.root_gradient(current)
        spread = 0.1 * float(np.abs(centre).mean())
        deltas = updates(known.clients, len(centre), poisoned=poisoned, centre=centre, spread=spread, seed=number)
        yield buffer(deltas, staleness=ages(number, known.clients), version=first + number, current=current)


def _struck(detector: Detector, known: DefenceContext, answers: Answers, told: Sequence[Buffer]) -> list[Bools]:
    """Return for each buffer the updates that are flagged or struck, (n_updates,) each."""
    state, struck = detector.start(known, random()), []
    for held in told:
        state, scores = answers(detector, state, held)
        verdict, state = judged(detector, state, held, scores)
        struck.append(verdict.flagged | verdict.strikes)
    return struck


def judged(detector: Detector, state: Any, held: Buffer, scores: Floats | None) -> tuple[Verdict, Any]:
    """Return the verdict on a buffer and the next state. An exception of the detector gets a note on the buffer.

    Raises AssertionError if the detector returns anything else, or lets NumPy divide by zero.
    """
    try:
        with np.errstate(divide="raise", invalid="raise"):
            found: Any = detector.judge(state, held, scores)
    except FloatingPointError as error:
        law = "must not divide by zero; guard the division, or write np.errstate around it if that is meant"
        raise AssertionError(f"{type(detector).__name__}: {law}; {error}, in a buffer of {described(held)}") from error
    except Exception as error:
        error.add_note(f"{type(detector).__name__} judged a buffer of {described(held)}")
        raise
    if not (isinstance(found, tuple) and len(found) == 2 and isinstance(found[0], Verdict)):
        got = (
            "(" + ", ".join(type(one).__name__ for one in found) + ")"
            if isinstance(found, tuple)
            else type(found).__name__
        )
        raise AssertionError(f"{type(detector).__name__}: judge must return (Verdict, next state); got {got}")
    return found


def described(held: Buffer) -> str:
    """Return a buffer in words."""
    return (
        f"version {held.version}, {len(held)} updates of clients {held.clients.tolist()}, {held.staleness.tolist()} "
        "versions old"
    )


def _differences(
    told: Sequence[Buffer], verdicts: Sequence[Bools], others: Sequence[Bools], law: str
) -> Iterator[tuple[str, str]]:
    """Yield `law` with the first buffer whose updates are judged otherwise. Rows of both verdicts follow `told`."""
    for held, one, other in zip(told, verdicts, others, strict=True):
        if not np.array_equal(one, other):
            first, then = (held.clients[struck].tolist() for struck in (one, other))
            yield law, f"it left out or struck clients {first}, then {then}, in a buffer of {described(held)}"
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


def _scaled(held: Buffer, factor: float) -> Buffer:
    """Return a buffer with all models, and thus updates and noise, times a factor."""

    def scaled(model: Vector) -> Vector:
        found: Vector = read_only(model * np.float32(factor))
        return found

    return replace(
        held,
        current=scaled(held.current),
        bases=tuple(map(scaled, held.bases)),
        models=scaled(held.models),
        upload_std=read_only(held.upload_std * factor, np.float64),
    )
