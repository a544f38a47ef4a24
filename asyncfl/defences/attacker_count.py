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

    def attackers(self, n: int, share: float | None = None, *, lower: bool = False) -> int:
        """Return f for n updates.

        `share`: share of poisoned rows after pre-aggregation, in place of `expected_share`; None: no pre-aggregation.
        `lower`: whether to lower `byzantine` to the largest computable number.

        Raises:
            ValueError: the rule cannot be computed with `byzantine`, and `lower` is False.
        """
        if self.byzantine == "auto":
            # Round half up: Python rounds half to even, 2.5 to 2 and 3.5 to 4.
            guessed = math.floor((self.expected_share if share is None else share) * n + 0.5 + 1e-9)
            return max(0, min(guessed, self.max_by_theory(n)))
        if self.byzantine > self.max_computable(n) and not lower:
            raise ValueError(self.refusal(n))
        return min(self.byzantine, self.max_computable(n))

    def refusal(self, n: int) -> str:
        """Return the message for a `byzantine` with which the rule cannot be computed from n updates."""
        return (
            f"byzantine must be at most {self.max_computable(n)} with {n} updates in a buffer, got {self.byzantine}; "
            "lower it, write auto, or let the buffer hold more"
        )

    def count_faults(self, n: int) -> Iterator[Fault]:
        """Yield a fault if the rule cannot be computed with `byzantine` from n updates."""
        if self._is_too_many(n):
            yield Fault("", self.refusal(n))

    def _is_too_many(self, n: int) -> bool:
        """Whether the rule cannot be computed from n updates with an explicit `byzantine`."""
        return self.byzantine != "auto" and self.byzantine > self.max_computable(n)

    def lower_to(self, n: int) -> tuple[Self, tuple[str, ...]]:
        """Return this with `byzantine` lowered to the largest number that is computable from n updates, and a note;
        itself and no note if `byzantine` is not larger."""
        if not self._is_too_many(n):
            return self, ()
        count = self.attackers(n, lower=True)
        note = f"{type(self).__name__}: byzantine {self.byzantine} lowered to {count} for a buffer of {n}"
        return self.model_copy(update={"byzantine": count}), (note,)

    def count_notes(self, n: int, share: float | None = None) -> list[str]:
        """Return notes for the user if f with n updates is beyond the theory, or `auto` was limited by the theory; an
        empty list otherwise. `share`: as for `attackers`."""
        if self.byzantine != "auto":
            if self.byzantine > self.max_by_theory(n):
                return [f"byzantine {self.byzantine} is beyond the theory ({self.theory}) with {n} updates in a buffer"]
            return []
        expected = math.floor((self.expected_share if share is None else share) * n + 0.5 + 1e-9)
        used = self.attackers(n, share)
        if used < expected:
            return [f"byzantine auto allows for {used} attackers, not {expected}, of {n} updates: {self.theory}"]
        return []
