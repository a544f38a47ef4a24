"""What the law checkers and builders show a component, against a written list: one that passes today passes tomorrow.

`python tests/testing/test_tried.py` writes the list anew; read the difference.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from asyncfl.defences import Mean, accept_all
from asyncfl.defences.detector import Detector
from asyncfl.server.staleness import Staleness
from asyncfl.testing import (
    arrivals,
    buffer,
    check_attack,
    check_detector,
    check_rule,
    check_staleness,
    context,
    server,
    updates,
    view,
)
from asyncfl.threats import Attack

LIST = Path(__file__).with_name("tried.txt")
SEEN: Counter[str] = Counter()


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.size > 24:
        return [list(value.shape), _plain(value.min()), _plain(value.max()), _plain(value.mean(dtype=np.float64))]
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _note(what: str, *values: Any) -> None:
    SEEN[f"{what} {json.dumps(_plain(values))}"] += 1


def _note_buffer(what: str, held: Any) -> None:
    _note(what, held.version, held.clients, held.samples, held.staleness, held.deltas, held.current, held.bases)


def _note_context(known: Any) -> None:
    _note("context", known.clients, known.samples, known.n_parameters, known.lr, known.gradient_clip, known.steps)


class NotingRule(Mean):
    kind: str = "own:NotingRule"  # type: ignore[assignment]

    def start(self, context: Any, random: Any) -> Any:
        _note_context(context)
        return super().start(context, random)

    def step(self, state: Any, buffer: Any, weights: Any) -> Any:
        _note_buffer("buffer", buffer)
        _note("weights", weights)
        return super().step(state, buffer, weights)


class NotingDetector(Detector):
    kind: str = "own:NotingDetector"

    def start(self, context: Any, random: Any) -> Any:
        _note_context(context)
        return ()

    def request(self, state: Any, buffer: Any, tried: Any) -> Any:
        _note("may ask", list(tried))
        return None, state

    def judge(self, state: Any, buffer: Any, scores: Any) -> Any:
        _note_buffer("judges", buffer)
        return accept_all(buffer), state

    def banned(self, state: Any, client: int) -> Any:
        _note("banned", client)
        return state


class NotingAttack(Attack):
    kind: str = "own:NotingAttack"
    knowledge: str = "buffer"
    sizes: ClassVar[list[int]] = []

    @property
    def sees(self) -> Any:
        return self.knowledge

    def craft(self, view: Any) -> Any:
        _note("view", view.honest, view.known, view.bases, view.current, view.collected, view.version)
        return None

    def poison(self, images: Any, labels: Any, classes: int, random: Any) -> Any:
        _note("poisons", images, labels, classes)
        return images, labels

    def lie(self, scores: Any, random: Any) -> Any:
        _note("scores", scores)
        return scores


class NotingStaleness(Staleness):
    kind: str = "own:NotingStaleness"

    def weight(self, staleness: Any) -> Any:
        _note("ages", staleness)
        return np.ones(len(staleness))


def _told(who: str) -> Iterator[str]:
    """What was noted since the last time, with how often."""
    yield who
    yield from (f"  {times} x {what}" for what, times in SEEN.items())
    SEEN.clear()


def _lines() -> Iterator[str]:
    SEEN.clear()
    check_rule(NotingRule())
    yield from _told("a rule")
    check_detector(NotingDetector())
    yield from _told("a detector")
    for knowledge in ("own", "colluders", "buffer"):
        check_attack(NotingAttack(knowledge=knowledge), any_order=True)
        yield from _told(f"an attack that sees {knowledge}")
    check_staleness(NotingStaleness())
    _note("updates", updates(), updates(3, poisoned=1))
    _note_buffer("buffer", buffer(staleness=[0, 1, 2, 0, 0, 1, 0, 0]))
    _note_context(context())
    NotingAttack().craft(view())
    play = arrivals(server(), [0, 1, 2, 3, 4, 5])
    _note("server", play.server.clients, len(play.server.protocol.opening.kind), play.time_s, play.model)
    _note("published", [[one.version, one.model] for one in play.published], sorted(play.fates))
    yield from _told("a staleness, and what the builders build")


def test_components_are_tried_on_what_is_written_down() -> None:
    assert list(_lines()) == LIST.read_text(encoding="utf-8").splitlines(), "python tests/testing/test_tried.py"


if __name__ == "__main__":
    LIST.write_text("".join(f"{line}\n" for line in _lines()), encoding="utf-8")
