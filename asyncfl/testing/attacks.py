"""Check that an attack keeps the laws of `asyncfl.threats.attack`."""

from __future__ import annotations

import numpy as np

from asyncfl.base.messages import Vector
from asyncfl.testing.builders import random, view
from asyncfl.testing.laws import check_description, close, deep_copies, require, same
from asyncfl.threats import Attack, AttackView

CLASSES = 10


def check_attack(
    attack: Attack, *, finite: bool = True, any_order: bool = False, shape: tuple[int, int, int] = (1, 8, 8)
) -> None:
    """Raise AssertionError with the first law that `attack` violates.

    The laws: the attack is frozen and can be written and read; uploads are (n_attackers, n_parameters) float32, also
    without attackers; poisoned data have the shape, type and classes of the data; answers to scoring requests are
    scores 0..1; inputs are not changed; equal calls give equal results; attackers are at least as fast as honest
    clients.

    `finite`: whether uploads must be finite, also beside a diverged update in the buffer. `any_order`: whether the
    order of the attackers must not matter (not for attacks that draw). `shape`: (channels, height, width) of images.
    """
    check_description(attack, Attack)
    faults = list(attack.faults(CLASSES, shape))
    require(not faults, attack, f"must work on images of {shape}", "; ".join(map(str, faults)))
    require(attack.sees in ("own", "colluders", "buffer"), attack, "sees must be own, colluders or buffer", attack.sees)
    require(attack.rate >= 1, attack, "rate must be >= 1", f"got {attack.rate}")
    _check_crafts(attack, finite)
    if any_order:
        _check_order(attack)
    _check_data(attack, shape)
    truth = np.linspace(0.1, 0.9, 7)
    truth.flags.writeable = False
    answers = np.asarray(attack.lie(truth, random()))
    right = answers.shape == truth.shape and bool(((answers >= 0) & (answers <= 1)).all())
    require(right, attack, "lie must return one score 0..1 per model", f"got {answers}")
    require(attack.lies or same(answers, truth), attack, "must set its property lies")


def _seen(attack: Attack, honest: Vector | None, others: Vector | None) -> AttackView:
    """Build the view that the attack gets in a run, according to its property `sees`."""
    whole = view(honest, others, current=0.5)
    match attack.sees:
        case "own":
            return view(whole.honest, np.empty((0, 4)), current=0.5, collected=whole.collected)
        case "colluders":
            return view(whole.honest, whole.honest, current=0.5, collected=whole.collected)
        case _:
            return whole


def _crafted(attack: Attack, seen: AttackView) -> Vector:
    crafted = attack.craft(seen)
    return seen.honest if crafted is None else crafted


def _check_crafts(attack: Attack, finite: bool) -> None:
    several = np.array([[1, 2, -3, 0.5], [2, 0, -1, 0.25], [0, 1, -2, 4]], dtype=np.float32)
    diverged = np.array([[1, 1, 1, 1], [np.nan, 1, np.inf, 1], [2, 1, 0, 1]], dtype=np.float32)
    for honest, others in ((None, None), (several, None), (several[:1], None), (several, diverged)):
        seen = _seen(attack, honest, others)
        before = deep_copies((seen.honest, seen.known, seen.bases, seen.current))
        crafted = _crafted(attack, seen)
        require(
            crafted.shape == seen.honest.shape and crafted.dtype == np.float32,
            attack,
            f"uploads must be {seen.honest.shape} float32",
            f"got {crafted.shape} {crafted.dtype}",
        )
        require(same([seen.honest, seen.known, seen.bases, seen.current], before), attack, "a view must not be changed")
        again = _crafted(attack, _seen(attack, honest, others))
        require(same(crafted, again), attack, "equal views and equal streams must give equal uploads")
        require(not finite or bool(np.isfinite(crafted).all()), attack, "uploads must be finite", f"got {crafted}")
    none_crafted = _crafted(attack, _seen(attack, np.empty((0, 4), dtype=np.float32), None))
    require(
        none_crafted.shape == (0, 4),
        attack,
        "without attackers, uploads must be (0, n_parameters)",
        f"got {none_crafted.shape}",
    )


def _check_order(attack: Attack) -> None:
    several = np.array([[1, 2, -3, 0.5], [2, 0, -1, 0.25], [0, 1, -2, 4]], dtype=np.float32)
    order = [2, 0, 1]
    one = _crafted(attack, _seen(attack, several, None))[order]
    other = _crafted(attack, _seen(attack, several[order], None))
    require(close(one, other), attack, "the order of the attackers must not matter", f"{one}, {other}")


def _check_data(attack: Attack, shape: tuple[int, int, int]) -> None:
    images = random().standard_normal((24, *shape)).astype(np.float32)
    labels = np.arange(24) % CLASSES
    images.flags.writeable = labels.flags.writeable = False
    poisoned, given = attack.poison(images, labels, CLASSES, random(1))
    require(
        poisoned.shape == images.shape and poisoned.dtype == np.float32 and given.shape == labels.shape,
        attack,
        "poisoned data must have the shape and type of the data",
        f"images {poisoned.shape} {poisoned.dtype}, labels {given.shape}",
    )
    classes = bool(given.dtype.kind == "i" and given.min() >= 0 and given.max() < CLASSES)
    require(classes, attack, f"labels must be classes 0..{CLASSES - 1}", f"got {given}")
    again = attack.poison(images, labels, CLASSES, random(1))
    require(same(list(again), [poisoned, given]), attack, "equal data and equal streams must give equal poison")
    triggered = attack.triggered(images)
    require(
        (triggered is None) == (attack.target is None), attack, "a trigger needs a target class, and a target a trigger"
    )
    if triggered is not None:
        require(triggered.shape == images.shape, attack, "triggered images must have the shape of images")
