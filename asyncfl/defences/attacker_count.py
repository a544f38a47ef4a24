"""The number of attackers f that a rule tolerates in a buffer, with the messages for numbers that are too large."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal, Self

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

    theory: ClassVar[str] = ""
    """Condition of the rule's theory for messages, such as `n >= 2f + 3`."""

    def max_by_theory(self, n: int) -> int:
        """Return the largest f that the rule's theory covers with n updates."""
        raise NotImplementedError

    def max_computable(self, n: int) -> int:
        """Return the largest f with which the rule can be computed from n updates."""
        raise NotImplementedError

    def _expected(self, n: int, share: float | None) -> int:
        # Round half up: Python rounds half to even, 2.5 to 2 and 3.5 to 4.
        return math.floor((self.expected_share if share is None else share) * n + 0.5 + 1e-9)

    def attackers(self, n: int, share: float | None = None) -> int:
        """Return f for n updates.

        `share`: share of poisoned rows after pre-aggregation, in place of `expected_share`; None: no pre-aggregation.

        Raises:
            ValueError: the rule cannot be computed with `byzantine`.
        """
        if self.byzantine == "auto":
            return max(0, min(self._expected(n, share), self.max_by_theory(n)))
        for fault in self.count_faults(n):
            raise ValueError(fault.message)
        return self.byzantine

    def count_faults(self, n: int) -> Iterator[Fault]:
        """Yield a fault if the rule cannot be computed with `byzantine` from n updates."""
        most = self.max_computable(n)
        if self.byzantine != "auto" and self.byzantine > most:
            yield Fault(
                "",
                f"byzantine must be at most {most} with {n} updates in a buffer, got {self.byzantine}; "
                "lower it, write auto, or let the buffer hold more",
            )

    def lower_to(self, n: int) -> tuple[Self, tuple[str, ...]]:
        """Return this with `byzantine` lowered to the largest number that is computable from n updates, and a note;
        itself and no note if `byzantine` is not larger."""
        most = self.max_computable(n)
        if self.byzantine == "auto" or self.byzantine <= most:
            return self, ()
        note = f"{type(self).__name__}: byzantine {self.byzantine} lowered to {most} for a buffer of {n}"
        return self.model_copy(update={"byzantine": most}), (note,)

    def count_notes(self, n: int, share: float | None = None) -> list[str]:
        """Return notes for the user if f with n updates is beyond the theory, or `auto` was limited by the theory; an
        empty list otherwise. `share`: as for `attackers`."""
        if self.byzantine != "auto":
            if self.byzantine > self.max_by_theory(n):
                return [f"byzantine {self.byzantine} is beyond the theory ({self.theory}) with {n} updates in a buffer"]
            return []
        expected, used = self._expected(n, share), self.attackers(n, share)
        if used < expected:
            return [f"byzantine auto allows for {used} attackers, not {expected}, of {n} updates: {self.theory}"]
        return []
