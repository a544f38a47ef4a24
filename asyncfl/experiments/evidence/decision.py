"""The answer that follows from comparisons, and the looks at which answers may be given.

A claim that needs all of its comparisons holds where each of them does, each at the full level, and its p-value is the
largest of theirs. It does not hold where one of them fails; since any of n may fail by chance, each has an n-th of the
level. A claim that needs any of several ways to be true is the mirror image.

With one look, both answers are given at 2.5 % (a two-sided interval of 95 %). Several looks that stop at the first
crossing err more often, so each has a smaller level (Pocock 1977: the same at each), such that over all looks the error
in each direction is 2.5 %. Looks at 3, 6 and 12 seeds: |t| > 7.23, 3.43, 2.76, by simulation. Looks say when to stop:
a comparison that crosses its level, or is given up, gets no more seeds. The answer is that of all seeds that are there,
at the level of a look, whatever an earlier look said: a cell may get more seeds for the sake of another comparison.

A look that is added when the planned ones have left claims open is one more chance to err: it gets what these have left
of the 2.5 %. Looks at 6 and 12 seeds err in 2.22 %, so that .4 % is left for one at 24; those at 3, 6 and 12 in 2.46 %,
which leaves nothing worth a look (by simulation of 800,000 cases).

Where a smallest difference that matters is declared, there is a third answer, `alike`: neither side is ahead by so
much. Two one-sided tests, above `-smallest` and below `smallest`, must both reject at the level of the look (Schuirmann
1987), and neither of the other answers may be given. `does not hold`, `alike` and `holds` are ordered: what needs all
of its parts has the least of their answers, what needs one of them the greatest. Any of n parts may be taken by chance
for smaller than it is, so the test below `smallest` has an n-th of the level, as that of `does not hold`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from asyncfl.experiments.evidence.p_values import (
    RESOLUTION,
    Floats,
    Reading,
    Seeds,
    exact,
    runs,
    signs,
    student,
    with_region,
)
from asyncfl.experiments.evidence.power import may_be_alike

ALPHA = 0.025
"""Error of each answer over all looks, in each direction."""
POCOCK: dict[tuple[int, ...], float] = {(3, 6, 12): 0.0093, (3, 6, 12, 24): 0.0072}
"""Looks -> error of each look in each direction. For other looks ALPHA is divided by their number, which is safe."""
LEFT: dict[tuple[tuple[int, ...], tuple[int, ...]], float] = {((6, 12), (24,)): 0.004}
"""Planned looks, and those that were added after them -> error of each added look in each direction. For others nothing
is left."""
FUTILE_T = 1.0
"""At the last look but one nothing is decided any more, and no seeds are added, where |t| is smaller."""

Answer = Literal["holds", "does not hold", "alike", "not decided"]
"""`alike`: the difference, whatever its sign, is smaller than the smallest that matters."""
Kind = Literal["statistical", "count", "deterministic"]
"""`statistical`: a mean over seeds; `count`: how many runs break the claim; `deterministic`: no randomness in it."""


@dataclass(frozen=True)
class Looks:
    """Numbers of the planned seeds at which answers may be given."""

    seeds: tuple[int, ...] = ()
    """All seeds, in the order in which they are run."""
    at: tuple[int, ...] = ()
    """Numbers of seeds, ascending; empty: one look, at all seeds that there are."""
    added: tuple[int, ...] = ()
    """The last numbers of `at`, where they were added because the planned ones had left claims open."""

    @property
    def planned(self) -> tuple[int, ...]:
        return tuple(count for count in self.at if count not in self.added)

    @property
    def alpha(self) -> float:
        """Error of each planned look, in each direction."""
        return ALPHA if len(self.planned) < 2 else POCOCK.get(self.planned, ALPHA / len(self.planned))

    def level(self, seeds: int) -> float:
        """Return the error, in each direction, at which so many seeds are judged."""
        return LEFT[self.planned, self.added] if self.is_added(seeds) else self.alpha

    def is_added(self, seeds: int) -> bool:
        """Tell whether so many seeds are more than those of the planned looks."""
        return bool(self.added) and seeds > self.planned[-1]

    def cuts(self, seeds: Seeds) -> Iterator[tuple[int, Seeds]]:
        """Yield (number of the look from 0, its seeds) of each look for which `seeds` are enough.

        The first look is made with the seeds that there are.
        """
        if not self.at:
            yield 0, seeds
        for number, count in enumerate(self.at):
            wanted = np.array(self.seeds[:count], dtype=np.int64)
            enough = bool(np.isin(wanted, seeds).all())
            if enough or number == 0:
                yield number, wanted if enough else seeds[np.isin(seeds, wanted)]
            if not enough:
                return


ONE_LOOK = Looks()


@dataclass(frozen=True)
class ComparisonAnswer:
    """One comparison with its answer."""

    comparison: Comparison
    answer: Answer
    reading: Reading
    """Of all seeds."""
    alpha: float
    """Level of the look, in each direction."""
    more: int | None
    """Seeds of the next look, where it should be made."""
    is_futile: bool
    """Whether it was given up at the last look but one, since too little speaks for either answer."""
    is_added: bool = False
    """Whether its seeds are those of a look that was added to the plan."""


@dataclass(frozen=True)
class Decision:
    """The answer of a claim, and the comparison that it rests on."""

    answer: Answer
    p_holds: float
    """p-value of the answer `holds` over all looks: that of a reading, times what a look's level lacks of the whole."""
    p_fails: float
    p_above: float
    """p-value of an effect above `-smallest`; of comparisons without a smallest difference that of `holds`."""
    p_below: float
    """p-value of an effect below `smallest`; of comparisons without a smallest difference that of `does not hold`."""
    by: ComparisonAnswer
    """Holds: the least clear comparison; does not hold: the one that fails; alike: the least clear one that is; not
    decided: the one that is missing."""
    comparisons: int
    wanting: tuple[ComparisonAnswer, ...]
    """Comparisons that should get the seeds of the next look."""

    @property
    def p_alike(self) -> float:
        """p-value of the answer `alike` over all looks."""
        return max(self.p_above, self.p_below)

    @property
    def p(self) -> float:
        """p-value of the answer; undecided, of the likelier one."""
        p = {"holds": self.p_holds, "does not hold": self.p_fails, "alike": self.p_alike}
        return p.get(self.answer, min(self.p_holds, self.p_fails))


