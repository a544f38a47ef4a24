"""The list of simple attacks, and the shared parts of attacks that consist of other attacks."""

import math
from abc import abstractmethod
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.errors import Fault
from asyncfl.base.messages import Floats, Ints
from asyncfl.threats.alie import Alie
from asyncfl.threats.attack import Attack, Knowledge
from asyncfl.threats.backdoor import Backdoor
from asyncfl.threats.evaluator_bait import EvaluatorBait
from asyncfl.threats.flooding import Flooding
from asyncfl.threats.free_rider import FreeRider
from asyncfl.threats.gaussian import Gaussian
from asyncfl.threats.ipm import Ipm
from asyncfl.threats.label_flip import LabelFlip
from asyncfl.threats.lying_evaluator import LyingEvaluator
from asyncfl.threats.malformed import NonFinite, WrongLength
from asyncfl.threats.mimic import Mimic
from asyncfl.threats.perturbation import MinMax, MinSum
from asyncfl.threats.scaling import Scaling
from asyncfl.threats.sign_flip import SignFlip
from asyncfl.threats.tailored import Tailored

POISONING = (SignFlip, LabelFlip, Gaussian, Alie, Ipm, MinMax, MinSum, Tailored, Mimic, Scaling, Backdoor)
OTHER_ATTACKS = (NonFinite, WrongLength, FreeRider, LyingEvaluator, Flooding, EvaluatorBait)
BASIC_ATTACKS: tuple[type[Attack], ...] = POISONING + OTHER_ATTACKS
"""All attacks that are not composed of other attacks. A new attack is a new file and a line here."""

_BY_WIDTH: tuple[Knowledge, ...] = ("own", "colluders", "buffer")


def widest_knowledge(*knowledge: Knowledge) -> Knowledge:
    """Return the widest of several kinds of knowledge: `buffer` before `colluders` before `own`."""
    return max(knowledge, key=_BY_WIDTH.index)


class Composite(Attack):
    """Base class of attacks made of parts: poison and lies pass through all parts in order, rates multiply, length
    errors add."""

    @property
    @abstractmethod
    def parts(self) -> dict[str, Attack]:
        """The parts by the name of their field."""
        raise NotImplementedError

    @property
    def sees(self) -> Knowledge:
        return widest_knowledge(*(part.sees for part in self.parts.values()))

    def faults(self, classes: int, shape: tuple[int, ...]) -> Iterator[Fault]:
        for name, part in self.parts.items():
            yield from (fault.under(name) for fault in part.faults(classes, shape))

    def poison(
        self, images: NDArray[np.float32], labels: Ints, classes: int, random: np.random.Generator
    ) -> tuple[NDArray[np.float32], Ints]:
        for part in self.parts.values():
            images, labels = part.poison(images, labels, classes, random)
        return images, labels

    @property
    def length_error(self) -> int:
        return sum(part.length_error for part in self.parts.values())

    @property
    def lies(self) -> bool:
        return any(part.lies for part in self.parts.values())

    def lie(self, scores: Floats, random: np.random.Generator) -> Floats:
        for part in self.parts.values():
            scores = part.lie(scores, random)
        return scores

    @property
    def rehearses(self) -> bool:
        return any(part.rehearses for part in self.parts.values())

    @property
    def rate(self) -> float:
        return math.prod(part.rate for part in self.parts.values())

    @property
    def _backdoor(self) -> Attack | None:
        return next((part for part in self.parts.values() if part.target is not None), None)

    def triggered(self, images: NDArray[np.float32]) -> NDArray[np.float32] | None:
        return None if self._backdoor is None else self._backdoor.triggered(images)

    @property
    def target(self) -> int | None:
        return None if self._backdoor is None else self._backdoor.target
