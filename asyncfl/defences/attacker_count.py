"""The number of attackers f that a rule tolerates in a buffer, with the messages for numbers that are too large."""

import math
from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from asyncfl.base.component import Described
from asyncfl.base.errors import Fault
from asyncfl.base.quantities import MeasuredIn


class AttackerCount(Described):
    """Base class of rules that assume that f of a buffer's updates are poisoned."""

    byzantine: Literal["auto"] | Annotated[int, Field(ge=0), MeasuredIn("updates")] = "auto"
    """f: number of poisoned updates per buffer to tolerate, >= 0. `auto`: `expected_share` of the buffer, at most what
    the rule's theory covers. An explicit number beyond the theory is used if the rule can still be computed, and noted.
    With pre-aggregation f counts rows after it."""
    expected_share: Annotated[float, Field(ge=0, lt=1), MeasuredIn("share")] = 0.2
    """Share of the updates that `byzantine: auto` assumes to be poisoned, 0..1."""

    by_theory: ClassVar[tuple[int, int]]
    """(a, b): the rule's theory requires n >= a f + b updates."""
    computable: ClassVar[tuple[int, int]]
    """(a, b): the rule can be computed if n >= a f + b."""

    @staticmethod
    def most(n: int, bound: tuple[int, int]) -> int:
        """Return the largest f >= 0 with n >= a f + b, `bound` being (a, b)."""
        return max(0, (n - bound[1]) // bound[0])

    @property
    def poisoned(self) -> float:
        """Share of the rows that are expected to be poisoned."""
        return self.expected_share

    def _expected(self, n: int) -> int:
        # Round half up: Python rounds half to even, 2.5 to 2 and 3.5 to 4.
        return math.floor(self.poisoned * n + 0.5 + 1e-9)

    def attackers(self, n: int) -> int:
        """Return f for n rows, at most what can be computed."""
        if self.byzantine == "auto":
            return min(self._expected(n), self.most(n, self.by_theory))
        return min(self.byzantine, self.most(n, self.computable))

    def count_faults(self, n: int) -> Iterator[Fault]:
        """Yield a fault if the rule cannot be computed with `byzantine` from n rows."""
        if self.byzantine != "auto" and self.byzantine > (most := self.most(n, self.computable)):
            got = f"must be at most {most} with {n} updates in a buffer, got {self.byzantine}"
            yield Fault("byzantine", f"{got}; lower it, write auto, or let the buffer hold more")

    def count_lowered(self, n: int) -> tuple[str, ...]:
        """Return a note if `byzantine` is lowered because the rule cannot be computed with it from n rows."""
        if self.byzantine == "auto" or self.byzantine <= (most := self.most(n, self.computable)):
            return ()
        return (f"{type(self).__name__}: byzantine {self.byzantine} lowered to {most} for a buffer of {n}",)

    def count_notes(self, n: int) -> list[str]:
        """Return a note if f with n rows is beyond the theory, or the theory limited `auto`."""
        each, more = self.by_theory
        expected, most = self._expected(n), self.most(n, self.by_theory)
        theory = f"n >= {each}f + {more}"
        if self.byzantine != "auto" and self.byzantine > most:
            return [f"byzantine {self.byzantine} is beyond the theory ({theory}) with {n} updates in a buffer"]
        if self.byzantine == "auto" and expected > most:
            return [f"byzantine auto allows for {most} attackers, not {expected}, of {n} updates: {theory}"]
        if n < more:
            return [f"a buffer of {n} updates is too small for the theory, even without attackers: {theory}"]
        return []