@dataclass(frozen=True)
class Comparison:
    """A measured value against a threshold or another: seed by seed, how far it is on the claim's side."""

    seeds: Seeds
    excess: Floats
    """(n_seeds,) above 0 where the seed is on the claim's side, 0 for a tie, +-inf for a diverged side."""
    about: str
    """The subject, in words before the effect."""
    asked: str = ""
    """The requirement, in words after the effect."""
    strict: bool = True
    """Whether a tie speaks against the claim."""
    kind: Kind = "statistical"
    tolerated: float = 0.0
    """Share of runs that may break the claim; counts only."""
    threshold: float = 0.0
    """The effect at which the claim is neither true nor false: effect = threshold + sign * excess."""
    sign: float = 1.0
    room: float | None = None
    """Excess of a claim that is true to the letter, where its margin bounds it: of two that are alike, the margin."""
    cells: tuple[dict[str, Any], ...] = ()
    """Axis values of the cells that it reads; an axis that is not named: at all its values."""
    smallest: float | None = None
    """Smallest excess, either way, that matters; None: none is declared. Statistical comparisons only."""

    def shown(self, excess: float) -> float:
        """Return the effect of an excess."""
        return excess if self.kind == "count" else self.threshold + self.sign * excess

    def decide(self, looks: Looks = ONE_LOOK, holds_part: float = 1.0, fails_part: float = 1.0) -> Decision:
        """Answer the claim. `holds_part`, `fails_part`: part of the level that each answer may use up."""

        def answer_of(reading: Reading, alpha: float) -> Answer:
            if reading.p_holds <= alpha * holds_part:
                return "holds"
            if reading.p_fails <= alpha * fails_part:
                return "does not hold"
            is_within = reading.p_above <= alpha * holds_part and reading.p_below <= alpha * fails_part
            return "alike" if is_within else "not decided"

        # the looks say whether seeds are added
        more, futile = None, False
        for number, seeds in looks.cuts(self.seeds):
            alpha = looks.level(len(seeds))
            at = self.read(self.excess[np.isin(self.seeds, seeds)], alpha)
            is_open = answer_of(at, alpha) == "not decided"
            futile = is_open and number == len(looks.at) - 2 and abs(at.t) < FUTILE_T
            if futile and self.smallest is not None:
                then = looks.at[number + 1]
                futile = not may_be_alike(at, self.smallest, then, looks.level(then))
            more = looks.at[number + 1] if looks.at[number + 1 :] and at.test != "exact" else None
            if not is_open or futile:
                more = None
                break
        # the answer is that of all of them
        alpha = looks.level(len(self.seeds))
        reading = self.read(self.excess, alpha)
        answer = answer_of(reading, alpha)
        if answer != "not decided":
            more, futile = None, False
        by = ComparisonAnswer(self, answer, reading, alpha, more, futile, looks.is_added(len(self.seeds)))
        ends = (reading.p_holds, reading.p_fails) if self.smallest is None else (reading.p_above, reading.p_below)
        p_holds, p_fails, p_above, p_below = (
            min(1.0, p * ALPHA / alpha) for p in (reading.p_holds, reading.p_fails, *ends)
        )
        return Decision(answer, p_holds, p_fails, p_above, p_below, by, 1, () if more is None else (by,))

    def read(self, excess: Floats, alpha: float) -> Reading:
        """Test these seeds, by the test that the numbers allow, and against both ends of the region where there is
        one."""
        reading = self._tested(excess, alpha)
        return reading if self.smallest is None else with_region(reading, excess, self.smallest)

    def _tested(self, excess: Floats, alpha: float) -> Reading:
        n = len(excess)
        if self.kind == "deterministic" and n:
            return exact(excess, self.strict)
        if self.kind == "count" and n:
            return runs(int((excess <= 0).sum() if self.strict else (excess < 0).sum()), n, self.tolerated, alpha)
        if n < 2 or not np.isfinite(excess).all() or np.ptp(excess) <= RESOLUTION * np.abs(excess).max():
            return signs(excess, self.strict, alpha)
        return student(excess, alpha)


