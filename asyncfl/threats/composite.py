"""Shared parts of attacks that consist of other attacks."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.errors import Fault
from asyncfl.base.messages import Floats, Ints
from asyncfl.threats.attack import Attack, Knowledge

_BY_WIDTH: tuple[Knowledge, ...] = ("own", "colluders", "buffer")


def widest_knowledge(*knowledge: Knowledge) -> Knowledge:
    """Return the widest of several kinds of knowledge: `buffer` before `colluders` before `own`."""
    return max(knowledge, key=_BY_WIDTH.index)


class Composite(Attack):
    """Base class of attacks made of parts: poison and lies pass through all parts in order, rates multiply, length
    errors add."""

    @property
    @abstractmethod
    def parts(self) -> tuple[tuple[str, Attack], ...]:
        """The parts, each with the name of its field."""
        raise NotImplementedError

    @property
    def _attacks(self) -> tuple[Attack, ...]:
        """The parts without the names of their fields."""
        return tuple(part for _, part in self.parts)

    @property
    def sees(self) -> Knowledge:
        return widest_knowledge(*(part.sees for part in self._attacks))

    def faults(self, classes: int, shape: tuple[int, ...]) -> Iterator[Fault]:
        for name, part in self.parts:
            for fault in part.faults(classes, shape):
                yield fault.under(name)

    def poison(
        self, images: NDArray[np.float32], labels: Ints, classes: int, random: np.random.Generator
    ) -> tuple[NDArray[np.float32], Ints]:
        for part in self._attacks:
            images, labels = part.poison(images, labels, classes, random)
        return images, labels

    @property
    def length_error(self) -> int:
        return sum(part.length_error for part in self._attacks)

    @property
    def lies(self) -> bool:
        return any(part.lies for part in self._attacks)

    def lie(self, scores: Floats, random: np.random.Generator) -> Floats:
        for part in self._attacks:
            scores = part.lie(scores, random)
        return scores

    @property
    def rehearses(self) -> bool:
        return any(part.rehearses for part in self._attacks)

    @property
    def rate(self) -> float:
        return math.prod(part.rate for part in self._attacks)

    def triggered(self, images: NDArray[np.float32]) -> NDArray[np.float32] | None:
        found = (part.triggered(images) for part in self._attacks if part.target is not None)
        return next(found, None)

    @property
    def target(self) -> int | None:
        return next((part.target for part in self._attacks if part.target is not None), None)
