"""Adaptive: disguises another attack so that it stays within what detectors measure.

A detector without data can measure the length of an update and its projection on the other updates. Let m be the mean
of the known updates and R their median length. The upload of the inner attack is split into its part along m and the
rest. The part along m is raised to at least `alignment` |m|; the rest is shortened until the whole is no longer than
`length` R. The remaining attack is invisible to these two measures.

If the inner attack trains on poisoned data, the attackers' own updates do not represent honest ones; then set
`knowledge: buffer`.
"""

import math
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from asyncfl.base.component import choice, kind_of
from asyncfl.base.errors import Fault
from asyncfl.base.messages import Floats, Vector
from asyncfl.base.quantities import MeasuredIn
from asyncfl.threats.attack import Attack, AttackView, Knowledge
from asyncfl.threats.composite import BASIC_ATTACKS, Composite, widest_knowledge
from asyncfl.threats.informed import for_attackers, mean_and_deviation

AnySimpleAttack: Any = choice(Attack, *BASIC_ATTACKS)


class Adaptive(Composite):
    """Uploads the update nearest to another attack's upload that looks honest by length and alignment. Source: ours."""

    kind: Literal["adaptive"] = "adaptive"
    attack: AnySimpleAttack
    """The attack to disguise."""
    knowledge: Knowledge = "buffer"
    """Updates that mean and median length are computed from."""
    alignment: Annotated[float, Field(ge=0, le=1), MeasuredIn("share")] = 0.35
    """Smallest projection on the mean of the known updates, as a share of its length, 0..1."""
    length: Annotated[float, Field(gt=0, allow_inf_nan=False), MeasuredIn("median lengths")] = 1.0
    """Largest length, in median lengths of the known updates, > 0."""

    @property
    def parts(self) -> dict[str, Attack]:
        return {"attack": self.attack}

    def faults(self, classes: int, shape: tuple[int, ...]) -> Iterator[Fault]:
        yield from super().faults(classes, shape)
        if self.attack.rehearses:
            yield Fault(
                "attack",
                f"must not rehearse its uploads, which are disguised after that, got {kind_of(self.attack)}, which "
                "does; take it by itself, or another one",
            )

    @property
    def sees(self) -> Knowledge:
        return widest_knowledge(self.knowledge, self.attack.sees)

    def craft(self, view: AttackView) -> Vector:
        crafted = self.attack.craft(view)
        if crafted is None:
            crafted = view.honest
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
