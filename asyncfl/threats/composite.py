"""Attacks that consist of other attacks: several by the same attackers, and one that is disguised or covered.

A detector without data can measure the length of an update and its projection on the other updates. `Adaptive` hides an
attack from both. Let m be the mean of the known updates and R their median length. The upload of the inner attack is
split into its part along m and the rest. The part along m is raised to at least `alignment` |m|; the rest is shortened
until the whole is no longer than `length` R. If the inner attack trains on poisoned data, the attackers' own updates do
not represent honest ones; then set `knowledge: buffer`.

`Veto` covers an attack: a few attackers exaggerate their updates. A detector that accepts the range of updates that it
sees, or abstains where clients differ too much, then accepts those of the others.
"""

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from asyncfl.base.arrays import Floats, Ints, Vector
from asyncfl.base.component import choice, kind_of
from asyncfl.base.errors import Fault
from asyncfl.base.quantities import MeasuredIn
from asyncfl.threats.alie import Alie
from asyncfl.threats.attack import Attack, AttackView, Knowledge
from asyncfl.threats.backdoor import Backdoor
from asyncfl.threats.fang import Fang
from asyncfl.threats.flooding import Flooding
from asyncfl.threats.free_rider import EvaluatorBait, FreeRider
from asyncfl.threats.gaussian import Gaussian
from asyncfl.threats.informed import for_attackers, mean_and_deviation
from asyncfl.threats.ipm import Ipm
from asyncfl.threats.label_flip import LabelFlip
from asyncfl.threats.lying_evaluator import LyingEvaluator
from asyncfl.threats.malformed import NonFinite, WrongLength
from asyncfl.threats.mimic import Mimic
from asyncfl.threats.minority import Minority
from asyncfl.threats.orthogonal import Orthogonal
from asyncfl.threats.perturbation import MinMax, MinSum
from asyncfl.threats.puller import Puller
from asyncfl.threats.scaling import Scaling
from asyncfl.threats.sign_flip import SignFlip
from asyncfl.threats.spread import Spread
from asyncfl.threats.tailored import Tailored

POISONING = (
    *(SignFlip, LabelFlip, Gaussian, Alie, Ipm, MinMax, MinSum, Fang, Tailored, Mimic, Minority, Orthogonal, Puller),
    *(Scaling, Backdoor),
)
OTHER_ATTACKS = (NonFinite, WrongLength, FreeRider, LyingEvaluator, Flooding, EvaluatorBait, Spread)
BASIC_ATTACKS: tuple[type[Attack], ...] = POISONING + OTHER_ATTACKS
"""All attacks that are not composed of other attacks. A new attack is a new file and a line here."""
_BY_WIDTH: tuple[Knowledge, ...] = ("own", "colluders", "buffer")


class Composite(Attack):
    """Base class of attacks made of parts: poison and lies pass through all parts in order, rates multiply, length
    errors add."""

    @property
    @abstractmethod
    def parts(self) -> dict[str, Attack]:
        """The parts by the name of their field."""

    @property
    def sees(self) -> Knowledge:
        return max((part.sees for part in self.parts.values()), key=_BY_WIDTH.index)

    def faults(self, classes: int, shape: tuple[int, ...]) -> Iterator[Fault]:
        for name, part in self.parts.items():
            yield from (fault.under(name) for fault in part.faults(classes, shape))

    def poison(
        self, images: NDArray[np.float32], labels: Ints, classes: int, random: np.random.Generator
    ) -> tuple[NDArray[np.float32], Ints]:
        for part in self.parts.values():
            images, labels = part.poison(images, labels, classes, random)
        return images, labels

    def craft_payload(self, name: str, honest: Vector) -> Vector:
        for part in self.parts.values():
            honest = part.craft_payload(name, honest)
        return honest

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


AnySimpleAttack: Any = choice(Attack, *BASIC_ATTACKS)


class Modified(Composite):
    """Base class of attacks that modify the uploads of one other attack."""

    attack: AnySimpleAttack
    """The other attack."""

    @property
    def parts(self) -> dict[str, Attack]:
        return {"attack": self.attack}

    def faults(self, classes: int, shape: tuple[int, ...]) -> Iterator[Fault]:
        yield from super().faults(classes, shape)
        if self.attack.rehearses:
            got = f"got {kind_of(self.attack)}, which does; take it by itself, or another one"
            yield Fault("attack", f"must not rehearse its uploads, which are changed after that, {got}")

    def crafted(self, view: AttackView) -> Vector:
        """Return the uploads (n_attackers, n_parameters) of the other attack."""
        crafted = self.attack.craft(view)
        return view.honest if crafted is None else crafted