@dataclass(frozen=True)
class AllOf:
    """Evidence of a claim that is true where all of its parts are."""

    parts: Sequence[ClaimEvidence]

    def decide(self, looks: Looks = ONE_LOOK, holds_part: float = 1.0, fails_part: float = 1.0) -> Decision:
        return all_of([part.decide(looks, holds_part, fails_part / len(self.parts)) for part in self.parts])


@dataclass(frozen=True)
class AnyOf:
    """Evidence of a claim that is true where one of its parts is."""

    parts: Sequence[ClaimEvidence]

    def decide(self, looks: Looks = ONE_LOOK, holds_part: float = 1.0, fails_part: float = 1.0) -> Decision:
        return any_of([part.decide(looks, holds_part / len(self.parts), fails_part) for part in self.parts])


ClaimEvidence = Comparison | AllOf | AnyOf


def all_of(found: Sequence[Decision]) -> Decision:
    """Decide what needs all of its parts, each of which had its part of the level for `does not hold`."""
    p_holds, p_fails = max(d.p_holds for d in found), min(1.0, len(found) * min(d.p_fails for d in found))
    p_above, p_below = max(d.p_above for d in found), min(1.0, len(found) * min(d.p_below for d in found))
    undecided = [d for d in found if d.answer == "not decided"]
    wanting = [one for d in undecided for one in d.wanting]
    if failing := [d for d in found if d.answer == "does not hold"]:
        best, wanting = min(failing, key=_p_fails), []
    elif undecided:
        best = max(undecided, key=_p_holds)
    else:
        best = _least_clear(found)
    if any(not d.wanting for d in undecided):
        # it cannot hold any more: seeds could only show that it does not
        wanting = [one for one in wanting if one.reading.t < 0]
    comparisons = sum(d.comparisons for d in found)
    return Decision(best.answer, p_holds, p_fails, p_above, p_below, best.by, comparisons, tuple(wanting))


def any_of(found: Sequence[Decision]) -> Decision:
    """Decide what needs one of its parts, each of which had its part of the level for `holds`."""
    p_holds, p_fails = min(1.0, len(found) * min(d.p_holds for d in found)), max(d.p_fails for d in found)
    p_above, p_below = min(1.0, len(found) * min(d.p_above for d in found)), max(d.p_below for d in found)
    undecided = [d for d in found if d.answer == "not decided"]
    wanting = [one for d in undecided for one in d.wanting]
    if holding := [d for d in found if d.answer == "holds"]:
        best, wanting = min(holding, key=_p_holds), []
    elif undecided:
        best = min(undecided, key=_p_holds)
    else:
        alike = [d for d in found if d.answer == "alike"]
        best = _least_clear(alike) if alike else max(found, key=_p_fails)
    comparisons = sum(d.comparisons for d in found)
    return Decision(best.answer, p_holds, p_fails, p_above, p_below, best.by, comparisons, tuple(wanting))


def _least_clear(found: Sequence[Decision]) -> Decision:
    """Return the least clear of the parts that are alike, or else of those that hold."""
    alike = [d for d in found if d.answer == "alike"]
    return max(alike, key=lambda d: d.p_alike) if alike else max(found, key=_p_holds)


def _p_holds(decision: Decision) -> tuple[float, float]:
    return decision.p_holds, -_effect(decision)


def _p_fails(decision: Decision) -> tuple[float, float]:
    return decision.p_fails, _effect(decision)


def _effect(decision: Decision) -> float:
    # Of equal p-values, as those of values without randomness are, the effect tells which is the less clear one.
    return float(np.nan_to_num(decision.by.reading.effect, nan=0.0, posinf=np.inf, neginf=-np.inf))
