"""How far a long piece of work has come, for whoever waits for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias, TypeVar

Part = TypeVar("Part")

Stage: TypeAlias = Callable[[str, int, int | None], None]
"""Is told what is being done, how many parts of it are done, and of how many; None: of how many is not known."""


def nobody_waits(what: str, done: int, of: int | None) -> None:
    """The `Stage` of work that nobody waits for."""


def one_by_one(parts: Sequence[Part], stage: Stage, what: str) -> Iterator[Part]:
    """Each of `parts`; `stage` is told before the first, and whenever one more is done."""
    stage(what, 0, len(parts))
    for done, part in enumerate(parts, start=1):
        yield part
        stage(what, done, len(parts))
