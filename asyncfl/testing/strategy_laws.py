"""Laws of strategies that aggregate replies of clients in rounds, such as those of Flower, without a network.

A law drives fresh strategies through one or two rounds, in which replies differ in one thing, and compares the models:

| law | replies | must hold |
|---|---|---|
| order | the same in another order | the same model |
| model | the model that was sent, unchanged | no step: replies are models, not differences |
| shift | all models, the sent one too, moved by a constant | a model moved by the same |
| examples | numbers of examples times 10; one client with 50 times more | the same model; nearer to that client |
| exact K | those of the clients that were asked | asks distinct clients, as many as it says, and makes a model |
| once | one of them delivered twice | counts once, or is refused |
| NaN | one NaN, one infinite | a finite model, or refused |
| untouched | any | the replies and the sent model are as before |
| staleness | all told the current version; one told an older one | those count in full; this one moves no more |

To refuse is to raise an exception or to return no model. Only strategies that read the version that a reply was trained
from have the last law.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np

from asyncfl.base.arrays import Vector

N_PARAMETERS = 8
FEW = 1e-4
"""Relative difference up to which two models count as the same."""


@dataclass(frozen=True)
class Reply:
    """A client's reply to a round."""

    client: int
    model: Vector
    """(n_parameters,) the trained model."""
    examples: int = 10
    version: int | None = None
    """Version that it was trained from: 0 is the initial model, round r makes version r. None: it is not told."""


class Driven(Protocol):
    """A strategy at the start of its first round."""

    def ask(self, round_: int, model: Vector) -> list[int]:
        """Return the clients that are asked to train `model` (n_parameters,)."""
        ...

    def promised(self) -> int | None:
        """Return how many clients the strategy says that it asks; None: it does not say."""
        ...

    def aggregate(self, round_: int, replies: Sequence[Reply]) -> Vector | None:
        """Return the next model (n_parameters,); None: it makes none. It may raise any exception."""
        ...


Make = Callable[[Vector], Driven]
"""Function that returns a fresh strategy, given the initial model."""


class Outcome(NamedTuple):
    """Result of one law."""

    law: str
    holds: bool | None
    """None: the law does not apply."""
    why: str


class _NotApplicableError(Exception):
    pass


class _Refused(NamedTuple):
    why: str


def check_strategy(make: Make, *, versions: bool = False, skip: Collection[str] = (), seed: int = 0) -> list[Outcome]:
    """Return the outcome of each law. `versions`: whether the strategy reads the version of replies; `skip`: laws that
    are left out."""
    found = []
    for name, law in LAWS.items():
        if name in skip:
            continue
        if name == "staleness" and not versions:
            found.append(Outcome(name, None, "it reads no versions (see --version-key)"))
            continue
        try:
            wrong = law(make, np.random.default_rng(seed))
        except _NotApplicableError as error:
            found.append(Outcome(name, None, str(error)))
        else:
            found.append(Outcome(name, not wrong, wrong or HOLDS[name]))
    return found


def _round(make: Make, random: np.random.Generator) -> tuple[Driven, Vector, list[Reply]]:
    """Return a strategy in its first round, the model that it sent, and the replies of the clients that it asked."""
    sent = random.normal(size=N_PARAMETERS).astype(np.float32)
    driven = make(sent)
    clients = driven.ask(1, sent.copy())
    # The same replies whichever clients are asked.
    moves = random.normal(0, 0.1, (len(clients), N_PARAMETERS)).astype(np.float32)
    return driven, sent, [Reply(client, sent + move) for client, move in zip(clients, moves, strict=True)]


def _made(driven: Driven, replies: Sequence[Reply], round_: int = 1) -> Vector | _Refused:
    try:
        with np.errstate(all="ignore"):
            model = driven.aggregate(round_, replies)
    except Exception as error:
        return _Refused(f"{type(error).__name__}: {error}")
    return _Refused("no model") if model is None else model


def _fresh(make: Make, sent: Vector) -> Driven:
    driven = make(sent)
    driven.ask(1, sent.copy())
    return driven