class Adaptive(Modified):
    """Uploads the update nearest to another attack's upload that looks honest by length and alignment. Source: ours."""

    kind: Literal["adaptive"] = "adaptive"
    knowledge: Knowledge = "buffer"
    """Updates that mean and median length are computed from."""
    alignment: Annotated[float, Field(ge=0, le=1), MeasuredIn("share")] = 0.35
    """Smallest projection on the mean of the known updates, as a share of its length, 0..1."""
    length: Annotated[float, Field(gt=0, allow_inf_nan=False), MeasuredIn("median lengths")] = 1.0
    """Largest length, in median lengths of the known updates, > 0."""

    @property
    def sees(self) -> Knowledge:
        return max(self.knowledge, self.attack.sees, key=_BY_WIDTH.index)

    def craft(self, view: AttackView) -> Vector:
        crafted = self.crafted(view)
        references = for_attackers(self.knowledge, view, _reference)

        def upload(row: int) -> NDArray[np.floating]:
            reference = references[row]
            return crafted[row] if reference is None else self._disguised(crafted[row], *reference)

        return view.uploads(upload)

    def _disguised(self, update: Vector, mean: Floats, length: float) -> Floats:
        """Return `update` (n_parameters,) with its part along `mean` raised to the minimum, and the rest shortened so
        that the whole is at most `self.length` times `length`, the median length of the known updates."""
        poison, longest, size = update.astype(np.float64), self.length * length, float(np.linalg.norm(mean))
        along = float(poison @ mean) / size if size > 0 else 0.0
        rest = poison - along / size * mean if size > 0 else poison
        along = min(max(along, self.alignment * size), longest)
        room, across = math.sqrt(longest**2 - along**2), float(np.linalg.norm(rest))
        if across > room:
            rest = rest * (room / across)
        return rest + along / size * mean if size > 0 else rest


def _reference(known: Vector) -> tuple[Floats, float]:
    """Return the mean (n_parameters,) and the median length of `known` (n, n_parameters)."""
    lengths = [np.linalg.norm(row.astype(np.float64)) for row in known]
    return mean_and_deviation(known)[0], float(np.median(lengths))


class Veto(Modified):
    """A few attackers upload a multiple of their own update, while the others carry out another attack.

    The attack aims at a detector that abstains when clients differ too much: these few make it abstain.

    Source: ours, against detectors whose limits follow from the updates they see.
    """

    kind: Literal["veto"] = "veto"
    number: Annotated[int, Field(ge=1), MeasuredIn("clients")] = 1
    """Number of attackers that exaggerate."""
    factor: Annotated[float, Field(gt=0, allow_inf_nan=False), MeasuredIn("factor")] = 2.0
    """Multiple of their own update that they upload, > 0; a server that bounds lengths may reject a large one."""

    @property
    def sees(self) -> Knowledge:
        return max("colluders", self.attack.sees, key=_BY_WIDTH.index)

    def craft(self, view: AttackView) -> Vector:
        crafted, ranks = self.crafted(view), view.ranks or range(view.attackers)

        def upload(row: int) -> Vector:
            exaggerates = ranks[row] < self.number
            return np.asarray(np.float32(self.factor) * view.honest[row]) if exaggerates else crafted[row]

        return view.uploads(upload)


AnyPart: Any = choice(Attack, *BASIC_ATTACKS, Adaptive, Veto)


class Combined(Composite):
    """Attacks applied one after the other, such as label flip, flooding and lying. Source: ours."""

    kind: Literal["combined"] = "combined"
    attacks: tuple[AnyPart, ...]
    """The attacks in order; each receives the data, updates and scores that the previous one returned."""

    @model_validator(mode="after")
    def _check_parts(self) -> Self:
        if not self.attacks:
            raise ValueError("attacks must name at least one attack")
        if sum(part.target is not None for part in self.attacks) > 1:
            raise ValueError("at most one of the attacks may be a backdoor: its success is measured for one target")
        return self

    @property
    def parts(self) -> dict[str, Attack]:
        return {f"attacks.{number}": part for number, part in enumerate(self.attacks)}

    def faults(self, classes: int, shape: tuple[int, ...]) -> Iterator[Fault]:
        yield from super().faults(classes, shape)
        for number, part in enumerate(self.attacks):
            after = [kind_of(later) for later in self.attacks[number + 1 :] if later.changes_uploads]
            if part.rehearses and after:
                got = f"got {kind_of(part)} before, which rehearses uploads; put it last"
                yield Fault(f"attacks.{number}", f"must come after {', '.join(after)}, {got}")

    def craft(self, view: AttackView) -> Vector:
        """Return the uploads after all attacks, applied in order to the honest updates. Colluders see each other's
        updates as the previous attack returned them; knowledge `buffer` does not change."""
        for part in self.attacks:
            crafted = part.craft(view)
            if crafted is not None and crafted is not view.honest:
                crafted.flags.writeable = False
                view = replace(view, honest=crafted)
        return view.honest
