"""Progress reports of long computations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias, TypeVar

Part = TypeVar("Part")

Stage: TypeAlias = Callable[[str, int, int | None], None]
"""Callback of (what is computed, parts done, parts in all); None: the total is unknown."""


def ignore_progress(what: str, done: int, of: int | None) -> None:
    """Ignore progress: the default `Stage`."""


def one_by_one(parts: Sequence[Part], stage: Stage, what: str) -> Iterator[Part]:
    """Yield `parts` one after another, reporting to `stage` before the first and after each.

    what: name of the stage, for the report.
    """
    stage(what, 0, len(parts))
    for done, part in enumerate(parts, start=1):
        yield part
        stage(what, done, len(parts))