def _plain(driven: Driven, replies: Sequence[Reply]) -> Vector:
    """Return the model of sound replies. A strategy that makes none is judged by `exact K` alone."""
    model = _made(driven, replies)
    if isinstance(model, _Refused):
        raise _NotApplicableError("it makes no model of sound replies")
    return model


def _far(one: Vector, other: Vector, scale: float = 0.1) -> bool:
    return not np.allclose(one, other, rtol=FEW, atol=FEW * scale)


def _apart(one: Vector, other: Vector) -> str:
    return f"{float(np.abs(one - other).max()):.2g} apart"


def _order(make: Make, random: np.random.Generator) -> str:
    driven, sent, replies = _round(make, random)
    one = _plain(driven, replies)
    other = _made(_fresh(make, sent), replies[::-1])
    if isinstance(other, _Refused):
        return f"in reverse order it makes none: {other.why}"
    return f"in reverse order the model is {_apart(one, other)}" if _far(one, other) else ""


def _model(make: Make, random: np.random.Generator) -> str:
    driven, sent, replies = _round(make, random)
    made = _plain(driven, [replace(one, model=sent.copy()) for one in replies])
    return f"unchanged models move it by {float(np.abs(made - sent).max()):.2g}" if _far(made, sent) else ""


def _shift(make: Make, random: np.random.Generator) -> str:
    driven, sent, replies = _round(make, random)
    one = _plain(driven, replies)
    moved = sent + np.float32(1)
    other = _made(_fresh(make, moved), [replace(reply, model=reply.model + np.float32(1)) for reply in replies])
    if isinstance(other, _Refused):
        return f"models moved by 1 are refused: {other.why}"
    # Float32 differences of numbers near 1.
    wrong = not np.allclose(other - moved, one - sent, rtol=1e-2, atol=1e-3)
    return f"models moved by 1: the step is {_apart(other - moved, one - sent)}" if wrong else ""


def _examples(make: Make, random: np.random.Generator) -> str:
    driven, sent, replies = _round(make, random)
    uneven = [replace(one, examples=10 * (place + 1)) for place, one in enumerate(replies)]
    one = _plain(driven, uneven)
    ten = _made(_fresh(make, sent), [replace(reply, examples=10 * reply.examples) for reply in uneven])
    if isinstance(ten, _Refused):
        return f"10 times the examples are refused: {ten.why}"
    if _far(one, ten):
        return f"10 times the examples of all: {_apart(one, ten)}"
    even = _plain(_fresh(make, sent), replies)
    much = _made(_fresh(make, sent), [replace(replies[0], examples=500), *replies[1:]])
    if isinstance(much, _Refused):
        return f"50 times the examples of one are refused: {much.why}"
    if not _far(even, much):
        return ""
    # The direction to that client: server optimisers change lengths.
    towards = replies[0].model - np.mean([reply.model for reply in replies], axis=0)
    return "" if float((much - even) @ towards) > 0 else "more examples move the model away from their client"


def _exact_k(make: Make, random: np.random.Generator) -> str:
    driven, _, replies = _round(make, random)
    clients, promised = [one.client for one in replies], driven.promised()
    if len(set(clients)) < len(clients):
        return f"a client is asked twice in a round: {sorted(clients)}"
    if not clients:
        return "nobody is asked"
    if promised is not None and promised != len(clients):
        return f"it asks {len(clients)} clients where it says {promised}"
    made = _made(driven, replies)
    return f"it makes no model of all {len(clients)} replies: {made.why}" if isinstance(made, _Refused) else ""


def _once(make: Make, random: np.random.Generator) -> str:
    driven, sent, replies = _round(make, random)
    once = _plain(driven, replies)
    twice = _made(_fresh(make, sent), [*replies, replies[0]])
    if isinstance(twice, _Refused) or not _far(once, twice):
        return ""
    return f"a reply that came twice counts twice: {_apart(once, twice)}"


def _not_finite(make: Make, random: np.random.Generator) -> str:
    for bad in (np.nan, np.inf):
        driven, sent, replies = _round(make, random)
        if len(replies) < 2:
            raise _NotApplicableError("it asks one client")
        _plain(driven, replies)
        poisoned = [replace(replies[0], model=np.full_like(sent, bad)), *replies[1:]]
        made = _made(_fresh(make, sent), poisoned)
        if isinstance(made, _Refused):
            continue
        if count := int((~np.isfinite(made)).sum()):
            return f"one reply of {bad}: {count} of {len(made)} numbers of the model are not finite"
    return ""


def _untouched(make: Make, random: np.random.Generator) -> str:
    driven, _, replies = _round(make, random)
    before = [one.model.copy() for one in replies]
    _plain(driven, replies)
    changed = [one.client for one, old in zip(replies, before, strict=True) if not np.array_equal(one.model, old)]
    return f"it changes the reply of client {changed[0]}" if changed else ""


def _staleness(make: Make, random: np.random.Generator) -> str:
    """Compare replies in the second round, before which version 1 is the current one."""
    _, sent, replies = _round(make, random)

    def second(versions: Sequence[int | None]) -> Vector | _Refused:
        driven = _fresh(make, sent)
        first = _plain(driven, replies)
        driven.ask(2, first.copy())
        told = [
            replace(one, model=first + (one.model - sent), version=version)
            for one, version in zip(replies, versions, strict=True)
        ]
        made = _made(driven, told, 2)
        return made if isinstance(made, _Refused) else made - first

    n = len(replies)
    untold, fresh, one_old = second([None] * n), second([1] * n), second([0, *[1] * (n - 1)])
    for what, made in (("fresh", fresh), ("stale", one_old), ("untold", untold)):
        if isinstance(made, _Refused):
            return f"{what} replies are refused: {made.why}"
    assert not isinstance(untold, _Refused)
    assert not isinstance(fresh, _Refused)
    assert not isinstance(one_old, _Refused)
    if _far(untold, fresh):
        share = float(np.linalg.norm(fresh) / max(float(np.linalg.norm(untold)), 1e-30))
        return f"replies of the current version count {share:.2g}, not 1: aged too early?"
    alone = replies[0].model - np.mean([one.model for one in replies[1:]], axis=0)
    moved = float((one_old - fresh) @ alone)
    return "an old reply moves the model further than a fresh one" if moved > FEW else ""


LAWS: dict[str, Callable[[Make, np.random.Generator], str]] = {
    "exact K": _exact_k,
    "order": _order,
    "model": _model,
    "shift": _shift,
    "examples": _examples,
    "once": _once,
    "NaN": _not_finite,
    "untouched": _untouched,
    "staleness": _staleness,
}
"""Law -> function that returns how it is violated; empty: it holds."""
HOLDS = {
    "order": "replies in reverse order make the same model",
    "model": "models that nobody has changed make no step",
    "shift": "models that are moved make the same step",
    "examples": "numbers of examples count by their ratios, or not at all",
    "exact K": "as many distinct clients as it says, and a model of them",
    "once": "a reply that came twice counts once, or is refused",
    "NaN": "one reply that is not finite is left out, or refused",
    "untouched": "replies are as before",
    "staleness": "replies of the current version count in full",
}
"""Law -> what holds."""
WIDTH = 80


def report(title: str, outcomes: Sequence[Outcome]) -> list[str]:
    """Return the lines of a report, of at most `WIDTH` characters."""
    words = {True: "holds", False: "BROKEN", None: "-"}
    lines = [title]
    for one in outcomes:
        head, below = f"{one.law:<10} {words[one.holds]:<7} ", " " * 19
        lines += textwrap.wrap(" ".join(one.why.split()), WIDTH, initial_indent=head, subsequent_indent=below)
    judged = [one.holds for one in outcomes if one.holds is not None]
    lines.append(f"{sum(judged)} of {len(judged)} laws hold")
    return [line if len(line) <= WIDTH else f"{line[: WIDTH - 3]}..." for line in lines]
